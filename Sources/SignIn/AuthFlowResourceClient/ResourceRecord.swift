import AuthFlowEssentials
import AuthFlowHTTP
import AuthFlowJSON

/// The stored record of a protected resource, which lists the sign-ins whose tokens may be in the store, so that a
/// sign-out removes their tokens.
struct ResourceRecord: Sendable, Hashable {
    /// The last sign-in; nil when no user has signed in.
    private(set) var current: KnownResource?
    /// The identifier of that sign-in; nil when it has none. A later sign-in may be equal in every other respect.
    private(set) var currentID: String?
    /// Other sign-ins: unsuccessful, or with a server or client that the resource no longer uses.
    private(set) var others: [KnownResource] = []
    /// The sign-ins that have started, and have neither succeeded nor failed. The sign-in of a killed process remains in this list.
    private(set) var unfinished: [Unfinished] = []

    /// A sign-in that may still store tokens.
    struct Unfinished: Sendable, Hashable {
        /// Distinguishes the sign-ins of several processes.
        let id: String
        let signIn: KnownResource
        /// The start, in whole seconds: older tokens are not from this sign-in.
        let start: Date
        /// The time after which its process, if it still exists, has abandoned the sign-in.
        let end: Date

        /// The maximum difference between the clocks of two machines, in seconds.
        private static let allowedClockSkew: TimeInterval = 600

        /// Whether its process has abandoned the sign-in. If the sign-in started in the future, the clock has been set back, and the end may be far in
        /// the future, too.
        func isOver(at now: Date) -> Bool { end < now || start > now + Self.allowedClockSkew }
    }

    /// The maximum number of other sign-ins after a failed one is added, and of unfinished sign-ins.
    private static let limit = 16

    /// A record without sign-ins.
    init() {}

    /// Decodes the output of ``bytes``.
    /// - Throws: ``AuthError`` with `credential_unusable` when a sign-in cannot be decoded, because a sign-out would not find its tokens.
    init(_ bytes: [UInt8]?) throws(AuthError) {
        let (record, isComplete) = Self.decoded(bytes)
        guard isComplete else {
            throw AuthError(
                .credentialUnusable,
                "The record of the sign-ins at a resource is damaged, or a newer version wrote it. Sign out locally, which removes it, and sign in again."
            )
        }
        self = record
    }

    /// Decodes the sign-ins that can be decoded, so that their tokens can be removed.
    init(salvaging bytes: [UInt8]?) { self = Self.decoded(bytes).record }

    private static func decoded(_ bytes: [UInt8]?) -> (record: Self, isComplete: Bool) {
        guard let bytes else { return (Self(), true) }
        guard let json = try? JSON(parsing: bytes), let members = json.object else { return (Self(), false) }
        var (record, isComplete) = (Self(), true)
        func signIn(_ json: JSON) -> KnownResource? {
            if let known = KnownResource(json) { return known }
            isComplete = false
            // A newer version may support other identification methods. The tokens are stored under the same key.
            let identification = JSON.string(ClientIdentification.registered.rawValue)
            return KnownResource(.object((json.object ?? [:]).merging(["identification": identification]) { $1 }))
        }
        func list(_ name: String) -> [JSON] {
            guard let value = members[name] else { return [] }
            isComplete = isComplete && value.array != nil
            return value.array ?? []
        }
        if members.keys.contains(where: { $0 != "others" && $0 != "unfinished" }) {
            record.current = signIn(json)
            record.currentID = json["sign_in"]?.string
        }
        record.others = list("others").compactMap(signIn)
        for json in list("unfinished") {
            guard let signIn = signIn(json) else { continue }
            isComplete = isComplete && json["end"]?.number != nil
            let end = Date(secondsSince1970: json["end"]?.number ?? 0)
            let start = json["start"]?.number.map { Date(secondsSince1970: $0) } ?? end
            record.unfinished.append(
                Unfinished(id: json["id"]?.string ?? "", signIn: signIn, start: start, end: end)
            )
        }
        return (record, isComplete && !record.all.isEmpty)
    }

    /// The record to store; nil when there are no sign-ins.
    var bytes: [UInt8]? {
        get throws {
            guard !all.isEmpty else { return nil }
            var members = current?.json.object ?? [:]
            if current != nil { members["sign_in"] = currentID.map(JSON.string) }
            if !others.isEmpty { members["others"] = .array(others.map(\.json)) }
            if !unfinished.isEmpty {
                members["unfinished"] = .array(
                    unfinished.map { unfinished in
                        var members = unfinished.signIn.json.object ?? [:]
                        members["id"] = .string(unfinished.id)
                        members["start"] = .double(unfinished.start.timeIntervalSince1970)
                        members["end"] = .double(unfinished.end.timeIntervalSince1970)
                        return .object(members)
                    }
                )
            }
            return try JSON.object(members).serialized()
        }
    }

    /// All sign-ins: the last successful sign-in, then the others.
    var all: [KnownResource] {
        var all = [current].compactMap { $0 } + others
        for signIn in unfinished.map(\.signIn) where !all.contains(where: signIn.sharesTokens) { all.append(signIn) }
        return all
    }

    /// The recorded sign-in whose tokens a killed process may have stored. Such tokens belong to the record; they are not left over from a sign-out.
    /// - Returns: The sign-in, and its identifier if it is the only possible unfinished one; nil when the record does not name it.
    func names(_ known: KnownResource, signedInAt time: Date) -> (signIn: KnownResource, id: String?)? {
        if let current, current.sharesTokens(with: known) { return (current, nil) }
        let possible = unfinished.filter { $0.signIn.sharesTokens(with: known) && $0.start <= time }
        guard var first = possible.first?.signIn else { return nil }
        guard possible.count > 1 else { return (first, possible[0].id) }
        // It is unknown which of these sign-ins obtained the tokens.
        if possible.contains(where: { $0.signIn.authentication != first.authentication }) {
            first.authentication = RequiredAuthentication()
        }
        return (first, nil)
    }

    /// Records the start of a sign-in.
    mutating func begin(_ signIn: Unfinished, at now: Date) {
        unfinished.removeAll { $0.isOver(at: now) && $0.signIn.sharesTokens(with: signIn.signIn) }
        unfinished = (unfinished + [signIn]).suffix(Self.limit)
    }

    /// Records the success of a sign-in. The tokens of the other sign-ins must be removed.
    /// - Parameters:
    ///   - id: The identifier of the unfinished sign-in. After a lost lease, another process may also have an unfinished sign-in.
    ///   - isStored: Whether the tokens are stored. Otherwise the sign-in remains unfinished, so that it remains recorded if another process
    ///     signs out before the tokens are stored.
    mutating func use(_ known: KnownResource, finishing id: String? = nil, isStored: Bool = true) {
        others = (others + [current].compactMap { $0 }).filter { !$0.sharesTokens(with: known) }
        (current, currentID) = (known, id)
        if isStored { unfinished.removeAll { $0.id == id } }
    }

    /// Records the outcome of a sign-in that did not record it itself, unless a later sign-in has stored its tokens under the same key.
    /// - Parameter previous: The record at the start of the sign-in.
    mutating func finish(_ signIn: Unfinished, hasTokens: Bool, replacing previous: ResourceRecord) {
        guard unfinished.contains(where: { $0.id == signIn.id }) else { return }
        let isLast = current == previous.current && currentID == previous.currentID
        if hasTokens, isLast || current?.sharesTokens(with: signIn.signIn) != true {
            use(signIn.signIn, finishing: signIn.id)
        } else {
            fail(signIn.id)
        }
    }

    /// Removes a sign-in whose tokens were never stored, or have been removed.
    mutating func discard(_ id: String) { unfinished.removeAll { $0.id == id } }

    /// Records the failure of a sign-in.
    mutating func fail(_ id: String) {
        guard let failed = unfinished.first(where: { $0.id == id })?.signIn else { return }
        unfinished.removeAll { $0.id == id }
        if !all.contains(where: failed.sharesTokens) { others = (others + [failed]).suffix(Self.limit) }
    }

    /// Records the removal of the tokens of a sign-in.
    /// - Parameter now: The time; nil to remove unfinished sign-ins as well. Otherwise, an unfinished sign-in, which may still store tokens,
    ///   remains recorded until its end time.
    mutating func remove(_ known: KnownResource, at now: Date?) {
        if current?.sharesTokens(with: known) == true { (current, currentID) = (nil, nil) }
        others.removeAll { $0.sharesTokens(with: known) }
        unfinished.removeAll { unfinished in
            let isOver = now.map(unfinished.isOver) ?? true
            return isOver && unfinished.signIn.sharesTokens(with: known)
        }
    }
}
