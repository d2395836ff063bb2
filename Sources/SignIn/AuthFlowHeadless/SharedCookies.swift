public import AuthFlow
import AuthFlowEssentials

/// Cookies that several apps of one vendor share on one machine, so that the provider recognizes a user who has signed
/// in to one app when another app starts a sign-in.
///
/// Only cookies with the listed names are shared, and only cookies from one origin. The provider decides what access a
/// cookie grants, and any program that can read the store can use the cookie until it expires.
public struct SharedCookies: Sendable {
    private let store: SharedCredentialStore
    private let origin: Endpoint
    private let names: Set<String>
    private let sharesSessionCookies: Bool
    private let user: String?

    /// Creates a store for cookies.
    /// - Parameters:
    ///   - store: The group and its store. Use an encrypted store.
    ///   - origin: The origin of the cookies, such as `https://id.example.com`.
    ///   - names: The names of the cookies to share.
    ///   - sharingSessionCookiesAtRisk: Whether session cookies are also shared. They are not meant to outlive the
    ///     browser's session, and become invalid only when the provider ends its session.
    ///   - user: The user name with which the app signs in. Cookies from a sign-in with a different user name, or without a configured user name, are
    ///     not used; a sign-out uses the latter too. Default: none; the cookies of any user are used.
    public init(
        store: SharedCredentialStore,
        origin: Endpoint,
        names: [String],
        sharingSessionCookiesAtRisk: Bool = false,
        user: String? = nil
    ) {
        self.store = store
        self.origin = origin
        self.names = Set(names)
        self.sharesSessionCookies = sharingSessionCookiesAtRisk
        self.user = user
    }

    /// The shared cookies at the start of a visit.
    struct Snapshot: Sendable {
        /// The cookies that have not expired.
        let cookies: [Cookie]
        fileprivate let document: RedactedJSON?
    }

    /// The current cookies.
    /// - Parameter purpose: A sign-out also uses cookies whose user is unknown.
    func snapshot(for purpose: RedirectOptions.Purpose, now: Date) async throws -> Snapshot {
        let document = try await store.value(for: origin.origin)
        guard mayUse(document, for: purpose) else { return Snapshot(cookies: [], document: document) }
        let cookies = (document?.exposed["cookies"]?.array ?? [])
            .compactMap { Cookie(stored: $0, origin: origin.origin) }
            .filter { isShareable($0, now: now) }
        return Snapshot(cookies: cookies, document: document)
    }

    /// Replaces the shared cookies with the shareable cookies of a visit, unless another app has changed or removed them
    /// since the visit started, because cookies from before a sign-out must not be shared after it.
    func save(_ cookies: [Cookie], replacing old: Snapshot, now: Date) async throws {
        let shareable = cookies.filter { isShareable($0, now: now) }.map(\.stored)
        var members: [String: JSON] = ["cookies": .array(shareable)]
        members["user"] = user.map(JSON.string)
        let new = shareable.isEmpty ? nil : RedactedJSON(.object(members))
        try await store.change(for: origin.origin) { $0 == old.document ? new : $0 }
    }

    /// Deletes the cookies, for every app in the group. Cookies of any user other than the configured user remain; without a
    /// configured user, cookies that are damaged or cannot be decrypted are deleted, too.
    /// - Throws: ``/AuthFlow/AuthError`` with `storage_failed`.
    public func remove() async throws {
        do {
            try await store.change(for: origin.origin) { mayUse($0, for: .signOut) ? nil : $0 }
        } catch let error as AuthError where error.code == .credentialUnusable && user == nil {
            // Otherwise, every later sign-out would fail, and no later sign-in could share its cookies. With a configured user, they may be
            // another user's.
            try await store.remove(for: origin.origin)
        }
    }

    /// Whether stored cookies may belong to this app's user. With another user's cookies, the provider would continue that user's session
    /// without a prompt.
    private func mayUse(_ document: RedactedJSON?, for purpose: RedirectOptions.Purpose) -> Bool {
        guard let user, let document else { return true }
        return document.exposed["user"]?.string.map { $0.isIdentical(to: user) } ?? (purpose == .signOut)
    }

    /// Whether a cookie may be sent to an endpoint. Shared cookies are sent only to their origin, whereas under
    /// RFC 6265 a cookie is not restricted to a port, and its `Domain` attribute may include subdomains. A cookie with a
    /// shared name that another origin has set is never sent.
    func maySend(_ cookie: Cookie, to endpoint: Endpoint) -> Bool {
        !names.contains(cookie.name) || endpoint.origin == origin.origin && cookie.origin == origin.origin
    }

    /// Cookies that another origin has set for this origin (which is possible within a domain) are not shared.
    private func isShareable(_ cookie: Cookie, now: Date) -> Bool {
        guard names.contains(cookie.name), cookie.origin == origin.origin else { return false }
        return cookie.expiresAt.map { $0 > now } ?? sharesSessionCookies
    }
}

extension Cookie {
    fileprivate var stored: JSON {
        var json: [String: JSON] = [
            "name": .string(name), "value": .string(value.exposed), "domain": .string(domain), "path": .string(path),
            "host_only": .bool(isHostOnly), "secure": .bool(isSecure), "same_site": .string(sameSite.rawValue),
        ]
        json["expires_at"] = expiresAt.map { .double($0.timeIntervalSince1970) }
        return .object(json)
    }

    fileprivate init?(stored json: JSON, origin: String) {
        guard let name = json["name"]?.string, let value = json["value"]?.string, let domain = json["domain"]?.string,
            let path = json["path"]?.string, let isHostOnly = json["host_only"]?.bool,
            let isSecure = json["secure"]?.bool
        else { return nil }
        self.name = name
        self.value = Secret(value)
        self.domain = domain
        self.path = path
        self.isHostOnly = isHostOnly
        self.isSecure = isSecure
        self.sameSite = json["same_site"]?.string.flatMap(SameSite.init) ?? .lax
        self.origin = origin
        self.expiresAt = json["expires_at"]?.number.map(Date.init(secondsSince1970:))
    }
}
