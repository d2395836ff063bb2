import Synchronization

/// The checks of one access token, each with its outcome, for an operator who needs to find out why an API rejects a
/// token.
///
/// Show the report only to operators, never to clients: it would tell an attacker which check to bypass next.
package struct TokenReport: Sendable {
    /// A check of a token. The cases are in the order of the checks.
    package enum Check: String, Sendable, Hashable, CaseIterable {
        /// The characters and the length of the token.
        case form
        /// Whether the API trusts the token's issuer.
        case issuer
        /// The header: its type and its algorithm.
        case header
        /// Whether the audience of the token includes the API.
        case audience
        /// Whether the current time is within the token's validity period.
        case lifetime
        /// The claims that every access token must have.
        case claims
        /// The signature, verified with a key of the issuer.
        case signature
        /// Whether the issuer reports the token as active.
        case introspection
        /// The binding of the token to its client.
        case binding
        /// The context class (`acr`) and the time (`auth_time`) of the user's authentication.
        case authentication
        /// The scopes.
        case scopes

        /// The specification that requires the check.
        package var specification: String {
            switch self {
            case .form: "RFC 6750 section 2.1"
            case .issuer, .audience, .signature: "RFC 9068 section 4"
            case .header: "RFC 9068 section 4, RFC 8725 section 3.11"
            case .lifetime: "RFC 7519 sections 4.1.4 and 4.1.5"
            case .claims: "RFC 9068 section 2.2"
            case .introspection: "RFC 7662 section 2.2"
            case .binding: "RFC 9449 section 6, RFC 8705 section 3"
            case .authentication: "RFC 9470 section 3"
            case .scopes: "RFC 6750 section 3.1"
            }
        }
    }

    /// The outcome of a check.
    package enum Outcome: Sendable, Hashable {
        /// The token passed the check. The text is a detail, such as the issuer, or empty.
        case passed(String)
        /// The token failed the check, for this reason.
        case failed(String)
        /// The check could not be completed, for example because the issuer cannot be reached.
        case undecided(String)
        /// The check was skipped, for this reason.
        case skipped(String)
    }

    /// One check.
    package struct Step: Sendable, Hashable {
        /// The check.
        package let check: Check
        /// The outcome of the check.
        package let outcome: Outcome
    }

    /// The checks, in order. A failed check is the last one.
    package let steps: [Step]

    /// Whether the API accepts the token. If the token is bound to a key or a certificate, each request must also prove
    /// possession of the private key.
    package let isAccepted: Bool
}

extension TokenReport {
    /// Records the checks of a token as they begin.
    final class Recorder: Sendable {
        /// Whether the token may be introspected at its issuer.
        let introspects: Bool
        private let steps = Mutex<[Step]>([])

        init(introspects: Bool) { self.introspects = introspects }

        /// Starts a check. A check counts as passed unless its outcome is set.
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
            steps.withLock { $0.contains { if case .skipped = $0.outcome { true } else { false } } }
        }

        func report(isAccepted: Bool) -> TokenReport {
            TokenReport(steps: steps.withLock { $0 }, isAccepted: isAccepted)
        }
    }

    /// Thrown for an opaque token if the token must not be introspected for the report.
    struct IntrospectionNotAllowed: Error {}
}
