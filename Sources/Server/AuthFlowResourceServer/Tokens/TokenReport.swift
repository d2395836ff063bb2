import Synchronization

/// The checks of one access token, each with its outcome: for an operator who has to find out why an API rejects a token.
///
/// It tells an attacker which check to try next. Show it to operators and never to clients.
public struct TokenReport: Sendable {
    /// A check of a token. The cases are in the order of the checks.
    public enum Check: String, Sendable, Hashable, CaseIterable {
        /// The characters and the length of the token.
        case form
        /// The issuer that the token names, and whether the API trusts it.
        case issuer
        /// The header: its type and its algorithm.
        case header
        /// Whether the token is meant for the API.
        case audience
        /// Whether the token is already valid and has not expired.
        case lifetime
        /// The claims that every access token must have.
        case claims
        /// The signature, with a key of the issuer.
        case signature
        /// Whether the issuer reports the token as active.
        case introspection
        /// How the token is bound to its client.
        case binding
        /// How and when the user was authenticated.
        case authentication
        /// The scopes.
        case scopes

        /// The specification that requires the check.
        public var specification: String {
            switch self {
            case .form: "RFC 6750 section 2.1"
            case .issuer, .audience, .signature: "RFC 9068 section 4"
            case .header: "RFC 9068 section 4, RFC 8725 section 3.11"
            case .lifetime: "RFC 7519 sections 4.1.4 to 4.1.6"
            case .claims: "RFC 9068 section 2.2"
            case .introspection: "RFC 7662 section 2.2"
            case .binding: "RFC 9449 section 6, RFC 8705 section 3"
            case .authentication: "RFC 9470 section 3"
            case .scopes: "RFC 6750 section 3.1"
            }
        }
    }

    /// The outcome of a check.
    public enum Outcome: Sendable, Hashable {
        /// The token has passed, with a detail such as the issuer; empty for none.
        case passed(String)
        /// The API rejects the token for this reason.
        case failed(String)
        /// The check could not be made: the issuer cannot be reached.
        case undecided(String)
        /// The check was not made, for this reason.
        case skipped(String)
    }

    /// One check.
    public struct Step: Sendable, Hashable {
        /// The check.
        public let check: Check
        /// Its outcome.
        public let outcome: Outcome
    }

    /// The checks that were made, in order. Nothing follows a failed one.
    public let steps: [Step]

    /// Whether the API accepts the token. A token that is bound to a key or a certificate needs a proof with each request, too.
    public let isAccepted: Bool
}

extension TokenReport {
    /// Records the checks of a token as they begin.
    final class Recorder: Sendable {
        /// Whether the issuer may be asked about the token.
        let introspects: Bool
        private let steps = Mutex<[Step]>([])

        init(introspects: Bool) { self.introspects = introspects }

        /// Starts a check; the previous one has passed.
        func begin(_ check: Check) { steps.withLock { $0.append(Step(check: check, outcome: .passed(""))) } }

        /// Sets the outcome of the check in progress.
        func end(_ outcome: Outcome) {
            steps.withLock { steps in
                guard let last = steps.popLast() else { return }
                steps.append(Step(check: last.check, outcome: outcome))
            }
        }

        /// Whether a check was skipped.
        var hasSkipped: Bool {
            steps.withLock { steps in
                steps.contains { step in
                    if case .skipped = step.outcome { return true }
                    return false
                }
            }
        }

        func report(isAccepted: Bool) -> TokenReport {
            TokenReport(steps: steps.withLock { $0 }, isAccepted: isAccepted)
        }
    }

    /// An opaque token was not introspected, because the report must not send it to the issuer.
    struct IsNotIntrospected: Error {}
}
