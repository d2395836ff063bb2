import AuthFlow
import AuthFlowJSON
import Crypto
import HTTPTypes
import Synchronization

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

// DPoP proofs (RFC 9449), checked as strictly as the RFC requires.

/// Whether an emulated provider requires DPoP proofs, and nonces in them.
public enum DPoPPolicy: Sendable, Hashable {
    /// Proofs are checked when they are sent.
    case optional
    /// No tokens are issued without a proof.
    case required
    /// No tokens are issued without a proof with a nonce of the provider in it.
    case requiredWithNonce
}

extension OIDCEmulator {
    /// The result of checking a proof.
    enum Proof {
        /// There is none.
        case absent
        /// It is valid, and signed with the key of this thumbprint.
        case good(thumbprint: String)
        /// It is invalid, or needs a nonce.
        case refused(error: String, description: String)
    }

    /// Checks the proof of a request.
    /// - Parameters:
    ///   - request: The request.
    ///   - address: The address that the client has called.
    ///   - accessToken: The access token sent with it; nil at the token endpoint, where `ath` must be absent.
    func proof(of request: HTTPRequest, at address: String, accessToken: String?) -> Proof {
        let values = request.headerFields[values: HTTPField.Name("DPoP") ?? .authorization]
        guard let text = values.first else { return .absent }
        func refuse(_ what: String) -> Proof { .refused(error: "invalid_dpop_proof", description: what) }
        guard values.count == 1, !text.contains(",") else { return refuse("there are several proofs") }
        let parts = text.split(separator: ".", omittingEmptySubsequences: false)
        guard parts.count == 3, let header = Self.json(parts[0]), let claims = Self.json(parts[1]),
            let signature = Base64URL.decode(parts[2])
        else { return refuse("the proof is not a JWT") }
        guard header["typ"]?.string == "dpop+jwt" else { return refuse("typ is not dpop+jwt") }
        guard header["alg"]?.string == "ES256", let jwk = header["jwk"], jwk["d"] == nil,
            let x = jwk["x"]?.string, let y = jwk["y"]?.string, let xBytes = Base64URL.decode(x),
            let yBytes = Base64URL.decode(y),
            let key = try? P256.Signing.PublicKey(rawRepresentation: xBytes + yBytes),
            let signed = try? P256.Signing.ECDSASignature(rawRepresentation: signature),
            key.isValidSignature(signed, for: Array("\(parts[0]).\(parts[1])".utf8))
        else { return refuse("the signature or the key is wrong") }
        guard claims["htm"]?.string == request.method.rawValue else { return refuse("htm is wrong") }
        guard claims["htu"]?.string == String(address.prefix { $0 != "?" }) else {
            return refuse("htu is wrong")
        }
        // A server may read its clock from a coarser source than the client, so that a proof of this very second is in its future.
        // What other servers refuse now and then is always refused here.
        guard let issued = claims["iat"]?.number, 1...300 ~= now().timeIntervalSince1970 - issued else {
            return refuse("iat is in the future or long ago")
        }
        guard let jti = claims["jti"]?.string, !jti.isEmpty, state.withLock({ $0.usedProofs.insert(jti).inserted })
        else {
            return refuse("the proof was used before")
        }
        let hash = accessToken.map { Base64URL.encode(SHA256.hash(data: Array($0.utf8))) }
        guard claims["ath"]?.string == hash else { return refuse("ath is wrong, or must be absent") }
        let wantsNonce = accessToken == nil ? dpop == .requiredWithNonce : resourceWantsNonce
        guard !wantsNonce || claims["nonce"]?.string == currentNonce else {
            return .refused(error: "use_dpop_nonce", description: "Authorization server requires nonce in DPoP proof.")
        }
        let members = #"{"crv":"P-256","kty":"EC","x":"\#(x)","y":"\#(y)"}"#
        return .good(thumbprint: Base64URL.encode(SHA256.hash(data: Array(members.utf8))))
    }

    private static func json(_ part: Substring) -> JSON? { Base64URL.decode(part).flatMap { try? JSON(parsing: $0) } }

    var currentNonce: String { state.withLock { "nonce-\($0.nonceNumber)" } }

    /// Changes the nonce, so that those that clients know are refused.
    public func changeDPoPNonce() { state.withLock { $0.nonceNumber += 1 } }

    /// The response of the token endpoint to a proof that it refuses.
    func refusal(_ error: String, _ description: String) -> TransportResponse {
        var response = TransportResponse.json(
            ["error": .string(error), "error_description": .string(description)],
            status: .badRequest
        )
        addNonce(to: &response)
        return response
    }

    func addNonce(to response: inout TransportResponse) {
        guard dpop == .requiredWithNonce || resourceWantsNonce, let name = HTTPField.Name("dpop-nonce") else { return }
        response.head.headerFields[name] = currentNonce
    }

    /// The grant of a request's access token, when it is sent with the scheme that the token requires.
    func grant(of request: HTTPRequest, at address: String) -> (grant: Grant?, challenge: String?) {
        let parts = (request.headerFields[.authorization] ?? "").split(separator: " ").map(String.init)
        guard parts.count == 2, let grant = state.withLock({ $0.accessTokens[parts[1]] }) else {
            return (nil, #"Bearer error="invalid_token""#)
        }
        // RFC 8705 section 3: a token that is bound to a certificate comes with it.
        if let certificate = grant.authorization.client.certificateThumbprint {
            guard Self.thumbprint(of: request) == certificate else { return (nil, #"Bearer error="invalid_token""#) }
        }
        switch (parts[0].lowercased(), grant.thumbprint) {
        case ("bearer", nil): return (grant, nil)
        case ("dpop", let expected?):
            switch proof(of: request, at: address, accessToken: parts[1]) {
            case .good(expected): return (grant, nil)
            // Row 107: the scheme is written in odd case.
            case .refused(let error, _): return (nil, #"dPoP error="\#(error)", algs="ES256""#)
            default: return (nil, #"dPoP error="invalid_token""#)
            }
        default: return (nil, #"DPoP error="invalid_token""#)
        }
    }
}
