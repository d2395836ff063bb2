import AuthFlow
import AuthFlowEssentials
import Synchronization

// The device authorization grant (RFC 8628).

/// A response to a poll with a device code, sent instead of the regular response.
public enum DevicePollResponse: Sendable, Hashable {
    /// An error, such as `authorization_pending`.
    case error(String)
    /// `slow_down`, with the new interval that the provider requests, in seconds.
    case slowDown(interval: Int?)
    /// Status 503, with or without `Retry-After`, in seconds.
    case unavailable(retryAfter: Int?)
    /// An HTML page from an intermediary, with status 502.
    case brokenGateway
}

extension DevicePollResponse {
    var response: TransportResponse {
        switch self {
        case .error(let error): return .json(["error": .string(error)], status: .badRequest)
        case .slowDown(let interval):
            return .json(
                ["error": "slow_down", "interval": interval.map { .integer(Int64($0)) } ?? .null],
                status: .badRequest
            )
        case .unavailable(let retryAfter):
            var response = TransportResponse(head: HTTPResponse(status: .serviceUnavailable))
            response.head.headerFields[.retryAfter] = retryAfter.map(String.init)
            return response
        case .brokenGateway: return .page("Bad gateway", "<p>The server does not respond.</p>", status: .badGateway)
        }
    }
}

extension OIDCEmulator {
    /// The lifetime of a device code, in seconds.
    private static let deviceCodeLifetime: TimeInterval = 600

    func deviceAuthorization(_ form: FormParameters, _ request: HTTPRequest) -> TransportResponse {
        guard let client = authenticatedClient(form, request) else {
            return .json(["error": "invalid_client"], status: .unauthorized)
        }
        let now = now()
        let (code, interval) = state.withLock { state in
            let code = state.deviceCodes.begin(
                clientID: client.id,
                request: form,
                interval: state.settings.devicePollInterval,
                lifetime: Self.deviceCodeLifetime,
                now: now
            )
            return (code, state.settings.devicePollInterval)
        }
        return (settings.fault?.deviceAuthorization ?? DeviceAuthorizationFault()).applied(to: [
            "device_code": .string(code.deviceCode),
            "user_code": .string(code.userCode),
            "verification_uri": .string("\(base)/device"),
            "verification_uri_complete": .string("\(base)/device?user_code=\(code.userCode)"),
            "expires_in": .integer(Int64(Self.deviceCodeLifetime)),
            "interval": .integer(Int64(interval)),
        ])
    }

    /// The verification page, which the user opens on another device.
    func devicePage(_ query: FormParameters, _ request: HTTPRequest) -> TransportResponse {
        guard let userCode = query["user_code"] else { return .userCodePage(action: "/device") }
        guard let (deviceCode, code) = state.withLock({ $0.deviceCodes.entered(userCode) }),
            let client = clients.first(where: { $0.id == code.clientID })
        else { return .userCodePage(action: "/device", message: "No program is waiting for this code.") }
        let id = Self.randomID()
        let session = request.sessionCookie.flatMap { session in state.withLock { $0.sessions[session] } }
        let authorization = Authorization(
            parameters: code.parameters,
            client: client,
            redirectURI: "",
            session: session,
            deviceCode: deviceCode
        )
        state.withLock { $0.pending[id] = authorization }
        return session == nil ? .signInPage(id) : .consentPage(id, client: client.id, scopes: authorization.scopes)
    }

    /// Approves or denies a device code, as a user would on the verification page.
    /// - Parameters:
    ///   - userCode: The user code that the client displays.
    ///   - user: The user who approves it; nil to deny it.
    public func decide(_ userCode: String, as user: User?) {
        let now = now()
        state.withLock { state in
            guard let (deviceCode, code) = state.deviceCodes.entered(userCode),
                let client = state.clients.first(where: { $0.id == code.clientID })
            else { return }
            guard let index = users.firstIndex(where: { $0.username == user?.username }) else {
                return state.deviceCodes.decide(deviceCode, .denied)
            }
            let authorization = Authorization(parameters: code.parameters, client: client, redirectURI: "")
            let grant = Grant(authorization: authorization, session: Session(userIndex: index, began: now))
            state.deviceCodes.decide(deviceCode, .approved(grant))
        }
    }

    func poll(_ form: FormParameters, _ client: Client, _ thumbprint: String?) -> TransportResponse {
        let now = now()
        let deviceCode = form["device_code"] ?? ""
        let (scripted, verdict) = state.withLock { state in
            if !state.settings.devicePollResponses.isEmpty {
                return (
                    state.settings.devicePollResponses.removeFirst() as DevicePollResponse?,
                    DeviceCodes<Grant>.Verdict.pending
                )
            }
            return (nil, state.deviceCodes.poll(deviceCode, clientID: client.id, now: now))
        }
        if let scripted { return scripted.response }
        switch verdict {
        case .unknown: return .refusal("invalid_grant", "no such device code")
        case .expired: return .refusal("expired_token", "the device code has expired")
        case .denied: return .refusal("access_denied", "the user denied the request")
        case .pending: return .refusal("authorization_pending", "the user has not decided yet")
        case .slowDown: return .refusal("slow_down", "polled too often")
        case .approved(var grant):
            grant.thumbprint = thumbprint
            return issue(grant, code: nil)
        }
    }
}
