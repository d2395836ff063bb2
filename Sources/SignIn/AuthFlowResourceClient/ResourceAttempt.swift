import AuthFlowEssentials
public import AuthFlowOAuth

/// A request to a protected resource, and the attempts to authorize it.
public struct ResourceAttempt: Sendable {
    let method: HTTPRequest.Method
    let endpoint: Endpoint
    /// The credential of the last attempt.
    var credential: Credential?
    var round = Round()

    /// Whether a new access token was obtained after the resource rejected the request.
    package var hasNewToken: Bool { round.hasReplaced || round.signIns > 0 }
}

extension ResourceAttempt {
    /// The attempts of one request, which decide the response to the next challenge. Without I/O: ``ResourceClient`` performs the steps.
    struct Round: Sendable {
        /// The maximum number of sign-ins that one request may cause.
        private static let maximumSignIns = 3
        /// The maximum number of times that a request waits for another request's sign-in.
        private static let maximumWaits = 8

        /// The number of retries with a new nonce for ``nonceToken``.
        private var nonces = 0
        private var nonceToken: Secret?
        /// The number of retries with a new nonce for all tokens.
        private var allNonces = 0
        /// The correction for this machine's clock in the last proof, in seconds.
        var clockCorrection: TimeInterval = 0
        /// Whether the request was retried with the resource's time.
        var hasCorrectedClock = false
        /// One more than the number of sign-ins at the last attempt to replace a token; 0 before the first attempt.
        private var replacements = 0
        var hasReplaced = false
        private var hasLookedForScopes = false
        private(set) var signIns = 0
        /// The number of other requests' sign-ins that this request has waited for.
        private var waits = 0
        /// The scopes of the last sign-in.
        private var scopes: Set<String>?
        /// The authentication that the last sign-in requested.
        private var authenticated: RequiredAuthentication?
        /// The combined authentication requirement of all challenges.
        var authentication: RequiredAuthentication?
        /// The reason why the stored tokens cannot be used.
        var end: AuthError?

        /// A step that responds to a challenge.
        enum Step: Equatable {
            /// Returns the response to the caller, because no token would change it.
            case finish
            /// Sends the request again.
            case retry
            /// Sends the request again if the token can be replaced; otherwise the next step follows.
            case replace
            /// Sends the request again if another process has stored another token; otherwise the next step follows.
            case findNewer
            /// Signs in. The scopes are those of a step-up, including those of the last sign-in; nil for another sign-in.
            case signIn(scopes: Set<String>?)
            /// Fails: the resource rejected a token that was just obtained.
            case rejectNewToken
            /// Fails: the resource rejected a token with the scopes that it requires. If this request obtained that token, the failed
            /// step-up is remembered.
            case rejectScopes([String], remembering: Set<String>?)
        }

        /// The scopes of the last sign-in, and the failed step-ups of all requests.
        struct StepUps {
            var requested: Set<String> = []
            /// The sets of scopes for which even a new token was rejected, and the time of each rejection.
            var rejected: [Set<String>: Date] = [:]
        }

        /// The next step after a challenge.
        /// - Parameters:
        ///   - rejected: The credential of the request; nil if it had none.
        ///   - stepUps: Used if the challenge demands scopes.
        mutating func step(
            after challenge: ResourceChallenge,
            rejecting rejected: Credential?,
            _ stepUps: StepUps,
            at now: Date
        ) -> Step {
            switch challenge.demand {
            case .nonce where rejected != nil:
                // RFC 9449 section 9: one more attempt, with a proof that contains the nonce of this response.
                if nonceToken != rejected?.tokens.accessToken { nonces = 0 }
                nonceToken = rejected?.tokens.accessToken
                nonces += 1
                allNonces += 1
                // Tokens that expire immediately would otherwise permit any number of attempts.
                return nonces == 1 && allNonces <= 2 + replacements + signIns ? .retry : .finish
            case .token, .nonce:
                guard rejected != nil else { break }
                // MCP authorization: if the request had a token, a 403 response without an `error` does not start a sign-in.
                guard challenge.status == 401 || challenge.hasError else { return .finish }
                // A token is replaced once before a sign-in and once after it, because another process may already have
                // refreshed the token that was just obtained.
                if replacements <= signIns {
                    replacements = signIns + 1
                    return .replace
                }
            case .scope:
                guard let rejected else { break }
                guard let demanded = challenge.scopes else { return .finish }
                return step(toward: demanded, rejecting: rejected, stepUps, at: now)
            case .authentication:
                // A sign-in that did not request this authentication does not count as a failed attempt.
                if authenticated != challenge.authentication, (1..<Self.maximumSignIns).contains(signIns) {
                    return .signIn(scopes: nil)
                }
            }
            return signIns == 0 ? .signIn(scopes: nil) : .rejectNewToken
        }

        private mutating func step(
            toward demanded: [String],
            rejecting rejected: Credential,
            _ stepUps: StepUps,
            at now: Date
        ) -> Step {
            // Another process may already have obtained a token with the scopes. This process may have cached the old token less than ten
            // seconds ago.
            if !hasLookedForScopes, stepUps.requested.isSuperset(of: demanded) {
                hasLookedForScopes = true
                return .findNewer
            }
            // MCP authorization, "Step-Up Authorization Flow": step-up is attempted "no more than a few times"; after that, the failure is
            // remembered for an hour.
            let wanted = stepUps.requested.union(demanded)
            guard scopes.map({ !$0.isSuperset(of: demanded) }) ?? true else {
                return .rejectScopes(demanded, remembering: wanted)
            }
            // After a later sign-in, perhaps by another user, the failure says nothing about the present token. A time in the future is from before
            // the clock was set back.
            let isOver =
                stepUps.rejected[wanted].map { now > $0 + 3600 || now < $0 || rejected.signedInAt > $0 } ?? true
            guard signIns < Self.maximumSignIns, isOver else { return .rejectScopes(demanded, remembering: nil) }
            return .signIn(scopes: wanted)
        }

        /// Records the sign-in that this request has started.
        mutating func didSignIn(for challenge: ResourceChallenge, scopes: Set<String>?) {
            signIns += 1
            // A sign-in for authentication also requests the scopes of an earlier step-up.
            self.scopes = scopes ?? self.scopes
            authenticated = challenge.authentication
        }

        /// Records the sign-in of another request, for which this request has waited.
        /// - Returns: Whether the request may be sent again.
        mutating func didWait() -> Bool {
            waits += 1
            return waits < Self.maximumWaits
        }
    }
}
