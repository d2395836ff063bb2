import AuthFlowEssentials
public import AuthFlowOAuth
import AuthFlowSignIn
import Synchronization

extension ResourceClient {
    /// Sends a request with a fresh access token. If the resource requires a token, obtains one and sends the request again. Redirects are
    /// not followed.
    /// - Parameter request: A request to the resource's URL or a URL below it, without an `Authorization` header field.
    /// - Returns: The response, regardless of its status, unless that is a redirect.
    /// - Throws: The same errors as ``perform(_:_:_:)``; ``AuthError`` with `invalid_response` for a redirect.
    public func send(_ request: TransportRequest) async throws -> TransportResponse {
        guard request.head.headerFields[.authorization] == nil else {
            throw AuthError(.invalidConfiguration, "The request already has an Authorization header field.")
        }
        return try await perform(request.head.method, request.url) { fields in
            var request = request
            request.pool = .resources
            for field in fields { request.head.headerFields[field.name] = field.value }
            let response = try await ExchangeLimits.send(request, by: transport, clock: host.clock)
            return (response, response.head)
        }
    }

    /// Authorizes a request that another part of the program sends, and repeats it when the resource requires another
    /// token.
    ///
    /// The number of attempts is limited: one retry with a nonce for each token, one with the resource's time, at most three sign-ins, and one
    /// refresh before the first sign-in and after each. Sign-ins are repeated only while the resource requires scopes or user authentication
    /// that were not requested before.
    /// - Parameters:
    ///   - method: The method of the request.
    ///   - url: The URL of the request: the resource's URL, or a URL below it.
    ///   - body: Sends the request with the given header fields, which are empty when there is
    ///     no usable token, and returns the response with its status and headers.
    /// - Returns: The response, regardless of its status.
    /// - Throws: ``AuthError`` with `invalid_configuration` when a token for the resource must not be sent to the URL; `login_required`
    ///   when a user must sign in but no prompt is allowed; `insufficient_scope` when the resource would reject new tokens too; any error from
    ///   signing in, refreshing and `body`.
    public func perform<Response: Sendable>(
        _ method: HTTPRequest.Method,
        _ url: String,
        _ body: nonisolated(nonsending) (HTTPFields) async throws -> (response: Response, head: HTTPResponse)
    ) async throws -> Response {
        var attempt = try attempt(method, url)
        while true {
            let fields = try await authorize(&attempt)
            let (response, head) = try await body(fields)
            guard try await mustRetry(&attempt, after: head) else { return response }
        }
    }

    /// The error that the resource describes in a response, without the access token, which a resource may echo.
    package func providerError(in response: TransportResponse) async -> ProviderError? {
        let token = try? await client()?.credential()?.tokens.accessToken
        return response.providerError(redacting: [token].compactMap { $0 })
    }

    /// Records the network reach of a connection to the resource.
    package func recordReach(_ reach: NetworkReach?) { transport.record(reach) }

    /// A request to the resource, for programs that do not send it with ``perform(_:_:_:)``.
    /// - Throws: ``AuthError`` with `invalid_configuration` when a token for the resource must not be sent to the URL.
    public func attempt(_ method: HTTPRequest.Method, _ url: String) throws(AuthError) -> ResourceAttempt {
        ResourceAttempt(method: method, endpoint: try requireOrigin(url))
    }

    /// The header fields that authorize a request; empty when there is no usable token.
    /// - Throws: Any error from refreshing; ``AuthError`` with `invalid_configuration` when a token for the resource must not be sent to
    ///   the URL.
    public func authorize(_ attempt: inout ResourceAttempt) async throws -> HTTPFields {
        attempt.round.end = nil
        // Nothing waits between the lookup of the credential and the request, because the user may sign out in another process in the meantime.
        let usable = try await usableCredential(for: &attempt)
        attempt.credential = usable?.credential
        guard let (credential, client) = usable else { return HTTPFields() }
        attempt.round.clockCorrection = client.clockCorrection(at: attempt.endpoint, nonces: nonces)
        return try await client.authorizationFields(
            method: attempt.method,
            endpoint: attempt.endpoint,
            tokens: credential.tokens,
            nonces: nonces
        )
    }

    /// Responds to the challenge in a response: stores a nonce or the resource's time, refreshes, signs in, or requests more scopes.
    /// - Parameters:
    ///   - attempt: The request.
    ///   - head: The status and headers of the response.
    ///   - mayAsk: Whether the user may be prompted, if the options allow that; default: true.
    /// - Returns: Whether the request must be authorized and sent again.
    /// - Throws: The same errors as ``perform(_:_:_:)``.
    public func mustRetry(
        _ attempt: inout ResourceAttempt,
        after head: HTTPResponse,
        mayAsk: Bool = true
    ) async throws -> Bool {
        recordNonce(from: head, of: attempt)
        // Neither a new token nor a sign-in would help.
        if attempt.credential?.tokens.dpopKey != nil, !attempt.round.hasCorrectedClock, let client = try await client(),
            client.client.correctClock(
                after: TransportResponse(head: head),
                at: attempt.endpoint,
                from: attempt.round.clockCorrection,
                nonces: nonces
            )
        {
            attempt.round.hasCorrectedClock = true
            return true
        }
        let challenges = AuthenticationChallenge.challenges(in: head.headerFields)
        guard let challenge = ResourceChallenge(status: head.status.code, challenges: challenges) else { return false }
        return try await satisfy(challenge, &attempt, mayAsk)
    }

    /// Stores the DPoP nonce for the next request; any response may contain a nonce (RFC 9449 section 9).
    package func recordNonce(from head: HTTPResponse, of attempt: ResourceAttempt) {
        nonces.record(from: head.headerFields, origin: attempt.endpoint.origin)
    }

    private func requireOrigin(_ url: String) throws(AuthError) -> Endpoint {
        let endpoint = try Endpoint(url, name: "URL of the request")
        guard endpoint.origin == address.origin else {
            throw AuthError(
                .invalidConfiguration,
                "The access token for \(address) must not be sent to \(endpoint.origin)."
            )
        }
        return endpoint
    }

    /// Whether the stored token may be used for this resource. A token for a prefix of the URL is used only if the
    /// host's own protected resource metadata allows it.
    func isUsableHere(_ known: KnownResource) -> Bool {
        known.coversHost || known.resource == options.resource
            || ProtectedResourceMetadata.fit(of: known.resource, to: address) == .identical
    }

    /// The credential to send, refreshed when necessary, and its client; nil when there is none, so that the resource sends a challenge.
    /// - Parameter ended: A sign-in that was tried before and whose session has ended; nil for none.
    private func usableCredential(
        for attempt: inout ResourceAttempt,
        after ended: KnownResource? = nil
    ) async throws -> (credential: Credential, client: OAuthClient)? {
        let endpoint = attempt.endpoint
        guard let (known, client) = try await knownClient(), known != ended else { return nil }
        // A token for one resource of a server must not be used for its other resources.
        guard
            ProtectedResourceMetadata.fit(of: known.resource, to: endpoint) != nil
                || endpoint.url == address.url
                    && [options.resource, address.resourceIdentifier].contains(known.resource)
        else {
            throw AuthError(
                .invalidConfiguration,
                "The access token is for \(Redaction.url(known.resource)), and the URL of the request is not below it."
            )
        }
        // A token that must not be used here is not sent, so that the resource sends a new challenge.
        guard isUsableHere(known) else { return nil }
        do {
            return (try await client.freshCredential(lasting: .zero), client.client)
        } catch let error as AuthError where error.code == .loginRequired {
            // Another process may have signed in again in the meantime, with another server or client.
            if ended == nil, let newer = try await self.known(reading: true), newer != known {
                return try await usableCredential(for: &attempt, after: known)
            }
            attempt.round.end = error
            return nil
        } catch let error as AuthError where isUnregistered(known, error) {
            attempt.round.end = try await retireRegistration(known, error)
            return nil
        }
    }

    /// Whether an authorization server no longer recognizes a dynamically registered client.
    func isUnregistered(_ known: KnownResource, _ error: AuthError) -> Bool {
        known.identification == .dynamic && error.code == .providerRejected
            && Self.isUnknownClient(error.providerError?.error)
    }

    /// Retires a registration that the server did not recognize: the next sign-in registers the client again. Until then, the tokens remain
    /// stored, because the response may have been a mistake.
    /// - Returns: The error for the caller.
    func retireRegistration(_ known: KnownResource, _ error: AuthError) async throws -> AuthError {
        try await registrations.retire(at: known.issuer, for: redirectURI, clientID: known.clientID)
        return AuthError(
            .loginRequired,
            "The authorization server \(known.issuer) no longer recognizes the client that was registered for \(address). Sign in again.",
            providerError: error.providerError,
            underlyingError: error
        )
    }

    // MARK: Challenges

    /// Satisfies the requirement of a challenge.
    /// - Returns: Whether the request must be sent again.
    private func satisfy(
        _ challenge: ResourceChallenge,
        _ attempt: inout ResourceAttempt,
        _ mayAsk: Bool
    ) async throws -> Bool {
        let rejected = attempt.credential
        var challenge = challenge
        // A sign-in must also satisfy the requirements of earlier challenges, in this attempt or at the last sign-in.
        if rejected != nil, [.scope, .authentication].contains(challenge.demand) {
            var earlier = attempt.round.authentication
            if earlier == nil { earlier = try await known()?.authentication }
            challenge.authentication = challenge.authentication.adding(earlier ?? RequiredAuthentication())
            attempt.round.authentication = challenge.authentication
        }
        var stepUps = ResourceAttempt.Round.StepUps()
        if challenge.demand == .scope, rejected != nil, challenge.scopes != nil {
            stepUps.requested = Set(try await known(reading: true)?.scopes ?? [])
        }
        while true {
            stepUps.rejected = state.withLock(\.rejectedScopeSets)
            switch attempt.round.step(after: challenge, rejecting: rejected, stepUps, at: host.now()) {
            case .finish: return false
            case .retry: return true
            case .replace:
                if let rejected, try await replace(rejected, challenge, &attempt.round) {
                    attempt.round.hasReplaced = true
                    return true
                }
            case .findNewer:
                if let newer = try await client()?.credential(),
                    newer.tokens.accessToken != rejected?.tokens.accessToken
                {
                    return true
                }
            case .signIn(let scopes):
                return try await signIn(to: challenge, rejected, &attempt.round, mayAsk, for: scopes)
            case .rejectNewToken:
                await startCooldown(after: rejectedAfterSignIn)
                throw rejectedAfterSignIn
            case .rejectScopes(let scopes, let wanted):
                state.withLock { state in
                    guard let wanted else { return }
                    if state.rejectedScopeSets.count >= 64 { state.rejectedScopeSets = [:] }
                    state.rejectedScopeSets[wanted] = host.now()
                }
                throw insufficientScope(scopes)
            }
        }
    }

    private func signIn(
        to challenge: ResourceChallenge,
        _ rejected: Credential?,
        _ round: inout ResourceAttempt.Round,
        _ mayAsk: Bool,
        for scopes: Set<String>?
    ) async throws -> Bool {
        guard methods.withoutUser != nil || options.signsInOnDemand && mayAsk else {
            guard mayAsk else { return false }
            guard round.end == nil, let rejected else { throw loginRequired(because: round.end) }
            throw try await loginRequired(rejected: rejected, challenge)
        }
        if try await joinSignIn(to: challenge, rejected: rejected) {
            round.didSignIn(for: challenge, scopes: scopes)
        } else if !round.didWait() {
            throw rejectedAfterSignIn
        }
        return true
    }

    private var rejectedAfterSignIn: AuthError {
        AuthError(
            .accessTokenRejected,
            "\(address) does not accept the access token that was just obtained for it.",
            status: 401
        )
    }

    /// Replaces a token that the resource rejected before its expiry, with a refreshed token or with one that another process has stored.
    /// - Returns: Whether a new token is available.
    private func replace(
        _ rejected: Credential,
        _ challenge: ResourceChallenge,
        _ round: inout ResourceAttempt.Round
    ) async throws -> Bool {
        guard let (known, client) = try await knownClient() else { return false }
        // RFC 9728 section 5.2: a challenge with the URL of the metadata may indicate that the metadata has
        // changed. A new authorization server does not accept tokens of the old one.
        if challenge.metadata != nil {
            do {
                let found = try await find(challenge)
                guard found.server.issuer.isIdentical(to: known.issuer), found.resource == known.resource else {
                    round.end = AuthError(
                        .loginRequired,
                        "\(address) is now the resource \(Redaction.url(found.resource)) of the authorization server \(found.server.issuer); the user signed in for \(Redaction.url(known.resource)) at \(known.issuer). If that is correct, sign in again."
                    )
                    return false
                }
            } catch let error as AuthError where error.isTransient {
                // Metadata that is temporarily unavailable is treated as unchanged.
            }
        }
        do {
            return try await client.credential(replacing: rejected.tokens.accessToken).tokens.accessToken
                != rejected.tokens.accessToken
        } catch let error as AuthError where error.code == .loginRequired {
            if let newer = try await self.known(reading: true), newer != known { return true }
            round.end = error
            return false
        } catch let error as AuthError where isUnregistered(known, error) {
            round.end = try await retireRegistration(known, error)
            return false
        }
    }
}
