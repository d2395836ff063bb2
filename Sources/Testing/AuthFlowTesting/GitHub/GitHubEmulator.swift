public import AuthFlow
public import AuthFlowEssentials
import Synchronization

/// A GitHub emulator for testing and development: sign-in, consent, token responses in three formats, the device flow, and
/// the few REST API calls that sign-in, sign-out and the sample need.
///
/// It behaves as GitHub's documentation describes, including its deviations from the standards: errors with status 200, comma-separated
/// scopes without implied scopes, and no ID Token. With the origin `https://github.com`, its API is at
/// `https://api.github.com`; with any other origin, it is an Enterprise Server with its API at `/api/v3`.
public final class GitHubEmulator: ProviderEmulator {
    /// A user who can sign in.
    public struct User: Sendable {
        /// The account ID.
        public var id: Int64
        /// The user name for signing in, which can change.
        public var login: String
        /// The password.
        public var password: String
        /// The e-mail address.
        public var email: String
        /// Whether the e-mail address is verified.
        public var hasVerifiedEmail = true

        /// `octocat`, with the password `meow`.
        public static let octocat = User(id: 583_231, login: "octocat", password: "meow", email: "octocat@example.com")
        /// `hubot`, with the password `beep`.
        public static let hubot = User(id: 480_938, login: "hubot", password: "beep", email: "hubot@example.com")
    }

    /// A registered app.
    public struct App: Sendable {
        /// The kind of app, which determines the kind of its tokens.
        public enum Kind: Sendable, Hashable {
            /// Tokens have scopes and expire only if the app requests `offline_access`.
            case oauthApp
            /// Tokens have scopes, expire and can be refreshed.
            case expiringOAuthApp
            /// Tokens have no scopes, expire and can be refreshed.
            case gitHubApp
        }

        /// The client ID.
        public var id: String
        /// The secret.
        public var secret: String
        /// The kind of app.
        public var kind: Kind
        /// The callback URL.
        public var callback: String
        /// Whether URLs below the callback URL, and on its subdomains, are also valid callbacks ("wildcard matching").
        public var matchesBelow: Bool
        /// Whether the device flow is enabled.
        public var hasDeviceFlow: Bool

        /// Creates an app.
        public init(
            id: String = "Iv23demo",
            secret: String = "github-demo-secret",
            kind: Kind = .oauthApp,
            callback: String = "http://127.0.0.1/callback",
            matchesBelow: Bool = false,
            hasDeviceFlow: Bool = true
        ) {
            self.id = id
            self.secret = secret
            self.kind = kind
            self.callback = callback
            self.matchesBelow = matchesBelow
            self.hasDeviceFlow = hasDeviceFlow
        }
    }

    /// The format of a response.
    public enum Format: Sendable, Hashable, CaseIterable {
        /// The default, when no other format is requested.
        case form
        /// `Accept: application/json`.
        case json
        /// `Accept: application/xml`.
        case xml
    }

    /// Settings that can be changed while the emulator runs.
    public struct Settings: Sendable {
        /// The fault to inject; nil for none.
        public var fault: EmulatorFault?
        /// The format of the responses of the OAuth endpoints; nil for the requested format.
        public var format: Format?
        /// The HTTP status of the OAuth endpoints' error responses.
        public var errorStatus = 200
        /// Whether the device flow is supported; old Enterprise Servers do not support it.
        public var hasDeviceFlow = true
        /// The scopes that the user deselects on the consent page.
        public var refusedScopes: Set<String> = []
        /// The number of API requests remaining until the rate limit is reached; nil for no limit.
        public var remainingCalls: Int?
        /// The minimum interval between polls with a device code, in seconds.
        public var devicePollInterval = 5.0
        /// The lifetime of expiring access tokens, in seconds.
        public var accessTokenLifetime: Int64 = 28_800
    }

    /// The settings, which can be changed while the emulator runs.
    public var settings: Settings {
        get { state.withLock { $0.settings } }
        set { state.withLock { $0.settings = newValue } }
    }

    /// The requests that the emulator has received, oldest first.
    public var receivedRequests: [ReceivedRequest] { state.withLock { $0.requests } }

    /// The requests that the emulator has received, as `METHOD /path`, oldest first.
    public var requests: [String] { receivedRequests.map { "\($0.request.method) \($0.path)" } }

    /// The access tokens that have not been revoked, including expired ones.
    public var accessTokens: [String] { Array(state.withLock { $0.tokens.keys }) }

    /// The origin of the emulator's pages and OAuth endpoints.
    public let origin: String

    public var origins: [String] { [origin, apiOrigin] }

    let users: [User]
    let apps: [App]
    let now: @Sendable () -> Date
    let state = Mutex(State())
    private let apiOrigin: String
    private let apiPrefix: String

    struct State {
        var settings = Settings()
        var requests: [ReceivedRequest] = []
        var pending: [String: Request] = [:]
        var sessions: [String: Int] = [:]
        var codes: [String: Code] = [:]
        var tokens: [String: Token] = [:]
        var refreshTokens: [String: Token] = [:]
        var grants: [Grant: [String]] = [:]
        var deviceCodes = DeviceCodes<Token>()
        var issued = 0
    }

    /// A user's grant to an app.
    struct Grant: Hashable {
        let user: Int
        let appID: String
    }

    /// A pending authorization request, until the user decides.
    struct Request {
        let parameters: FormParameters
        let appID: String
        /// The requested scopes; nil for the scopes that the user has already granted to the app.
        var scopes: [String]?
        var user: Int?
        var deviceCode: String?
    }

    /// An authorization code that has not been exchanged yet.
    struct Code {
        let request: Request
        let token: Token
        let expiresAt: Date
    }

    /// An issued token, or the values of a token that has not been issued yet.
    struct Token {
        let grant: Grant
        let scopes: [String]
        let isOfDevice: Bool
        /// Whether the app requested `offline_access`.
        let isRefreshable: Bool
        var expiresAt: Date?
        var accessToken = ""
        var number = 0
    }

    /// Creates an emulator.
    /// - Parameters:
    ///   - origin: The origin of the emulator's pages and OAuth endpoints.
    ///   - users: The users who can sign in.
    ///   - apps: The registered apps.
    ///   - now: The clock for issue and expiry times.
    public init(
        origin: String = "https://github.com",
        users: [User] = [.octocat, .hubot],
        apps: [App] = [App()],
        now: @escaping @Sendable () -> Date = { Date() }
    ) {
        self.origin = origin
        self.users = users
        self.apps = apps
        self.now = now
        self.apiOrigin = origin == "https://github.com" ? "https://api.github.com" : origin
        self.apiPrefix = origin == "https://github.com" ? "" : "/api/v3"
    }

    /// Handles a request.
    public func handle(_ request: HTTPRequest, body: [UInt8]) async -> TransportResponse {
        let received = ReceivedRequest(request, body: body, time: now())
        state.withLock { $0.requests.append(received) }
        let isAPI =
            apiOrigin == origin
            ? received.path.hasPrefix(apiPrefix) : apiOrigin.hasSuffix("//\(request.authority ?? "")")
        if isAPI { return api(request, String(received.path.dropFirst(apiPrefix.count)), body) }
        switch (request.method, received.path) {
        case (.get, "/login/oauth/authorize"): return authorize(received)
        case (.post, "/login"): return signIn(received.form)
        case (.post, "/consent"): return consent(received.form)
        case (.post, "/login/oauth/access_token"): return accessToken(received)
        case (.post, "/login/device/code"): return deviceCode(received)
        case (.get, "/login/device"): return devicePage(received)
        default: return .page("Not found", "<p>There is nothing at this URL.</p>", status: .notFound)
        }
    }

    func app(_ id: String?) -> App? { apps.first { $0.id == id } }

    /// A response in the requested format.
    func response(_ members: [String: JSON], to request: HTTPRequest) -> TransportResponse {
        let accept = request.headerFields[.accept] ?? ""
        let asked: Format = accept.contains("json") ? .json : accept.contains("xml") ? .xml : .form
        func text(_ value: JSON) -> String { value.string ?? value.integer.map { "\($0)" } ?? "" }
        let sorted = members.sorted { $0.key < $1.key }
        switch settings.format ?? asked {
        case .json: return .json(.object(members))
        case .form:
            var form = FormParameters()
            for (name, value) in sorted { form.append(name, text(value)) }
            return TransportResponse(
                head: HTTPResponse(
                    status: .ok,
                    headerFields: [.contentType: "application/x-www-form-urlencoded; charset=utf-8"]
                ),
                body: Array(FormURLEncoding.encodeForm(form).utf8)
            )
        case .xml:
            let elements = sorted.map { "  <\($0.key)>\(DisplayText.escapedForHTML(text($0.value)))</\($0.key)>\n" }
            return TransportResponse(
                head: HTTPResponse(status: .ok, headerFields: [.contentType: "application/xml; charset=utf-8"]),
                body: Array("<OAuth>\n\(elements.joined())</OAuth>\n".utf8)
            )
        }
    }

    /// An error response, with the status from the settings (default: 200).
    func error(_ error: String, _ description: String, _ more: [String: JSON] = [:], to request: HTTPRequest)
        -> TransportResponse
    {
        var members: [String: JSON] = [
            "error": .string(error), "error_description": .string(description),
            "error_uri": .string("/apps/troubleshooting/#\(error.split(separator: "_").joined(separator: "-"))"),
        ]
        members.merge(more) { $1 }
        var response = response(members, to: request)
        response.head.status = HTTPResponse.Status(code: settings.errorStatus)
        return response
    }
}
