public import AuthFlow
public import AuthFlowEssentials
import Synchronization

/// A protected resource that is an MCP server, and the authorization servers that it trusts, at one origin.
///
/// Its user consents immediately, so the response to an authorization request is a redirect. A client's violations of
/// the rules are recorded in ``violations``; ``settings`` determine the behavior of the resource, including its faults.
///
/// ```swift
/// let emulator = ProtectedResourceEmulator(origin: "https://api.example.com")
/// emulator.settings.toolScopes = ["mcp:write"]
/// ```
public final class ProtectedResourceEmulator: ProviderEmulator {
    /// The origin.
    public let origin: String

    /// The URL of the MCP server, which is the resource.
    public var resource: String { origin + settings.endpoint }

    let now: @Sendable () -> Date
    /// The transport for client ID metadata documents; nil if every client with such a document is accepted.
    let documents: (any HTTPTransport)?
    let state = Mutex(State())
    private let currentSettings: Mutex<ResourceSettings>

    /// Creates an emulator.
    /// - Parameters:
    ///   - origin: The origin.
    ///   - settings: The settings; default: standards-compliant behavior.
    ///   - documents: The transport for client ID metadata documents; default: no
    ///     document is fetched, and every client with such a document is accepted.
    ///   - now: The emulator's clock.
    public init(
        origin: String,
        settings: ResourceSettings = ResourceSettings(),
        documents: (any HTTPTransport)? = nil,
        now: @escaping @Sendable () -> Date = { Date() }
    ) {
        self.origin = origin
        self.documents = documents
        self.now = now
        self.currentSettings = Mutex(settings)
    }

    /// The settings; changes apply to subsequent requests.
    public var settings: ResourceSettings {
        get { currentSettings.withLock { $0 } }
        set { currentSettings.withLock { $0 = newValue } }
    }

    /// The client's violations of the rules.
    public var violations: [String] { state.withLock { $0.violations } }

    /// The requests so far: method and path.
    public var requests: [String] { state.withLock { $0.requests } }

    /// The scopes of each authorization request so far.
    public var authorizations: [[String]] { state.withLock { $0.authorizations } }

    /// The number of registrations so far.
    public var registrations: Int { state.withLock { $0.registrations } }

    /// The number of first uses of refresh tokens, and the number of reuses.
    public var refreshes: (used: Int, reused: Int) { state.withLock { ($0.refreshes, $0.reuses) } }

    public var origins: [String] { [origin] }

    struct State {
        var requests: [String] = []
        var violations: [String] = []
        var authorizations: [[String]] = []
        /// `acr_values` of the last authorization request; nil if it had no `max_age`.
        var requestedACR: String?
        var registrations = 0
        var refreshes = 0
        var reuses = 0
        var clients: [String: Client] = [:]
        var codes: [String: Code] = [:]
        var accessTokens: [String: Grant] = [:]
        var refreshTokens: [String: Grant] = [:]
        var usedRefreshTokens: [String: String] = [:]
        var usedProofs: Set<String> = []
        var assertions: Set<String> = []
        var identityAssertions: [String: String] = [:]
        var sessions: Set<String> = []
        var refusals = 0
        /// The number of tool calls with a valid token.
        var calls = 0
        /// The remainders of interrupted streams, by last event ID.
        var streams: [String: String] = [:]
        var brokenAt = Date.distantPast
    }

    /// A registered client.
    struct Client {
        let id: String
        var secret: String?
        var method: String
        /// The path of the issuer with which the client is registered.
        var issuer: String
        var redirectURIs: [String]
        /// The registration access token; nil if the registration cannot be deleted.
        var managementToken: String?
    }

    struct Code {
        let clientID: String
        let issuer: String
        let redirectURI: String
        let challenge: String
        let scopes: [String]
        let resource: String?
        let thumbprint: String?
    }

    struct Grant {
        let clientID: String
        let issuer: String
        let scopes: [String]
        let resource: String?
        let expiresAt: Date
        let family: String
        var thumbprint: String?
    }

    func note(_ violation: String) { state.withLock { $0.violations.append(violation) } }

    /// Records a violation unless a condition holds.
    func expect(_ condition: Bool, _ violation: @autoclosure () -> String) { if !condition { note(violation()) } }

    /// Revokes every access token.
    public func revokeAccessTokens() { state.withLock { $0.accessTokens = [:] } }

    /// Removes every client, as if a server that stores its clients in memory were restarted.
    public func removeClients() {
        state.withLock { ($0.clients, $0.codes, $0.accessTokens, $0.refreshTokens) = ([:], [:], [:], [:]) }
    }

    /// Ends every session of the MCP server.
    public func endSessions() { state.withLock { $0.sessions = [] } }

    public func handle(_ request: HTTPRequest, body: [UInt8]) async -> TransportResponse {
        let received = ReceivedRequest(request, body: body, time: now())
        let settings = settings
        state.withLock { $0.requests.append("\(request.method.rawValue) \(received.path)") }
        if received.path == settings.endpoint || received.path + "/" == settings.endpoint {
            return mcp(received, body, settings)
        }
        if let response = metadata(received.path, settings) { return response }
        for issuer in settings.issuerPaths {
            switch received.path {
            case "\(issuer)/authorize": return await authorize(received, issuer, settings)
            case "\(issuer)/token": return token(received, issuer, settings)
            case "\(issuer)/register" where settings.registers: return register(body, issuer, settings)
            case let path where path.hasPrefix("\(issuer)/register/") && request.method == .delete:
                return deleteRegistration(String(path.dropFirst("\(issuer)/register/".count)), received, settings)
            default: continue
            }
        }
        switch received.path {
        case "/idp/token": return identityProviderToken(received, settings)
        default: return Self.notFound
        }
    }

    static var notFound: TransportResponse { TransportResponse(head: HTTPResponse(status: .notFound)) }

    // MARK: Metadata

    /// The path of the origin's metadata (RFC 9728 section 3).
    static let wellKnown = "/.well-known/oauth-protected-resource"

    private func metadata(_ path: String, _ settings: ResourceSettings) -> TransportResponse? {
        let wellKnown = Self.wellKnown
        switch (path, settings.metadataPlace) {
        case (wellKnown + settings.endpoint, .path), (wellKnown, .root): return .json(resourceMetadata(settings))
        case (let path, .custom(let place)) where path == place: return .json(resourceMetadata(settings))
        case (wellKnown, .path), (wellKnown, .custom):
            // Conformance "metadata-default": the challenge's URL takes precedence, and the root must not be requested.
            expect(
                !settings.challengeNamesMetadata,
                "protected resource metadata was requested from the root instead of the URL in the challenge"
            )
            return Self.notFound
        default: break
        }
        for issuer in settings.issuerPaths {
            let places: [ResourceSettings.ServerMetadata: String] = [
                .oauthInserted: "/.well-known/oauth-authorization-server\(issuer)",
                .openIDInserted: "/.well-known/openid-configuration\(issuer)",
                .openIDAppended: "\(issuer)/.well-known/openid-configuration",
            ]
            guard places.values.contains(path) else { continue }
            let isServed = settings.serverMetadata.contains { places[$0] == path }
            return isServed ? .json(serverMetadata(issuer, settings)) : Self.notFound
        }
        if path == "/.well-known/oauth-authorization-server" || path == "/.well-known/openid-configuration" {
            note("the metadata of an issuer with a path was requested from the root")
            return Self.notFound
        }
        return nil
    }

    private func resourceMetadata(_ settings: ResourceSettings) -> JSON {
        let calls = state.withLock { $0.calls }
        let issuers =
            settings.migratesAfterFirstCall && calls > 0
            ? Array(settings.issuerPaths.dropFirst()) : [settings.issuerPaths[0]]
        var json: [String: JSON] = [
            "resource": .string(settings.resource ?? (settings.metadataPlace == .root ? origin : resource)),
            "authorization_servers": .array(issuers.map { .string(settings.authorizationServer ?? origin + $0) }),
            "bearer_methods_supported": ["header"],
        ]
        json["scopes_supported"] = settings.supportedScopes.map { .array($0.map(JSON.string)) }
        if settings.dpop != .none { json["dpop_signing_alg_values_supported"] = ["ES256"] }
        return .object(json)
    }

    private func serverMetadata(_ issuer: String, _ settings: ResourceSettings) -> JSON {
        let base = origin + issuer
        var json: [String: JSON] = [
            "issuer": .string(settings.issuerInMetadata ?? base),
            "authorization_endpoint": .string("\(settings.authorizationOrigin ?? base)/authorize"),
            "token_endpoint": .string("\(base)/token"),
            "response_types_supported": ["code"], "grant_types_supported": ["authorization_code", "refresh_token"],
            "authorization_response_iss_parameter_supported": .bool(settings.advertisesIssuer),
            "token_endpoint_auth_methods_supported": .array(settings.authenticationMethods.map(JSON.string)),
        ]
        json["code_challenge_methods_supported"] = settings.codeChallengeMethods.map { .array($0.map(JSON.string)) }
        if settings.registers { json["registration_endpoint"] = .string("\(base)/register") }
        if settings.supportsMetadataDocuments { json["client_id_metadata_document_supported"] = true }
        json["scopes_supported"] = settings.serverScopes.map { .array($0.map(JSON.string)) }
        if settings.dpop != .none { json["dpop_signing_alg_values_supported"] = ["ES256"] }
        return .object(json)
    }
}
