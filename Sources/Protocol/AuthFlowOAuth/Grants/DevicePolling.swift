package import AuthFlowHTTP
import AuthFlowIssuer

/// Polls for the tokens of a device authorization until the user approves or denies the sign-in, or the code expires
/// (RFC 8628 sections 3.4 and 3.5).
package struct DevicePolling: Sendable {
    let client: OAuthClient
    let reporter: FlowReporter
    /// Completes a poll that is in progress when the task is cancelled.
    let unfinished: UnfinishedWork

    package init(client: OAuthClient, reporter: FlowReporter, unfinished: UnfinishedWork) {
        self.client = client
        self.reporter = reporter
        self.unfinished = unfinished
    }

    /// The result of one poll.
    private enum PollResult<Return: Sendable>: Sendable {
        case tokens(Result<Return, any Error>)
        case pending
        /// The new interval that the server requests; also the error, if the response reported a rate limit.
        case slowDown(requestedDelay: Duration, AuthError?)
        /// The server sent no response, or an unusable response: the error, and the delay that the server requests.
        case noResponse(AuthError, requestedDelay: Duration)
    }

    /// The maximum delay that exponential backoff alone can reach after missing responses.
    private static let maximumBackoff = Duration.seconds(60)

    /// Polls, and completes the sign-in with the tokens that it receives. If the task is cancelled during a poll, the poll still
    /// completes, because the provider delivers tokens only once.
    /// - Parameter complete: Validates and stores the tokens.
    /// - Throws: ``AuthError`` with `access_denied` when the user denied the sign-in, `timed_out` when the code has expired, or
    ///   another error from the provider; any error thrown by `complete`; `CancellationError`.
    package func wait<Return: Sendable>(
        for authorization: DeviceAuthorization,
        at metadata: ProviderMetadata,
        complete: @escaping @Sendable (TokenResponse) async throws -> Return
    ) async throws -> Return {
        let completion = try await reporter.step(.devicePolling) {
            try await poll(for: authorization, at: metadata, complete)
        }
        return try completion.get()
    }

    private func poll<Return: Sendable>(
        for authorization: DeviceAuthorization,
        at metadata: ProviderMetadata,
        _ complete: @escaping @Sendable (TokenResponse) async throws -> Return
    ) async throws -> Result<Return, any Error> {
        let key = try await client.newDPoPKey(at: metadata)
        // This clock is monotonic, and continues to advance while the system is suspended.
        let elapsed = client.host.clock.stopwatch()
        var request = try client.tokenRequest(
            .deviceToken,
            [
                "grant_type": "urn:ietf:params:oauth:grant-type:device_code",
                "device_code": authorization.deviceCode.exposed,
            ],
            at: metadata
        )
        request.addResources(authorization.resources)
        var interval = authorization.interval
        // A clock that runs fast shortens every delay by the same proportion, so adding a fixed 5 seconds may never be
        // enough: each slow_down response increases the delays by a further 20 percent.
        var slowDowns = 0
        var missingResponses = 0
        var lastFailure: AuthError?
        var requestedDelay = Duration.zero
        var hasResponded = false
        while true {
            let backedOff = min(interval * (1 << min(missingResponses, 8)), max(interval, Self.maximumBackoff))
            let factor = 1 + 0.2 * Double(min(slowDowns, 10))
            var wait = max(backedOff * factor, requestedDelay)
            let remaining = authorization.lifetime - elapsed()
            // If the backoff exceeds the code's remaining lifetime, the last poll is sent one interval before the code expires.
            let shortest = max(interval * factor, requestedDelay)
            if wait >= remaining, shortest < remaining { wait = max(shortest, remaining - interval * factor) }
            // If the requested delay is at least the code's remaining lifetime, no further poll can succeed.
            if requestedDelay >= remaining, let lastFailure { throw lastFailure }
            guard wait < remaining else {
                try await client.host.clock.sleep(for: max(remaining, .zero))
                throw expiry(lastFailure)
            }
            try await client.host.clock.sleep(for: wait)
            let result = try await unfinished.finish { [request, hasResponded] in
                try await self.poll(request, authorization.scopes, key, mayHaveNoError: hasResponded, complete)
            }
            switch result {
            case .tokens(let completion): return completion
            case .pending:
                hasResponded = true
                (missingResponses, lastFailure, requestedDelay) = (0, nil, .zero)
            case .slowDown(let new, let error):
                // "the interval MUST be increased by 5 seconds for this and all subsequent requests". A provider that specifies
                // an interval is never polled more frequently.
                hasResponded = true
                interval = max(interval + .seconds(5), new)
                guard new == .zero || new < authorization.lifetime - elapsed() else {
                    throw AuthError(
                        .timedOut,
                        "The provider requires a polling interval of \(Int(new.seconds)) s, but the device code expires sooner. Start again to get a new code."
                    )
                }
                slowDowns += 1
                (missingResponses, lastFailure, requestedDelay) = (0, error, error?.retryAfter ?? .zero)
                reporter.report(.devicePolling, details: ["interval": "\(Int(interval.seconds)) s"])
            case .noResponse(let error, let retryAfter):
                // "On encountering a connection timeout, clients MUST unilaterally reduce their polling frequency before
                // retrying. The use of an exponential backoff algorithm to achieve this ... is RECOMMENDED."
                missingResponses += 1
                lastFailure = error
                requestedDelay = retryAfter
                reporter.report(.devicePolling, details: ["retrying_after": error.code.rawValue])
            }
        }
    }

    /// - Parameter mayHaveNoError: Whether a response without an OAuth error is treated as a missing response.
    private func poll<Return: Sendable>(
        _ request: ProviderRequest,
        _ scopes: [String],
        _ key: DPoPKey?,
        mayHaveNoError: Bool,
        _ complete: @Sendable (TokenResponse) async throws -> Return
    ) async throws -> PollResult<Return> {
        let response: ProviderResponse
        do {
            response = try await client.sendFormRequest(request, scopes: scopes, key: key)
        } catch let error as AuthError
            where mayHaveNoError && error.code == .invalidResponse && 300..<400 ~= error.status ?? 0
        {
            // After valid OAuth responses, a redirect probably comes from a proxy.
            return .noResponse(error, requestedDelay: .zero)
        } catch let error as AuthError where error.isTransient {
            // Some servers send slow_down with the status for rate limiting (429).
            let isSlowDown = code(of: error.providerError) == "slow_down"
            return isSlowDown
                ? .slowDown(requestedDelay: .zero, error)
                : .noResponse(error, requestedDelay: error.retryAfter ?? .zero)
        }
        do {
            let received = try client.parseTokenResponse(response, key: key)
            do {
                return .tokens(.success(try await complete(received)))
            } catch {
                return .tokens(.failure(error))
            }
        } catch let error as AuthError {
            let parameters = try? client.adapter.responseParameters(response)
            switch code(of: error.providerError) {
            case "authorization_pending": return .pending
            case "slow_down":
                return .slowDown(requestedDelay: .seconds((try? parameters?.seconds("interval")) ?? 0), nil)
            // Some servers use the error code from a draft of RFC 8628.
            case "access_denied", "authorization_declined":
                throw AuthError(
                    .accessDenied,
                    "The sign-in was denied on the other device.",
                    providerError: error.providerError
                )
            case "expired_token": throw expiry(nil, providerError: error.providerError)
            default:
                // With status 400 or above, such an error was thrown before the response was parsed. Some servers send every error with status 200.
                if error.code == .temporarilyUnavailable {
                    return .noResponse(error, requestedDelay: error.retryAfter ?? .zero)
                }
                // After valid OAuth responses, a page without an OAuth error probably comes from a proxy.
                if mayHaveNoError, parameters == nil, error.code == .invalidResponse, error.providerError == nil,
                    UnparsedResponse(body: response.http.body).token("access_token") == nil
                {
                    return .noResponse(error, requestedDelay: .zero)
                }
                // "If the client receives an error response with any other error code, it MUST stop polling and SHOULD react accordingly".
                await client.revokeTokens(in: response)
                throw error
            }
        }
    }

    /// The standard code for an error. Some servers omit `error`, and send the code as the description instead.
    private func code(of error: ProviderError?) -> String? {
        let codes = ["authorization_pending", "slow_down", "expired_token", "access_denied"]
        if let text = error?.errorDescription, error?.lacksErrorCode == true, codes.contains(text) { return text }
        return client.adapter.standardName(of: error)
    }

    private func expiry(_ lastFailure: AuthError?, providerError: ProviderError? = nil) -> AuthError {
        AuthError(
            .timedOut,
            "The code expired before the sign-in was complete.\(lastFailure.map { " The last request failed: \($0.message)" } ?? "") Start again to get a new code.",
            providerError: providerError,
            underlyingError: lastFailure
        )
    }
}
