public import AuthFlowOAuth

/// The challenge of a protected resource in a 401 or 403 response (RFC 6750 section 3, RFC 9728 section 5.1, RFC 9470).
public struct ResourceChallenge: Sendable, Hashable {
    /// The requirement of the resource that the request did not meet.
    package enum Demand: Sendable, Hashable {
        /// A new token: the token is missing, has expired, or was revoked.
        case token
        /// A token with more scopes than the rejected token has (`insufficient_scope`).
        case scope
        /// A DPoP proof with a nonce from the resource (`use_dpop_nonce`, RFC 9449 section 9).
        case nonce
        /// A stronger or more recent authentication of the user (`insufficient_user_authentication`, RFC 9470).
        case authentication
    }

    /// The requirement that the challenge states.
    package let demand: Demand

    /// `scope`: the scopes that this operation requires; nil when absent.
    package let scopes: [String]?

    /// `resource_metadata`: the URL of the resource's metadata; nil when absent.
    package let metadata: String?

    /// The usable values of `acr_values` (RFC 9470) among the first 100; empty when there are none.
    package var acrValues: [String] { authentication.acrValues }

    /// `max_age` in seconds (RFC 9470), at most one year; nil when absent or not in this range.
    package var maxAge: Int? { authentication.maxAge }

    /// The required user authentication.
    var authentication: RequiredAuthentication

    /// The status of the response.
    let status: Int

    /// Whether the challenge contains an `error`.
    let hasError: Bool

    /// Whether the resource accepts DPoP-bound tokens (RFC 9449) with proofs signed with ES256, the algorithm of generated keys.
    package let isDPoP: Bool

    /// Whether one of the challenges has the scheme `Bearer`.
    let isBearer: Bool

    /// Parses the challenges of a response.
    /// - Returns: The challenge; nil when the response does not request a token, so that signing in would not help.
    package init?(status: Int, challenges: [AuthenticationChallenge]) {
        let usable = challenges.filter { $0.scheme == "bearer" || $0.scheme == "dpop" }
        func first(_ isWanted: (AuthenticationChallenge) -> Bool) -> AuthenticationChallenge? {
            usable.first(where: isWanted)
        }
        let chosen =
            first { $0.parameters["error"] == "use_dpop_nonce" } ?? first {
                $0.parameters["error"] == "insufficient_scope"
            }
            // A server that accepts both schemes reports the error in the challenge of the scheme that was used.
            ?? first { $0.parameters["error"] != nil }
            ?? first { $0.parameters["resource_metadata"] != nil } ?? usable.first
        let error = chosen?.parameters["error"]
        self.status = status
        self.hasError = error != nil
        switch (status, error) {
        case (401, "use_dpop_nonce"): demand = .nonce
        case (401, "insufficient_user_authentication"): demand = .authentication
        case (403, "insufficient_scope"), (401, "insufficient_scope"): demand = .scope
        // RFC 9110 section 15.5.2 requires `WWW-Authenticate` in a 401 response, but some servers omit it; the
        // metadata is then found at the well-known URLs.
        case (401, _): demand = .token
        // Some servers respond with 403 to a request without a token; a 403 response without a challenge is only a denial.
        case (403, nil) where chosen != nil, (403, "invalid_token"): demand = .token
        default: return nil
        }
        let scope = chosen?.parameters["scope"] ?? usable.lazy.compactMap { $0.parameters["scope"] }.first
        scopes = scope.map { $0.split(separator: " ").map(String.init) }
            .flatMap { $0.isEmpty || !$0.allSatisfy(ClientRegistration.Values.isScopeToken) ? nil : $0 }
        // Every challenge is for the same resource, so `resource_metadata` is accepted from any of them.
        metadata =
            chosen?.parameters["resource_metadata"]
            ?? usable.lazy.compactMap { $0.parameters["resource_metadata"] }.first
        authentication = RequiredAuthentication(
            // The values become arguments of a command that the user is advised to run.
            acrValues: (chosen?.parameters["acr_values"] ?? "").split(separator: " ").prefix(100).map(String.init)
                .filter(ClientRegistration.Values.isScopeToken),
            maxAge: chosen?.parameters["max_age"].flatMap(Int.init).flatMap {
                ResourceClient.Options.maxAges.contains($0) ? $0 : nil
            }
        )
        isBearer = usable.contains { $0.scheme == "bearer" }
        // RFC 9449 section 7.1: algs is "A space-delimited list of supported JWS algorithms".
        isDPoP = usable.contains { challenge in
            challenge.scheme == "dpop"
                && challenge.parameters["algs"].map { $0.split(separator: " ").contains("ES256") } ?? true
        }
    }

    /// Parses the challenges of a response.
    /// - Returns: The challenge; nil when the response does not request a token.
    public init?(_ response: TransportResponse) {
        self.init(status: response.status, challenges: AuthenticationChallenge.challenges(in: response))
    }
}
