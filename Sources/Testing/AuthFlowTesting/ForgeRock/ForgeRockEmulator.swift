public import AuthFlow
public import AuthFlowEssentials
import Crypto
import Synchronization

/// A ForgeRock (PingAM) server with one realm for testing and development: trees at `/json/authenticate`, cookie-based
/// sessions, an OAuth 2.0 provider that maps `acr_values` to trees, consent, and a sign-in page that requires
/// JavaScript.
///
/// It wraps an ``OIDCEmulator``, served at ForgeRock's paths.
public final class ForgeRockEmulator: ProviderEmulator {
    /// The OAuth 2.0 provider, for tests to configure.
    public let oauth: OIDCEmulator

    /// The server's base URL, which includes the context path.
    public let baseURL: String

    /// The name of the session cookie.
    public let cookieName: String

    public var origins: [String] { [String(baseURL.dropLast("/am".count))] }

    /// Settings that can be changed while the emulator runs.
    public struct Settings: Sendable {
        /// The trees, by name.
        public var trees: [String: EmulatorTree] = ["Login": .login, "persistent": .persistentCookie()]
        /// The default tree, for requests that do not name a tree.
        public var defaultTree = "Login"
        /// The tree for each value of `acr_values`.
        public var acrToTree = ["basic": "Login", "persistent-cookie": "persistent"]
        /// Whether users are asked for consent.
        public var asksForConsent = false
        /// Whether the metadata advertises a revocation endpoint that does not exist.
        public var hasRevokeQuirk = false
        /// The names of the users whose accounts are locked.
        public var lockedUsers: Set<String> = []
        /// Whether a new session is returned only in the response body, and not set as a cookie.
        public var setsNoCookie = false
        /// Whether the `claims` parameter is supported.
        public var supportsClaimsParameter = true
        /// The text on the authorization endpoint's error page.
        public var errorPageText = "The redirection URI provided does not match a pre-registered value."
        /// The number of authentication IDs (`authId`) to reject as expired.
        public var staleAuthIDs = 0
    }

    /// The settings, which can be changed while the emulator runs.
    public var settings: Settings {
        get { state.withLock { $0.settings } }
        set { state.withLock { $0.settings = newValue } }
    }

    /// Ends every session. Persistent cookies stay valid.
    public func endSessions() { state.withLock { $0.sessions = [:] } }

    struct State {
        var settings = Settings()
        var sessions: [String: Session] = [:]
        var walks: [String: Walk] = [:]
    }

    /// A user's session.
    struct Session {
        let userIndex: Int
        let tree: String
        let began: Date
    }

    /// A tree in progress.
    struct Walk {
        let tree: String
        var node = 0
        var polls = 0
        var userIndex: Int?
        var cookieLifetime: Int?
        let expiresAt: Date
    }

    let state = Mutex(State())
    let now: @Sendable () -> Date
    private let realmPath: String
    private let cookieKey = SymmetricKey(size: .bits256)

    /// Creates a server.
    /// - Parameters:
    ///   - origin: The server's origin; its context path is `/am`.
    ///   - realm: The realm, such as `/alpha`.
    ///   - cookieName: The name of the session cookie.
    ///   - clients: The registered clients.
    ///   - now: The clock for the issue and expiry times of tokens and cookies.
    public init(
        origin: String,
        realm: String = "/alpha",
        cookieName: String = "iPlanetDirectoryPro",
        clients: [OIDCEmulator.Client] = [.demo],
        now: @escaping @Sendable () -> Date = { Date() }
    ) throws {
        self.baseURL = "\(origin)/am"
        self.cookieName = cookieName
        self.now = now
        self.realmPath = (["root"] + realm.split(separator: "/").map(String.init)).map { "realms/\($0)" }
            .joined(separator: "/")
        self.oauth = try OIDCEmulator(issuer: "\(origin)/am/oauth2/\(realmPath)", clients: clients, now: now)
    }

    /// The paths below the realm, with the corresponding paths of the wrapped emulator.
    private static let paths = [
        "/access_token": "/token", "/userinfo": "/userinfo", "/introspect": "/introspect", "/token/revoke": "/revoke",
        "/connect/jwk_uri": "/jwks", "/connect/endSession": "/end_session",
        "/.well-known/openid-configuration": "/.well-known/openid-configuration",
    ]

    /// Handles a request.
    public func handle(_ request: HTTPRequest, body: [UInt8]) async -> TransportResponse {
        let received = ReceivedRequest(request, body: body, time: now())
        let (oauthPath, restPath) = ("/am/oauth2/\(realmPath)", "/am/json/\(realmPath)")
        if received.path.hasPrefix(oauthPath) {
            let rest = String(received.path.dropFirst(oauthPath.count))
            if rest == "/authorize" { return authorize(received) }
            guard let known = Self.paths[rest] else { return notFound }
            var inner = request
            inner.path = oauthPath + known + (request.path ?? "").dropFirst(received.path.count)
            let response = await oauth.handle(inner, body: body, calledAt: "\(origins[0])\(received.path)")
            return rest.hasPrefix("/.well-known") ? described(response) : response
        }
        switch (request.method, received.path) {
        case (.post, "\(restPath)/authenticate"): return authenticate(received, body)
        case (.post, "\(restPath)/sessions"): return logOut(received)
        case (.get, "\(restPath)/serverinfo/*"):
            return .json(["_id": "*", "cookieName": .string(cookieName), "domains": [], "realm": "/"])
        case (.get, "/am/XUI/"):
            return .page("Sign in", ForgeRockPage.body(authenticateURL: "\(origins[0])\(restPath)/authenticate"))
        default: return notFound
        }
    }

    private var notFound: TransportResponse { .json(["code": 404, "reason": "Not Found"], status: .notFound) }

    private func described(_ response: TransportResponse) -> TransportResponse {
        guard response.status == 200, var document = (try? JSON(parsing: response.body))?.object else {
            return response
        }
        for (name, path) in [
            "authorization_endpoint": "authorize", "token_endpoint": "access_token", "jwks_uri": "connect/jwk_uri",
            "userinfo_endpoint": "userinfo", "end_session_endpoint": "connect/endSession",
            "introspection_endpoint": "introspect",
            "revocation_endpoint": settings.hasRevokeQuirk ? "revoke" : "token/revoke",
        ] { document[name] = .string("\(oauth.issuer)/\(path)") }
        document["acr_values_supported"] = .array(settings.acrToTree.keys.sorted().map(JSON.string))
        document["claims_parameter_supported"] = .bool(settings.supportsClaimsParameter)
        document["device_authorization_endpoint"] = nil
        document["authorization_response_iss_parameter_supported"] = nil
        return .json(.object(document))
    }

    // MARK: The authorization endpoint

    private func authorize(_ received: ReceivedRequest) -> TransportResponse {
        let isAnswer = received.request.method == .post
        let query = isAnswer ? received.form : received.query
        guard let client = oauth.clients.first(where: { $0.id == query["client_id"] }),
            let redirectURI = query["redirect_uri"], client.accepts(redirectURI)
        else {
            return .page(
                "OAuth2 Error Page",
                "<script>pageData = {realm: \"/\", error: {message: \"invalid_request\", description: \"\(settings.errorPageText)\"}}</script>",
                status: .badRequest
            )
        }
        let settings = settings
        // "the first value that has a mapping".
        let text = settings.supportsClaimsParameter ? query["claims"] : nil
        let claims = text.flatMap { try? JSON(parsing: Array($0.utf8)) }?["id_token"]?["acr"]
        let asked = claims?["values"]?.strings ?? (query["acr_values"] ?? "").split(separator: " ").map(String.init)
        let acr = asked.first { settings.acrToTree[$0] != nil }
        let tree = acr.flatMap { settings.acrToTree[$0] }
        let token = received.request.cookie(cookieName) ?? ""
        let session = state.withLock { $0.sessions[token] }
        let isEssential = claims?["essential"]?.bool == true
        guard let session, !isEssential || session.tree == tree else {
            if query["prompt"] == "none" { return oauth.refusedCode(query, client, "interaction_required") }
            var login = FormParameters()
            login["realm"] = "/"
            login["service"] = tree
            login["goto"] = "\(baseURL)/oauth2/\(realmPath)/authorize?\(FormURLEncoding.encodeQuery(query))"
            // The response is a permanent redirect, but must not be cached, because with a cached redirect, a browser
            // would never request this endpoint again.
            return TransportResponse(
                head: HTTPResponse(
                    status: .movedPermanently,
                    headerFields: [
                        .location: "\(baseURL)/XUI/?\(FormURLEncoding.encodeQuery(login))", .cacheControl: "no-store",
                    ]
                )
            )
        }
        if settings.asksForConsent {
            guard isAnswer else {
                return .page(
                    "Consent",
                    "<script>pageData = {realm: \"/\", oauth2Data: {csrf: \"\(token)\", clientId: \"\(client.id)\"}}</script>"
                )
            }
            guard query["csrf"] == token else { return .page("Bad request", "", status: .badRequest) }
            guard query["decision"] == "allow" else { return oauth.refusedCode(query, client, "access_denied") }
        }
        // The `acr` is the first requested value that is mapped to the tree that created the session, otherwise 0.
        let given = asked.first { settings.acrToTree[$0] == session.tree } ?? "0"
        return oauth.grantedCode(query, client, userIndex: session.userIndex, began: session.began, acr: given)
    }

    // MARK: Trees

    private func authenticate(_ received: ReceivedRequest, _ body: [UInt8]) -> TransportResponse {
        guard received.request.headerFields[.contentType]?.hasPrefix("application/json") == true else {
            return failure(415, "Unsupported Media Type")
        }
        guard let json = try? JSON(parsing: body.isEmpty ? Array("{}".utf8) : body) else {
            return failure(400, "Bad Request")
        }
        guard let authID = json["authId"]?.string else {
            let name = received.query["authIndexValue"] ?? settings.defaultTree
            guard settings.trees[name] != nil else { return failure(400, "No Configuration found") }
            guard json.object?.isEmpty != false else { return failure(400, "Bad Request") }
            return advance(Walk(tree: name, expiresAt: now() + 300), received.request)
        }
        let isStale = state.withLock { state in
            guard state.settings.staleAuthIDs > 0 else { return false }
            state.settings.staleAuthIDs -= 1
            return true
        }
        guard var walk = state.withLock({ $0.walks.removeValue(forKey: authID) }), !isStale, now() < walk.expiresAt
        else {
            return failure(401, "Session has timed out", detail: ["errorCode": "110"])
        }
        // A later request may omit the tree, but must not name a different tree.
        if let named = received.query["authIndexValue"], named != walk.tree { return failure(400, "Another tree") }
        // The tree may have changed since its last page.
        let nodes = settings.trees[walk.tree]?.nodes ?? []
        guard nodes.indices.contains(walk.node) else { return failure(500, "No such node") }
        let node = nodes[walk.node]
        let callbacks = json["callbacks"]?.array ?? []
        let answers = callbacks.flatMap { ($0["input"]?.array ?? []).map { $0["value"] ?? .null } }
        let expected = self.callbacks(of: node).map(\.type)
        guard callbacks.map({ $0["type"]?.string }) == expected else {
            return failure(400, "Incorrect number of callbacks found in JSON response")
        }
        switch node {
        case .userNameAndPassword:
            let name = answers.first?.string ?? ""
            guard !settings.lockedUsers.contains(name) else { return failure(401, "User Locked Out.") }
            guard
                let index = oauth.users.firstIndex(where: { $0.username == name && $0.password == answers.last?.string }
                )
            else { return failure(401, "Authentication Failed") }
            walk.userIndex = index
            walk.node += 1
        case .page(_, _, let verdict):
            switch verdict(answers) {
            case .proceed: walk.node += 1
            case .repeatNode: break
            case .fail(let message): return failure(401, message)
            }
        case .polling(let times, _):
            walk.polls += 1
            if walk.polls >= times {
                walk.polls = 0
                walk.node += 1
            }
        default: return failure(400, "Nothing was asked")
        }
        return advance(walk, received.request)
    }

    /// Advances to the next node with callbacks, or to the end of the tree.
    private func advance(_ walk: Walk, _ request: HTTPRequest) -> TransportResponse {
        var walk = walk
        let nodes = settings.trees[walk.tree]?.nodes ?? []
        while walk.node < nodes.count {
            switch nodes[walk.node] {
            case .persistentCookieDecision:
                if let user = persistentUser(request) {
                    walk.userIndex = user
                    return success(walk)
                }
            case .setPersistentCookie(let seconds): walk.cookieLifetime = seconds
            case .failure(let message): return failure(401, message)
            case .page, .userNameAndPassword, .polling: return question(nodes[walk.node], walk)
            }
            walk.node += 1
        }
        return success(walk)
    }

    private func callbacks(of node: EmulatorTree.Node) -> [EmulatorTree.Callback] {
        switch node {
        case .page(_, let callbacks, _): callbacks
        case .userNameAndPassword:
            [.init("NameCallback", [("prompt", "User Name")]), .init("PasswordCallback", [("prompt", "Password")])]
        case .polling(_, let milliseconds):
            [
                .init(
                    "PollingWaitCallback",
                    [("waitTime", .string("\(milliseconds)")), ("message", "Waiting")],
                    inputs: []
                )
            ]
        default: []
        }
    }

    private func question(_ node: EmulatorTree.Node, _ walk: Walk) -> TransportResponse {
        let authID = OIDCEmulator.randomID()
        state.withLock { $0.walks[authID] = walk }
        let callbacks = callbacks(of: node).enumerated().map { index, callback -> JSON in
            var json: [String: JSON] = [
                "type": .string(callback.type), "_id": .integer(Int64(index)),
                "output": .array(callback.output.map { ["name": .string($0.0), "value": $0.1] }),
            ]
            if !callback.inputs.isEmpty {
                json["input"] = .array(
                    callback.inputs.enumerated().map { number, value in
                        let suffix = number == 0 ? "" : "validateOnly"
                        return ["name": .string("IDToken\(index + 1)\(suffix)"), "value": value]
                    }
                )
            }
            return .object(json)
        }
        var step: [String: JSON] = ["authId": .string(authID), "callbacks": .array(callbacks), "header": "Sign in"]
        if case .page(let stage, _, _) = node { step["stage"] = .string(stage) }
        return .json(.object(step))
    }

    private func success(_ walk: Walk) -> TransportResponse {
        guard let user = walk.userIndex else { return failure(401, "Authentication Failed") }
        let token = "AQIC5w\(OIDCEmulator.randomID()).*AAJTSQACMDE."
        state.withLock { $0.sessions[token] = Session(userIndex: user, tree: walk.tree, began: now()) }
        var response = TransportResponse.json(["tokenId": .string(token), "successUrl": "/am/console", "realm": "/"])
        var cookies = ["\(cookieName)=\(token); Path=/; HttpOnly", "amlbcookie=01; Path=/"]
        if settings.setsNoCookie { cookies.removeFirst() }
        if let lifetime = walk.cookieLifetime {
            let end = Int64(now().timeIntervalSince1970) + Int64(lifetime)
            cookies.append("session-jwt=\(persistentCookie(user, end)); Path=/; Max-Age=\(lifetime); HttpOnly")
        }
        for cookie in cookies { response.head.headerFields.append(HTTPField(name: .setCookie, value: cookie)) }
        return response
    }

    /// The user and the expiry, with an HMAC over both.
    private func persistentCookie(_ user: Int, _ end: Int64) -> String {
        let text = "\(user)-\(end)"
        let code = HMAC<SHA256>.authenticationCode(for: Array(text.utf8), using: cookieKey)
        return "\(text)-\(Base64URL.encode(Array(code)))"
    }

    private func persistentUser(_ request: HTTPRequest) -> Int? {
        guard let value = request.cookie("session-jwt") else { return nil }
        let parts = value.split(separator: "-", maxSplits: 2).map(String.init)
        guard parts.count == 3, let user = Int(parts[0]), let end = Int64(parts[1]), oauth.users.indices.contains(user),
            persistentCookie(user, end) == value, now().timeIntervalSince1970 < Double(end)
        else { return nil }
        return user
    }

    private func logOut(_ received: ReceivedRequest) -> TransportResponse {
        let name = HTTPField.Name(cookieName) ?? .cookie
        let token = received.request.headerFields[name] ?? received.request.cookie(cookieName) ?? ""
        guard received.query["_action"] == "logout",
            state.withLock({ $0.sessions.removeValue(forKey: token) }) != nil
        else { return failure(401, "Access Denied") }
        var response = TransportResponse.json(["result": "Successfully logged out"])
        response.head.headerFields[.setCookie] = "\(cookieName)=; Path=/; Expires=Thu, 01 Jan 1970 00:00:00 GMT"
        return response
    }

    private func failure(_ code: Int, _ message: String, detail: JSON = [:]) -> TransportResponse {
        .json(
            ["code": .integer(Int64(code)), "reason": "Unauthorized", "message": .string(message), "detail": detail],
            status: HTTPResponse.Status(code: code)
        )
    }
}
