import AuthFlow
import AuthFlowEssentials
import Crypto
import Synchronization

// The token endpoint and the device flow.

extension GitHubEmulator {
    func accessToken(_ received: ReceivedRequest) -> TransportResponse {
        let (form, request) = (received.form, received.request)
        let (id, secret) = Self.basic(request) ?? (id: form["client_id"], secret: form["client_secret"])
        guard let app = app(id) else { return incorrectCredentials(request) }
        switch form["grant_type"] {
        case nil, "authorization_code":
            guard secret == app.secret else { return incorrectCredentials(request) }
            return redeem(form, app, request)
        case "refresh_token": return refresh(form, app, hasSecret: secret == app.secret, request)
        case "urn:ietf:params:oauth:grant-type:device_code": return poll(form, app, request)
        default: return error("unsupported_grant_type", "The grant type is not supported.", to: request)
        }
    }

    static func basic(_ request: HTTPRequest) -> (id: String?, secret: String?)? {
        // The authentication scheme is case-insensitive.
        guard let value = request.headerFields[.authorization], value.lowercased().hasPrefix("basic "),
            let data = Data(base64Encoded: String(value.dropFirst(6)))
        else { return nil }
        let parts = String(decoding: data, as: UTF8.self).split(separator: ":", maxSplits: 1).map(String.init)
        return (parts.first, parts.count > 1 ? parts[1] : nil)
    }

    private func incorrectCredentials(_ request: HTTPRequest) -> TransportResponse {
        error(
            "incorrect_client_credentials",
            "The client_id and/or client_secret passed are incorrect.",
            to: request
        )
    }

    private func redeem(_ form: FormParameters, _ app: App, _ request: HTTPRequest) -> TransportResponse {
        let code = form["code"].flatMap { code in state.withLock { $0.codes.removeValue(forKey: code) } }
        guard let code, code.request.appID == app.id, now() < code.expiresAt else {
            return error("bad_verification_code", "The code passed is incorrect or expired.", to: request)
        }
        let asked = code.request.parameters
        guard form["redirect_uri"] == nil || form["redirect_uri"] == asked["redirect_uri"] else {
            return error(
                "redirect_uri_mismatch",
                "The redirect_uri MUST match the registered callback URL for this application.",
                to: request
            )
        }
        let challenge = form["code_verifier"].map { Base64URL.encode(SHA256.hash(data: Array($0.utf8))) }
        guard asked["code_challenge"] == nil || challenge == asked["code_challenge"] else {
            return error("bad_verification_code", "The code passed is incorrect or expired.", to: request)
        }
        guard users[code.token.grant.user].hasVerifiedEmail else {
            return error("unverified_user_email", "The user must have a verified primary email.", to: request)
        }
        return issue(code.token, app, to: request)
    }

    private func refresh(_ form: FormParameters, _ app: App, hasSecret: Bool, _ request: HTTPRequest)
        -> TransportResponse
    {
        let used = form["refresh_token"] ?? ""
        let token = state.withLock { $0.refreshTokens[used] }
        guard let token, token.grant.appID == app.id else {
            return error(
                "bad_refresh_token",
                "The refresh token passed is incorrect or expired.",
                to: request
            )
        }
        guard hasSecret || token.isOfDevice else { return incorrectCredentials(request) }
        // "the old access token and refresh token will no longer work"
        state.withLock {
            $0.refreshTokens[used] = nil
            $0.tokens[token.accessToken] = nil
        }
        return issue(token, app, to: request)
    }

    private func issue(_ token: Token, _ app: App, to request: HTTPRequest) -> TransportResponse {
        let settings = settings
        let expiring = app.kind != .oauthApp || token.isRefreshable
        let prefix = app.kind == .gitHubApp ? "ghu_" : "gho_"
        var token = token
        token.accessToken = prefix + Self.randomText(36)
        token.expiresAt = expiring ? now() + Double(settings.accessTokenLifetime) : nil
        var members: [String: JSON] = [
            "access_token": .string(token.accessToken), "token_type": "bearer",
            "scope": .string(token.scopes.joined(separator: ",")),
        ]
        let refreshToken = "ghr_" + Self.randomText(72)
        if expiring {
            members["expires_in"] = .integer(settings.accessTokenLifetime)
            members["refresh_token"] = .string(refreshToken)
            members["refresh_token_expires_in"] = 15_897_600
        }
        state.withLock { state in
            state.issued += 1
            token.number = state.issued
            state.tokens[token.accessToken] = token
            if expiring { state.refreshTokens[refreshToken] = token }
            // "There is a limit of ten tokens that are issued per user/application/scope combination": the oldest is revoked.
            let same = state.tokens.values.filter { $0.grant == token.grant && $0.scopes == token.scopes }
            if same.count > 10, let oldest = same.min(by: { $0.number < $1.number }) {
                state.tokens[oldest.accessToken] = nil
            }
        }
        return (settings.fault?.tokenResponse ?? TokenResponseFault()).applied(to: members) {
            response($0, to: request)
        }
    }

    static func randomText(_ count: Int) -> String {
        let alphabet = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789")
        return String(HostServices.systemRandomBytes(count).map { alphabet[Int($0) % alphabet.count] })
    }

    // MARK: The device flow

    func deviceCode(_ received: ReceivedRequest) -> TransportResponse {
        let settings = settings
        guard settings.hasDeviceFlow else { return .page("Not found", "<p>404</p>", status: .notFound) }
        guard let app = app(received.form["client_id"]) else {
            return .page("Not found", "<p>404</p>", status: .notFound)
        }
        guard app.hasDeviceFlow else {
            return error(
                "device_flow_disabled",
                "Device Flow must be explicitly enabled for this App",
                to: received.request
            )
        }
        let now = now()
        let code = state.withLock {
            $0.deviceCodes.begin(
                clientID: app.id,
                request: received.form,
                interval: settings.devicePollInterval,
                lifetime: 900,
                now: now
            )
        }
        return (settings.fault?.deviceAuthorization ?? DeviceAuthorizationFault()).applied(to: [
            "device_code": .string(code.deviceCode), "user_code": .string(code.userCode),
            "verification_uri": .string("\(origin)/login/device"), "expires_in": 900,
            "interval": .integer(Int64(settings.devicePollInterval)),
        ]) { response($0, to: received.request) }
    }

    private func poll(_ form: FormParameters, _ app: App, _ request: HTTPRequest) -> TransportResponse {
        let now = now()
        let verdict = state.withLock {
            $0.deviceCodes.poll(form["device_code"] ?? "", clientID: app.id, now: now)
        }
        switch verdict {
        case .unknown: return error("incorrect_device_code", "The device_code provided is not valid.", to: request)
        case .expired: return error("expired_token", "The `device_code` has expired.", to: request)
        case .denied: return error("access_denied", "The authorization request was denied.", to: request)
        case .pending:
            return error("authorization_pending", "The authorization request is still pending.", to: request)
        case .slowDown(let interval):
            return error(
                "slow_down",
                "Too many requests have been made in the same timeframe.",
                ["interval": .integer(interval)],
                to: request
            )
        case .approved(let token): return issue(token, app, to: request)
        }
    }
}
