import AuthFlow
import AuthFlowEssentials
import Synchronization

// DPoP proofs (RFC 9449), checked as strictly as the RFC requires.

/// Whether an emulated provider requires DPoP proofs, and nonces in them.
public enum DPoPPolicy: Sendable, Hashable {
    /// Proofs are optional, and checked if they are sent.
    case optional
    /// No tokens are issued without a proof.
    case required
    /// No tokens are issued without a proof that contains a server-provided nonce.
    case requiredWithNonce
}

extension OIDCEmulator {
    /// Checks the proof of a request.
    /// - Parameters:
    ///   - request: The request.
    ///   - address: The URL that the client requested.
    ///   - accessToken: The access token sent with the proof; nil at the token endpoint, where `ath` must be absent.
    /// - Returns: nil when the request has no proof.
    func proof(of request: HTTPRequest, at address: String, accessToken: String?) -> EmulatedProof.Outcome? {
        guard request.headerFields[.dpop] != nil else { return nil }
        let requiresNonce = accessToken == nil ? settings.dpop == .requiredWithNonce : settings.resourceRequiresNonce
        return EmulatedProof.check(
            request,
            at: address,
            accessToken: accessToken,
            nonce: requiresNonce ? currentNonce : nil,
            now: now()
        ) { jti in state.withLock { $0.usedProofs.insert(jti).inserted } }
    }

    var currentNonce: String { state.withLock { "nonce-\($0.nonceNumber)" } }

    /// Changes the nonce, so that the previous one is rejected.
    public func changeDPoPNonce() { state.withLock { $0.nonceNumber += 1 } }

    /// The response of the token endpoint or the PAR endpoint to a missing or rejected proof.
    func refusal(_ error: String, _ description: String) -> TransportResponse {
        withNonce(.refusal(error, description))
    }

    func withNonce(_ response: TransportResponse) -> TransportResponse {
        guard settings.dpop == .requiredWithNonce || settings.resourceRequiresNonce else { return response }
        var response = response
        response.head.headerFields[.dpopNonce] = currentNonce
        return response
    }

    /// The grant of a request's access token, if the token is sent with the required scheme.
    func grant(of request: HTTPRequest, at address: String) -> (grant: Grant?, challenge: String?) {
        let parts = (request.headerFields[.authorization] ?? "").split(separator: " ").map(String.init)
        guard parts.count == 2, let grant = state.withLock({ $0.accessTokens[parts[1]] }) else {
            return (nil, #"Bearer error="invalid_token""#)
        }
        // RFC 8705 section 3: a certificate-bound token must be sent with that certificate.
        if let certificate = grant.authorization.client.certificateThumbprint {
            guard Self.thumbprint(of: request) == certificate else { return (nil, #"Bearer error="invalid_token""#) }
        }
        switch (parts[0].lowercased(), grant.thumbprint) {
        case ("bearer", nil): return (grant, nil)
        case ("dpop", let expected?):
            switch proof(of: request, at: address, accessToken: parts[1]) {
            case .valid(expected)?: return (grant, nil)
            // Row 107: the scheme is in mixed case.
            case .refused(let error, _)?: return (nil, #"dPoP error="\#(error)", algs="ES256""#)
            default: return (nil, #"dPoP error="invalid_token""#)
            }
        default: return (nil, #"DPoP error="invalid_token""#)
        }
    }
}
