public import AuthFlow
public import AuthFlowEssentials
import Synchronization

/// An Okta org for testing and development: an org authorization server, and a custom one named `default` that supports native SSO.
///
/// It wraps two ``OIDCEmulator``s, served at Okta's URLs, and adds behavior from Okta's documentation: errors in two
/// formats, rate limits, `api://default`, and persistent refresh tokens.
public final class OktaEmulator: ProviderEmulator {
    /// The custom authorization server, for tests to configure.
    public let custom: OIDCEmulator

    /// The org authorization server, which does not support native SSO.
    public let org: OIDCEmulator

    /// The origin of the org, such as `https://dev-1.okta.com`.
    public let origin: String

    public var origins: [String] { [origin] }

    /// The number of requests remaining until the rate limit is reached; nil for no limit.
    public var remainingCalls: Int? {
        get { state.withLock { $0.remainingCalls } }
        set { state.withLock { $0.remainingCalls = newValue } }
    }

    /// The error response to every token request; nil for the regular responses.
    public var tokenError: Failure? {
        get { state.withLock { $0.tokenError } }
        set { state.withLock { $0.tokenError = newValue } }
    }

    /// An error in one of Okta's two formats.
    public struct Failure: Sendable {
        /// The format.
        public enum Shape: Sendable, Hashable {
            /// `error` and `error_description`.
            case oauth
            /// `errorCode`, `errorSummary`, `errorLink`, `errorId` and `errorCauses`.
            case okta
        }

        /// The code.
        public var code: String
        /// The description.
        public var words: String
        /// The HTTP status.
        public var status: Int
        /// The format.
        public var shape: Shape
        /// The causes (`errorCauses`), in Okta's format.
        public var causes: [String]

        /// Creates an error.
        public init(_ code: String, _ words: String, status: Int = 400, shape: Shape = .oauth, causes: [String] = []) {
            self.code = code
            self.words = words
            self.status = status
            self.shape = shape
            self.causes = causes
        }
    }

    private struct State {
        var remainingCalls: Int?
        var tokenError: Failure?
    }

    private let state = Mutex(State())
    private let now: @Sendable () -> Date

    /// Two apps of one vendor, `mail` and `calendar`.
    public static let apps = ["mail", "calendar"].map {
        OIDCEmulator.Client(id: $0, redirectURIs: ["http://127.0.0.1/callback", "com.example.\($0):/callback"])
    }

    /// Creates an org.
    /// - Parameters:
    ///   - origin: The origin of the org.
    ///   - clients: The registered apps.
    ///   - now: The clock for issue and expiry times.
    public init(
        origin: String,
        clients: [OIDCEmulator.Client] = OktaEmulator.apps,
        now: @escaping @Sendable () -> Date = { Date() }
    ) throws {
        self.origin = origin
        self.now = now
        self.custom = try OIDCEmulator(issuer: "\(origin)/oauth2/default", clients: clients, now: now)
        self.org = try OIDCEmulator(issuer: origin, clients: clients, now: now)
        custom.nativeSSO = NativeSSOSettings(audience: "api://default")
        for server in [custom, org] {
            server.allowsPublicIntrospection = true
            server.signingAlgorithm = .rs256
            // "Refresh token rotation ... native apps: persistent".
            server.refreshPolicy = .notRotated
        }
    }

    /// Okta's paths, with the corresponding paths of the wrapped emulator.
    private static let paths = [
        "/v1/authorize": "/authorize", "/v1/token": "/token", "/v1/keys": "/jwks", "/v1/userinfo": "/userinfo",
        "/v1/logout": "/end_session", "/v1/revoke": "/revoke", "/v1/introspect": "/introspect",
        "/v1/device/authorize": "/device_authorization", "/device": "/device", "/activate": "/device",
        "/.well-known/openid-configuration": "/.well-known/openid-configuration", "/login": "/login",
        "/consent": "/consent",
    ]

    /// Handles a request.
    public func handle(_ request: HTTPRequest, body: [UInt8]) async -> TransportResponse {
        let target = request.path ?? "/"
        let path = String(target.prefix { $0 != "?" })
        // The org server's endpoints are below /oauth2, although its issuer has no path.
        let isCustom = path.hasPrefix("/oauth2/default/")
        let isPage = ["/login", "/consent", "/device", "/activate"].contains(path)
        let prefix = isCustom ? "/oauth2/default" : path.hasPrefix("/oauth2/v1/") ? "/oauth2" : ""
        let rest = String(path.dropFirst(prefix.count))
        guard let known = Self.paths[rest] else {
            return failure(
                Failure("E0000007", "Not found: Resource not found: (AuthorizationServer)", status: 404, shape: .okta)
            )
        }
        if let limited = limited(isExempt: rest.hasPrefix("/.well-known") || rest == "/v1/keys") { return limited }
        if known == "/token", let error = tokenError { return failure(error) }
        var request = request
        let query = FormURLEncoding.decode(target.dropFirst(path.count + 1)) ?? [:]
        let isOfOrg = org.isWaiting(for: body.form["request"]) || org.isWaiting(forUserCode: query["user_code"])
        let server = isCustom || isPage && !isOfOrg ? custom : org
        request.path = (isCustom ? "/oauth2/default" : "") + known + target.dropFirst(path.count)
        // A DPoP proof contains the URL that the client requested.
        let response = await server.handle(request, body: body, calledAt: "\(origin)\(path)")
        return rest.hasPrefix("/.well-known") ? described(response, isCustom: isCustom) : response
    }

    /// The discovery document, with Okta's URLs.
    private func described(_ response: TransportResponse, isCustom: Bool) -> TransportResponse {
        guard response.status == 200, var document = (try? JSON(parsing: response.body))?.object else {
            return response
        }
        let base = isCustom ? "\(origin)/oauth2/default" : "\(origin)/oauth2"
        for (name, path) in [
            "authorization_endpoint": "authorize", "token_endpoint": "token", "jwks_uri": "keys",
            "userinfo_endpoint": "userinfo", "end_session_endpoint": "logout", "revocation_endpoint": "revoke",
            "introspection_endpoint": "introspect", "device_authorization_endpoint": "device/authorize",
        ] { document[name] = .string("\(base)/v1/\(path)") }
        document["registration_endpoint"] = .string("\(origin)/oauth2/v1/clients")
        document["id_token_signing_alg_values_supported"] = ["RS256"]
        // As in Okta's documentation, token exchange is not advertised, and native SSO is advertised only by its scope.
        document["grant_types_supported"] = ["authorization_code", "refresh_token", "password"]
        let scopes = ["openid", "profile", "email", "address", "phone", "offline_access"]
        document["scopes_supported"] = .array((scopes + (isCustom ? ["device_sso"] : ["groups"])).map(JSON.string))
        document["authorization_response_iss_parameter_supported"] = nil
        return .json(.object(document))
    }

    private func limited(isExempt: Bool) -> TransportResponse? {
        let isExhausted = state.withLock { state in
            guard !isExempt, let remaining = state.remainingCalls else { return false }
            state.remainingCalls = max(0, remaining - 1)
            return remaining == 0
        }
        guard isExhausted else { return nil }
        var response = failure(
            Failure("E0000047", "API call exceeded rate limit due to too many requests.", status: 429, shape: .okta)
        )
        let reset = Int64(now().timeIntervalSince1970) + 60
        // Header field names are case-insensitive.
        for (name, value) in [
            ("x-rate-limit-limit", "600"), ("X-RATE-LIMIT-REMAINING", "0"), ("X-Rate-Limit-Reset", "\(reset)"),
        ] { response.head.headerFields[HTTPField.Name(known: name)] = value }
        return response
    }

    private func failure(_ failure: Failure) -> TransportResponse {
        let status = HTTPResponse.Status(code: failure.status)
        switch failure.shape {
        case .oauth:
            return .json(["error": .string(failure.code), "error_description": .string(failure.words)], status: status)
        case .okta:
            return .json(
                [
                    "errorCode": .string(failure.code), "errorSummary": .string(failure.words),
                    "errorLink": .string(failure.code), "errorId": "oaeQdc5IvrlSGGnewf-cqqDqA",
                    "errorCauses": .array(failure.causes.map { ["errorSummary": .string($0)] }),
                ],
                status: status
            )
        }
    }
}
