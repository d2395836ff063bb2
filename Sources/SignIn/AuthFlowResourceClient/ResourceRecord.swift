import AuthFlowEssentials
import AuthFlowHTTP
import AuthFlowJSON

/// The stored record of a protected resource, which names the sign-ins whose tokens may be in the store, so that a
/// sign-out removes their tokens.
struct ResourceRecord: Sendable, Hashable {
    /// The last sign-in; nil when no user has signed in.
    private(set) var current: KnownResource?
    /// Other sign-ins: unsuccessful, or with a server or client that the resource no longer uses.
    private(set) var others: [KnownResource] = []
    /// The sign-ins that have begun, and have neither succeeded nor failed. A process that is killed leaves its sign-in here.
    private(set) var unfinished: [Unfinished] = []

    /// A sign-in that may still store tokens.
    struct Unfinished: Sendable, Hashable {
        /// Distinguishes the sign-ins of several processes.
        let id: String
        let signIn: KnownResource
        /// The time after which its process, if it still exists, has given up.
        let end: Date
    }

    /// The maximum number of other sign-ins, and of unfinished sign-ins.
    private static let limit = 16

    /// Decodes the output of ``bytes``. A record that cannot be decoded is treated as empty.
    init(_ bytes: [UInt8]?) {
        guard let json = bytes.flatMap({ try? JSON(parsing: $0) }) else { return }
        current = KnownResource(json)
        others = (json["others"]?.array ?? []).compactMap { KnownResource($0) }
        unfinished = (json["unfinished"]?.array ?? []).compactMap { json in
            guard let signIn = KnownResource(json), let end = json["end"]?.number else { return nil }
            return Unfinished(id: json["id"]?.string ?? "", signIn: signIn, end: Date(secondsSince1970: end))
        }
    }

    /// The record to store; nil when there are no sign-ins.
    var bytes: [UInt8]? {
        get throws {
            guard !all.isEmpty else { return nil }
            var members = current?.json.object ?? [:]
            if !others.isEmpty { members["others"] = .array(others.map(\.json)) }
            if !unfinished.isEmpty {
                members["unfinished"] = .array(
                    unfinished.map { unfinished in
                        var members = unfinished.signIn.json.object ?? [:]
                        members["id"] = .string(unfinished.id)
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

    /// Records the start of a sign-in.
    mutating func begin(_ signIn: Unfinished, at now: Date) {
        unfinished.removeAll { $0.end < now && $0.signIn.sharesTokens(with: signIn.signIn) }
        unfinished = (unfinished + [signIn]).suffix(Self.limit)
    }

    /// Records the success of a sign-in. The tokens of the other sign-ins must be removed.
    /// - Parameter id: The identifier of the unfinished sign-in. After a lost lease, another process may have an unfinished sign-in, too.
    mutating func use(_ known: KnownResource, finishing id: String? = nil) {
        others = (others + [current].compactMap { $0 }).filter { !$0.sharesTokens(with: known) }
        current = known
        unfinished.removeAll { $0.id == id }
    }

    /// Records the failure of a sign-in.
    mutating func fail(_ id: String) {
        guard let failed = unfinished.first(where: { $0.id == id })?.signIn else { return }
        unfinished.removeAll { $0.id == id }
        if !all.contains(where: failed.sharesTokens) { others = (others + [failed]).suffix(Self.limit) }
    }

    /// Records the removal of the tokens of a sign-in.
    /// - Parameter now: The time; nil to remove unfinished sign-ins as well. Otherwise, an unfinished sign-in, which may still store tokens,
    ///   remains recorded until its end.
    mutating func remove(_ known: KnownResource, at now: Date?) {
        if current?.sharesTokens(with: known) == true { current = nil }
        others.removeAll { $0.sharesTokens(with: known) }
        unfinished.removeAll { unfinished in
            // After a clock was set back, the end may be far away.
            let isOver = now.map { !($0...($0 + 86_400)).contains(unfinished.end) } ?? true
            return isOver && unfinished.signIn.sharesTokens(with: known)
        }
    }
}
