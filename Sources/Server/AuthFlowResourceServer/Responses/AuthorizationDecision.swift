/// An API's decision about one request, for metrics.
public struct AuthorizationDecision: Sendable {
    /// `authorized`, `unauthenticated` for a request without a token, or the error code of the response, such as
    /// `invalid_token`. The set of values is small, because no value comes from a client or an issuer.
    public let outcome: String

    /// The duration of the decision.
    public let duration: Duration

    init(_ rejection: Rejection?, _ duration: Duration) {
        self.outcome = rejection.map { $0.error ?? "unauthenticated" } ?? "authorized"
        self.duration = duration
    }
}
