import AuthFlowEssentials
public import AuthFlowHTTP
import AuthFlowJSON
import AuthFlowOAuth
import AuthFlowSignIn
public import HTTPTypes
import Synchronization

extension ResourceClient {
    /// The most sign-ins that one request may cause.
    private static let maximumSignIns = 3

    /// Sends a request with a fresh access token, obtains one where the resource demands it, and sends it again. No redirect is
    /// followed.
    /// - Parameter request: The request, to the resource or below it, without an `Authorization` field.
    /// - Returns: The response, whatever its status.
    /// - Throws: As ``perform(_:_:_:)``.
    public func send(_ request: TransportRequest) async throws -> TransportResponse {
        guard request.head.headerFields[.authorization] == nil else {
            throw AuthError(.invalidConfiguration, "The request has an Authorization field already.")
        }
        return try await perform(request.head.method, request.url) { fields in
            var request = request
            request.pool = .resources
            for field in fields { request.head.headerFields[field.name] = field.value }
            let response = try await ExchangeLimits.send(request, by: transport, clock: host.clock)
            return (response, response.head)
        }
    }

    /// Runs a request that another part of the program sends, with the header fields that authorize it, and again when the resource
    /// demands another token.
    ///
    /// What is tried is bounded: a nonce and a refresh once each, a sign-in at most three times and only while the resource demands
    /// scopes that were not asked for.
    /// - Parameters:
    ///   - method: The method of the request.
    ///   - url: The address of the request: the resource, or below it.
    ///   - body: Sends the request with the fields that it is given, of which there are none before the first sign-in, and returns the
    ///     response and its head.
    /// - Returns: The response, whatever its status.
    /// - Throws: ``AuthError`` with `invalid_configuration` when a token for the resource may not go to the address; `login_required`
    ///   when a user has to sign in and that is not allowed here; `insufficient_scope` when new tokens do not help; what signing in,
    ///   refreshing and `body` throw.
    public func perform<Response: Sendable>(
        _ method: HTTPRequest.Method,
        _ url: String,
        _ body: nonisolated(nonsending) (HTTPFields) async throws -> (response: Response, head: HTTPResponse)
    ) async throws -> Response {
        var attempt = try attempt(method, url)
        while true {
            let fields = try await authorize(&attempt)
            let (response, head) = try await body(fields)
            guard try await mustRepeat(&attempt, after: head) else { return response }
        }
    }

    /// Learns what a connection to the resource led to.
    package func learn(reach: NetworkReach?) { transport.learn(reach) }

    /// A request to the resource, for programs that send it by other means than ``perform(_:_:_:)``.
    /// - Throws: ``AuthError`` with `invalid_configuration` when a token for the resource may not go to the address.
    public func attempt(_ method: HTTPRequest.Method, _ url: String) throws(AuthError) -> ResourceAttempt {
        ResourceAttempt(method: method, endpoint: try requireOrigin(url))
    }

    /// The header fields that authorize a request; none before the first sign-in.
    /// - Throws: What refreshing throws; ``AuthError`` with `invalid_configuration` when a token for the resource may not go to the
    ///   address.
    public func authorize(_ attempt: inout ResourceAttempt) async throws -> HTTPFields {
        attempt.credential = try await usableCredential(for: attempt.endpoint)
        guard let credential = attempt.credential, let client = try await client() else { return HTTPFields() }
        return try await client.client.authorizationFields(
            method: attempt.method,
            endpoint: attempt.endpoint,
            tokens: credential.tokens,
            nonces: nonces
        )
    }

    /// Does what a response demands: takes a nonce over, refreshes, signs in, or asks for more scopes.
    /// - Parameters:
    ///   - attempt: The request.
    ///   - head: The head of the response to it.
    ///   - mayAsk: Whether a user may be asked; default: as the options say.
    /// - Returns: Whether the request is to be authorized and sent again.
    /// - Throws: As ``perform(_:_:_:)``.
    public func mustRepeat(
        _ attempt: inout ResourceAttempt,
        after head: HTTPResponse,
        mayAsk: Bool = true
    ) async throws -> Bool {
        learn(from: head, of: attempt)
        let challenges = AuthenticationChallenge.challenges(in: head.headerFields)
        guard let challenge = ResourceChallenge(status: head.status.code, challenges: challenges) else { return false }
        return try await satisfy(challenge, &attempt, mayAsk)
    }

    /// Takes over what a response says for the next request: the nonce for its proof, which any response may have (RFC 9449 section 9).
    public func learn(from head: HTTPResponse, of attempt: ResourceAttempt) {
        guard attempt.credential?.tokens.dpopKey != nil else { return }
        nonces.learn(from: head.headerFields, origin: attempt.endpoint.origin)
    }

    private func requireOrigin(_ url: String) throws(AuthError) -> Endpoint {
        let endpoint = try Endpoint(url, name: "address of the request")
        guard endpoint.origin == address.origin else {
            throw AuthError(
                .invalidConfiguration,
                "The access token for \(address) must not be sent to \(endpoint.origin)."
            )
        }
        return endpoint
    }

    /// Whether a token may be sent to the address: one for more of the host only by a document that was the host's own.
    func isUsableHere(_ known: KnownResource) -> Bool {
        known.coversHost || known.resource == options.resource
            || ProtectedResourceMetadata.fit(of: known.resource, to: address) == .identical
    }

    /// The credential to send, refreshed when necessary; nil when there is none, so that the resource says what it demands.
    private func usableCredential(for endpoint: Endpoint) async throws -> Credential? {
        guard let known = try await known(), let client = try await client(of: known) else { return nil }
        // A token for one resource of a server is not for its others.
        guard
            ProtectedResourceMetadata.fit(of: known.resource, to: endpoint) != nil
                || endpoint.url == address.url
                    && [options.resource, address.resourceIdentifier].contains(known.resource)
        else {
            throw AuthError(
                .invalidConfiguration,
                "The access token is for \(Redaction.url(known.resource)), and \(endpoint) is not below it."
            )
        }
        // Otherwise the resource is asked again.
        guard isUsableHere(known) else { return nil }
        do {
            return try await client.freshCredential(lasting: .zero)
        } catch let error as AuthError where error.code == .loginRequired {
            // Another process may have begun anew meanwhile, with another server or client.
            if let newer = try await self.known(reading: true), newer != known {
                return try? await self.client(of: newer)?.freshCredential(lasting: .zero)
            }
            state.withLock { $0.end = error }
            return nil
        } catch let error as AuthError where isForgotten(known, error) {
            try await forget(known, client)
            return nil
        }
    }

    /// Whether an authorization server has forgotten a client that registered itself.
    private func isForgotten(_ known: KnownResource, _ error: AuthError) -> Bool {
        known.identification == .dynamic && error.code == .providerRejected
            && Self.isUnknownClient(error.providerError?.error)
    }

    /// Drops a registration that the server does not know, with its tokens for this resource: they cannot be refreshed any more.
    private func forget(_ known: KnownResource, _ client: AuthClient) async throws {
        _ = try await client.signOutLocally()
        try await registrations.remove(at: known.issuer, for: redirectURI, clientID: known.clientID)
        state.withLock { if $0.client?.known == cacheKey(known) { $0.client = nil } }
    }

    // MARK: Challenges

    /// Does what a challenge demands.
    /// - Returns: Whether the request is to be sent again.
    private func satisfy(
        _ challenge: ResourceChallenge,
        _ attempt: inout ResourceAttempt,
        _ mayAsk: Bool
    ) async throws -> Bool {
        let rejected = attempt.credential
        switch challenge.demand {
        case .nonce where rejected != nil:
            // RFC 9449 section 9: one more try, with a proof that has the nonce of this response.
            attempt.round.nonces += 1
            return attempt.round.nonces == 1
        case .token, .nonce:
            guard let rejected else { break }
            // MCP authorization: a 403 that does not ask for scopes is no reason to sign in, where there was a token.
            guard challenge.status == 401 || challenge.hasError else { return false }
            // Once before a sign-in, and once after it: another process may have refreshed what it has just obtained.
            if attempt.round.replacements <= attempt.round.signIns {
                attempt.round.replacements = attempt.round.signIns + 1
                if try await replace(rejected, challenge) {
                    attempt.round.hasReplaced = true
                    return true
                }
            }
        case .scope:
            guard let rejected, let demanded = challenge.scopes else {
                if rejected == nil { break }
                return false
            }
            let known = try await known()?.scopes ?? []
            let wanted = Set(known).union(demanded)
            // A token of another process may have the scopes already.
            if !attempt.round.hasLookedForScopes, Set(known).isSuperset(of: demanded) {
                attempt.round.hasLookedForScopes = true
                if let newer = try await client()?.credential(),
                    newer.tokens.accessToken != rejected.tokens.accessToken
                {
                    return true
                }
            }
            // MCP authorization, "Step-Up Authorization Flow": "no more than a few times", and then it is a permanent failure.
            guard attempt.round.scopes != wanted, attempt.round.signIns < Self.maximumSignIns,
                !state.withLock({ $0.fruitless.contains(wanted) })
            else {
                state.withLock { state in
                    if state.fruitless.count >= 64 { state.fruitless = [] }
                    _ = state.fruitless.insert(wanted)
                }
                throw AuthError(
                    .insufficientScope,
                    "\(address) wants the scopes \(DisplayText.sanitized(demanded.joined(separator: " "), limit: 200)), but rejected a token requested with them."
                )
            }
            return try await signIn(to: challenge, rejected, &attempt.round, mayAsk, for: wanted)
        case .authentication: break
        }
        guard attempt.round.signIns == 0 else {
            let error = refusedAfterSignIn
            await rest(after: error)
            throw error
        }
        return try await signIn(to: challenge, rejected, &attempt.round, mayAsk, for: nil)
    }

    /// The most sign-ins of other requests that one waits for.
    private static let maximumWaits = 8

    private func signIn(
        to challenge: ResourceChallenge,
        _ rejected: Credential?,
        _ round: inout ResourceAttempt.Round,
        _ mayAsk: Bool,
        for scopes: Set<String>?
    ) async throws -> Bool {
        guard methods.withoutUser != nil || options.signsInOnDemand && mayAsk else {
            guard mayAsk else { return false }
            throw loginRequired(because: state.withLock { $0.end })
        }
        if try await signInForAll(to: challenge, rejected: rejected?.tokens.accessToken) {
            round.signIns += 1
            round.scopes = scopes
        } else {
            round.waits += 1
            guard round.waits < Self.maximumWaits else { throw refusedAfterSignIn }
        }
        return true
    }

    private var refusedAfterSignIn: AuthError {
        AuthError(
            .accessTokenRejected,
            "\(address) does not accept the access token that was obtained for it just now.",
            status: 401
        )
    }

    /// Replaces a token that the resource has refused before its end, by a refresh or by what another process has stored.
    /// - Returns: Whether there is another token now.
    private func replace(_ rejected: Credential, _ challenge: ResourceChallenge) async throws -> Bool {
        guard let known = try await known(), let client = try await client(of: known) else { return false }
        // RFC 9728 section 5.2: any 401 may announce metadata that has changed. Another authorization server takes no tokens of the old.
        if challenge.metadata != nil {
            do {
                let found = try await find(challenge)
                guard found.server.issuer.isIdentical(to: known.issuer), found.resource == known.resource else {
                    return false
                }
            } catch let error as AuthError where error.isPassing {
                // What cannot be asked now has not changed.
            }
        }
        do {
            return try await client.credential(replacing: rejected.tokens.accessToken).tokens.accessToken
                != rejected.tokens.accessToken
        } catch let error as AuthError where error.code == .loginRequired {
            if let newer = try await self.known(reading: true), newer != known { return true }
            state.withLock { $0.end = error }
            return false
        } catch let error as AuthError where isForgotten(known, error) {
            // A new registration, and a new sign-in.
            try await forget(known, client)
            return false
        }
    }
}

/// A request to a protected resource, and what was tried for it.
public struct ResourceAttempt: Sendable {
    let method: HTTPRequest.Method
    let endpoint: Endpoint
    /// The credential that it was sent with last.
    var credential: Credential?
    var round = Round()

    /// Whether its access token was replaced by another after it had been refused.
    public var hasNewToken: Bool { round.hasReplaced || round.signIns > 0 }

    struct Round {
        var nonces = 0
        /// How many times a token was replaced, at the most once more than there were sign-ins.
        var replacements = 0
        var hasReplaced = false
        var hasLookedForScopes = false
        var signIns = 0
        /// The sign-ins of other requests that were waited for.
        var waits = 0
        /// The scopes of the last sign-in.
        var scopes: Set<String>?
    }
}
