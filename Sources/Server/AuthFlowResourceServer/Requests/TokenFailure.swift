/// The reason for rejecting a request. The text is for the log; the client receives only the kind of error.
enum TokenFailure: Error, Sendable {
    /// The request is malformed (`invalid_request`).
    case malformed(String)
    /// The token is not accepted (`invalid_token`).
    case invalid(String)
    /// The proof is not accepted (`invalid_dpop_proof`).
    case invalidProof(String)
    /// The proof has no valid nonce (`use_dpop_nonce`).
    case requiresNonce
    case insufficientScope
    case insufficientAuthentication

    static let proofsAreNotAccepted = TokenFailure.invalid(
        "it is bound to a DPoP key, but this API does not accept DPoP proofs"
    )
}
