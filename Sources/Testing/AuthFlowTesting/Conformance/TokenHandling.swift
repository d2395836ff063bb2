import AuthFlow
import Synchronization

/// Checks where an adapter sends tokens when it identifies a user, and what it does when the provider does not respond as expected.
struct TokenHandling {
    let adapter: any ProviderAdapter
    let client: AuthClient
    let credential: Credential

    private var tokens: [Secret] {
        let tokens = credential.tokens
        return [tokens.accessToken, tokens.refreshToken, tokens.deviceSecret, tokens.idToken].compactMap(\.self)
    }

    func run() async throws {
        let metadata = try await client.metadata()
        try await sendsTokensOnlyWhereTheyBelong(metadata)
        try await reportsFailures()
        if let claims = credential.identity?.claims {
            let text = String(decoding: try claims.serialized(), as: UTF8.self)
            try require(!reveals(text), "The user's claims must not contain a token.")
        }
        if let request = try? await client.client.endSessionRequest(for: credential) {
            let names = [credential.tokens.accessToken, credential.tokens.refreshToken].compactMap(\.self)
            try require(
                !names.contains { $0.isRevealed(by: request.url) },
                "The URL of the sign-out page must contain neither the access token nor the refresh token."
            )
        }
        try parsesWithoutRevealingTokens()
        try await reportsFailedRevocations()
    }

    /// A client with the same adapter, whose requests are observed.
    private func observed(_ transport: ObservedTransport) -> OAuthClient { client.observed(by: transport).client }

    /// Checks the places of tokens in requests; ``ProviderConformance`` checks the origins of all requests.
    private func sendsTokensOnlyWhereTheyBelong(_ metadata: ProviderMetadata) async throws {
        let transport = ObservedTransport(base: client.client.server.transport)
        let observed = observed(transport)
        _ = try? await (adapter as? any UserInfoProviding)?.identity(
            for: credential.tokens,
            in: observed.providerContext
        )
        _ = try? await observed.userInfo(credential.tokens)
        for request in transport.requests where request.reveals(tokens) {
            try require(
                !tokens.contains { $0.isRevealed(by: request.url) },
                "The URL of a request must not contain a token (RFC 6750 section 5.3)."
            )
            let fields = request.head.headerFields.filter { $0.name != .authorization && reveals($0.value) }
            try require(
                fields.isEmpty,
                "A token must not be sent in the header field \(fields.first?.name.rawName ?? "")."
            )
        }
        // RFC 9207 section 2.4: clients must reject responses without iss from servers that support the parameter.
        // An adapter with fixed metadata does not read the emulator's document.
        guard transport.requests.contains(where: { $0.url.contains("/.well-known/") }) else { return }
        let document = try? await AuthorizationServer(
            issuer: adapter.issuer,
            transport: transport,
            host: client.client.server.host
        ).metadata()
        try require(
            metadata.sendsIssuerInResponses || document?.sendsIssuerInResponses != true,
            "The metadata must state that responses contain iss, as the provider's document does (sendsIssuerInResponses)."
        )
    }

    /// A failure must not be reported as an unknown user.
    private func reportsFailures() async throws {
        guard let provider = adapter as? any UserInfoProviding, credential.identity != nil else { return }
        let answers: [(HTTPResponse.Status, String)] = [(.internalServerError, ""), (.ok, "{")]
        for (status, body) in answers {
            let transport = ObservedTransport(base: client.client.server.transport) { request in
                guard request.reveals(tokens) else { return nil }
                let head = HTTPResponse(status: status, headerFields: [.contentType: "application/json"])
                return TransportResponse(head: head, body: Array(body.utf8))
            }
            do {
                let identity = try await provider.identity(
                    for: credential.tokens,
                    in: observed(transport).providerContext
                )
                // The adapter may identify the user without a request.
                try require(
                    !transport.hasAnswered || identity?.subject == credential.identity?.subject,
                    "If the provider's response does not identify the user, an error must be thrown (status \(status.code), body \"\(body)\")."
                )
            } catch let error as ConformanceFailure {
                throw error
            } catch {
                try require(
                    !reveals(String(reflecting: error)),
                    "An error must not contain a token: \(type(of: error))."
                )
            }
        }
    }

    private func reportsFailedRevocations() async throws {
        guard adapter is any TokenRevoking else { return }
        let transport = ObservedTransport(base: client.client.server.transport) { request in
            guard request.head.method != .get || request.reveals(tokens) else { return nil }
            return TransportResponse(head: HTTPResponse(status: .serviceUnavailable))
        }
        do {
            try await observed(transport).revoke(credential)
            try require(!transport.hasAnswered, "A revocation that failed must be reported.")
        } catch let error as ConformanceFailure {
            throw error
        } catch {
            try require(!reveals(String(reflecting: error)), "An error must not contain a token: \(type(of: error)).")
        }
    }

    /// An error for a response that cannot be parsed must not contain the response.
    private func parsesWithoutRevealingTokens() throws {
        guard let parser = adapter as? any ResponseParsing else { return }
        let token = Secret("a-token-of-the-conformance-suite")
        for type in ["application/json", "application/x-www-form-urlencoded", "application/xml", "text/plain"] {
            let response = ProviderResponse(
                purpose: .token,
                endpoint: "https://id.example.com/token",
                http: TransportResponse(
                    head: HTTPResponse(status: .ok, headerFields: [.contentType: type]),
                    body: Array(#"{"access_token": "\#(token.exposed)"#.utf8)
                )
            )
            do {
                _ = try parser.parameters(of: response)
            } catch {
                let text = String(reflecting: error)
                try require(!text.contains(token.exposed), "An error for a response must not contain its tokens.")
            }
        }
    }

    private func reveals(_ text: String) -> Bool { tokens.contains { $0.isRevealed(by: text) } }
}

/// The state that lets the first request wait for the second.
final class Meeting: Sendable {
    fileprivate let arrivals = Mutex(0)
    fileprivate let second = AsyncStream<Void>.makeStream()
}

/// A transport that holds the first request with a token until there is a second one, or for a second if there is none.
struct MeetingTransport: HTTPTransport {
    let base: any HTTPTransport
    let tokens: [Secret]
    let meeting: Meeting

    func send(_ request: TransportRequest) async throws -> TransportResponse {
        guard request.reveals(tokens) else { return try await base.send(request) }
        let number = meeting.arrivals.withLock { arrivals in
            arrivals += 1
            return arrivals
        }
        if number == 1 {
            try? await withDeadline(.seconds(1), clock: ContinuousClock()) {
                AuthError(.timedOut, "There is no second request.")
            } _: { [meeting] in
                for await _ in meeting.second.stream {}
            }
        } else {
            meeting.second.continuation.finish()
        }
        return try await base.send(request)
    }
}

extension TransportRequest {
    fileprivate func reveals(_ tokens: [Secret]) -> Bool {
        let texts = [url, String(decoding: body, as: UTF8.self)] + head.headerFields.map(\.value)
        return tokens.contains { token in texts.contains { token.isRevealed(by: $0) } }
    }
}

extension Secret {
    /// Whether a text contains the secret, verbatim or percent-encoded.
    func isRevealed(by text: String) -> Bool {
        text.contains(exposed) || FormURLEncoding.percentDecoded(text)?.contains(exposed) == true
    }
}

/// A transport that records its requests, and can answer them.
final class ObservedTransport: HTTPTransport {
    private let base: any HTTPTransport
    private let answer: @Sendable (TransportRequest) -> TransportResponse?
    private let state = Mutex<(requests: [TransportRequest], hasAnswered: Bool)>(([], false))

    init(base: any HTTPTransport, answer: @escaping @Sendable (TransportRequest) -> TransportResponse? = { _ in nil }) {
        self.base = base
        self.answer = answer
    }

    var requests: [TransportRequest] { state.withLock { $0.requests } }
    var hasAnswered: Bool { state.withLock { $0.hasAnswered } }

    func send(_ request: TransportRequest) async throws -> TransportResponse {
        state.withLock { $0.requests.append(request) }
        guard let response = answer(request) else { return try await base.send(request) }
        state.withLock { $0.hasAnswered = true }
        return response
    }
}
