public import AuthFlow
public import AuthFlowEssentials
import Synchronization

/// An OpenID provider for testing and development: discovery, sign-in and consent pages, tokens, keys, userinfo and sign-out.
///
/// It is stricter than some real providers: it rejects an invalid redirect URI, code verifier or client authentication,
/// and a reused code. The same handler works in process (``InProcessTransport``) and over a socket
/// (``EmulatorServer``). Never expose it to untrusted clients, because its passwords are in its source code.
@dynamicMemberLookup public final class OIDCEmulator: ProviderEmulator {
    /// The issuer.
    public let issuer: String

    let users: [User]
    let userIndexes: [String: Int]
    let now: @Sendable () -> Date
    let state: Mutex<State>

    /// Creates a provider.
    /// - Parameters:
    ///   - issuer: The issuer, which is also the emulator's URL.
    ///   - users: The users who can sign in.
    ///   - clients: The registered clients.
    ///   - now: The clock for issue and expiry times.
    public init(
        issuer: String,
        users: [User] = [.alice, .bob],
        clients: [Client] = [.demo],
        now: @escaping @Sendable () -> Date = { Date() }
    ) throws {
        self.issuer = issuer
        self.users = users
        self.userIndexes = Dictionary(users.enumerated().map { ($0.element.username, $0.offset) }) { first, _ in first }
        self.now = now
        self.state = Mutex(State(keys: try EmulatorKeys(), clients: clients))
    }

    /// Replaces the signing keys with new keys. Without `keepsKeyIDs`, the RSA key gets only a new key ID.
    /// - Parameter keepsKeyIDs: Whether the new keys reuse the key IDs of the old keys, as in an incorrect rotation; default:
    ///   false.
    public func rotateKeys(keepsKeyIDs: Bool = false) throws {
        let keys = keepsKeyIDs ? try state.withLock { $0.keys }.decoys() : try EmulatorKeys()
        state.withLock { $0.keys = keys }
    }

    public var origins: [String] { [(try? Endpoint(issuer))?.origin ?? issuer] }

    /// Whether this authorization request is waiting for the user on one of this provider's pages.
    func isWaiting(for request: String?) -> Bool { state.withLock { $0.pending[request ?? ""] != nil } }

    /// Whether this provider has issued a user code.
    func isWaiting(forUserCode userCode: String?) -> Bool {
        state.withLock { $0.deviceCodes.entered(userCode ?? "") != nil }
    }

    /// The base URL of the endpoints: the issuer without a trailing slash.
    var base: String { issuer.hasSuffix("/") ? String(issuer.dropLast()) : issuer }

    /// The base path of the endpoints, which is the path of the issuer.
    private var pathPrefix: String {
        let path = (try? Endpoint(issuer))?.path ?? ""
        return path.hasSuffix("/") ? String(path.dropLast()) : path
    }

    var clients: [Client] { state.withLock { $0.clients } }

    /// Handles a request.
    public func handle(_ request: HTTPRequest, body: [UInt8]) async -> TransportResponse {
        var response = await handle(request, body: body, calledAt: "\(origins.first ?? "")\(request.path ?? "")")
        // RFC 9110 section 6.6.1: "An origin server with a clock ... MUST generate a Date header field".
        if response.head.headerFields[.date] == nil { response.head.headerFields[.date] = HTTPDate.text(now()) }
        return response
    }

    /// Handles a request.
    /// - Parameter address: The URL that the client requested, which DPoP proofs contain.
    func handle(_ request: HTTPRequest, body: [UInt8], calledAt address: String) async -> TransportResponse {
        let received = ReceivedRequest(request, body: body, time: now())
        state.withLock { $0.requests.append(received) }
        let response = await standardResponse(to: received, body: body, calledAt: address)
        guard let custom = settings.customResponse else { return response }
        return custom(EmulatedExchange(request: received, response: response, address: address, emulator: self))
    }

    private func standardResponse(
        to received: ReceivedRequest,
        body: [UInt8],
        calledAt address: String
    ) async -> TransportResponse {
        let request = received.request
        let prefix = received.path.hasPrefix(pathPrefix) ? pathPrefix : ""
        let (query, form) = (received.query, received.form)
        var path = received.path.dropFirst(prefix.count)
        if path == "/authorize", let uri = query["request_uri"], uri.hasPrefix("http"),
            let fetch = state.withLock({ $0.settings.fetchesRequestObjects }), let object = try? await fetch(uri)
        {
            state.withLock { $0.fetchedObjects[uri] = object }
        }
        let asksForCertificate = path.hasPrefix("\(Self.certificatePrefix)/")
        if asksForCertificate {
            guard Self.thumbprint(of: request) != nil else {
                return .json(["error": "invalid_client"], status: .unauthorized)
            }
            path = path.dropFirst(Self.certificatePrefix.count)
        }
        switch (request.method, String(path)) {
        case (.get, "/.well-known/openid-configuration"): return metadata()
        case (.get, "/.well-known/webfinger"): return webFinger(query)
        case (.get, "/jwks"): return keySet()
        case (.get, "/authorize"): return authorizationRequest(query, request)
        case (.post, "/login"): return signIn(form)
        case (.post, "/consent"): return consent(form)
        case (.post, "/device_authorization"): return deviceAuthorization(form, request)
        case (.get, "/device"): return devicePage(query, request)
        case (.post, "/token"): return token(form, request, address)
        case (.post, "/par") where settings.pushedRequests != .never: return pushedAuthorization(form, request, address)
        case (.post, "/revoke"): return revoke(form, request)
        case (.post, "/introspect"): return introspect(form, request)
        case (.post, "/register"): return register(request, body)
        case (.get, "/userinfo"), (.post, "/userinfo"): return userInfo(request, address)
        case (.get, "/end_session"): return endSession(query, request)
        case (.get, "/"):
            return .page(
                "AuthFlow test provider",
                "<p>This provider is for testing. Its issuer is \(DisplayText.escapedForHTML(issuer)).</p>"
            )
        default: return .page("Not found", "<p>There is nothing at this URL.</p>", status: .notFound)
        }
    }

    private func endSession(_ query: FormParameters, _ request: HTTPRequest) -> TransportResponse {
        if let secret = query["device_secret"] { _ = endSession(ofSecret: secret) }
        if let session = request.sessionCookie { state.withLock { $0.sessions[session] = nil } }
        guard let target = query["post_logout_redirect_uri"], let endpoint = try? Endpoint(target, name: "redirect"),
            let hint = query["id_token_hint"].flatMap({ (try? JWS(Secret($0)))?.payload["aud"]?.string })
                ?? query["client_id"],
            query["client_id"] == nil || query["client_id"] == hint,
            let client = clients.first(where: { $0.id == hint }), client.accepts(target)
        else { return .page("Signed out", "<p>You are signed out.</p>") }
        var parameters = FormParameters()
        if let state = query["state"] { parameters.append("state", state) }
        settings.fault?.callback.change(&parameters)
        return .redirect(to: endpoint.url(adding: parameters))
    }
}

extension OIDCEmulator.Client {
    /// Whether a redirect URI is registered. URIs are compared exactly, except for the port of a loopback URI.
    func accepts(_ uri: String) -> Bool {
        if redirectURIs.contains(uri) { return true }
        guard let loopback = Self.loopbackWithoutPort(uri) else { return false }
        return redirectURIs.contains { Self.loopbackWithoutPort($0) == loopback }
    }

    /// A loopback URI without its port; nil for any other URI.
    private static func loopbackWithoutPort(_ uri: String) -> String? {
        guard let endpoint = try? Endpoint(uri, name: "redirect URI"), Endpoint.isLoopback(host: endpoint.host),
            endpoint.scheme == "http", endpoint.query == nil
        else { return nil }
        return "http://\(endpoint.host)\(endpoint.path)"
    }
}
