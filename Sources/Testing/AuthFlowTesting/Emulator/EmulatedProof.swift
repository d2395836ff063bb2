import AuthFlow
import AuthFlowEssentials
import Crypto

/// The validation of a DPoP proof by a server (RFC 9449 section 4.3).
enum EmulatedProof {
    enum Outcome: Hashable {
        /// The proof is valid, and signed with the key that has this thumbprint.
        case valid(thumbprint: String)
        /// The proof is invalid, or needs a nonce.
        case refused(error: String, description: String)

        static func refused(_ reason: String) -> Outcome { .refused(error: "invalid_dpop_proof", description: reason) }
    }

    /// The error for a proof without the required nonce.
    static let missingNonce = "use_dpop_nonce"

    /// - Parameters:
    ///   - address: The URL of the request.
    ///   - accessToken: The access token in the request; nil at a token endpoint.
    ///   - nonce: The nonce that the proof must contain; nil for none.
    ///   - isNew: Returns whether an identifier (`jti`) is new.
    static func check(
        _ request: HTTPRequest,
        at address: String,
        accessToken: String?,
        nonce: String?,
        now: Date,
        isNew: (String) -> Bool
    ) -> Outcome {
        let values = request.headerFields[values: .dpop]
        guard let text = values.first else { return .refused("there is no proof") }
        guard values.count == 1, !text.contains(",") else { return .refused("there are several proofs") }
        guard let jws = try? JWS(Secret(text)) else { return .refused("the proof is not a JWT") }
        let (header, claims) = (jws.header.json, jws.payload)
        guard header["typ"]?.string == "dpop+jwt" else { return .refused("typ is not dpop+jwt") }
        guard header["alg"]?.string == "ES256", let jwk = header["jwk"], jwk["d"] == nil,
            let x = jwk["x"]?.string, let y = jwk["y"]?.string, let xBytes = Base64URL.decode(x),
            let yBytes = Base64URL.decode(y),
            let key = try? P256.Signing.PublicKey(rawRepresentation: xBytes + yBytes),
            let signed = try? P256.Signing.ECDSASignature(rawRepresentation: jws.signature),
            key.isValidSignature(signed, for: jws.signedBytes)
        else { return .refused("the algorithm, the key or the signature is invalid") }
        guard claims["htm"]?.string == request.method.rawValue else { return .refused("htm is wrong") }
        guard claims["htu"]?.string == String(address.prefix { $0 != "?" }) else { return .refused("htu is wrong") }
        // A server's clock may be coarser than the client's, so a proof from the current second may appear to be from the future. Other
        // servers reject such a proof occasionally; this emulator always rejects it.
        guard let issued = claims["iat"]?.number, 1...300 ~= now.timeIntervalSince1970 - issued else {
            return .refused("iat is missing, in the future or too old")
        }
        guard let jti = claims["jti"]?.string, !jti.isEmpty, isNew(jti) else {
            return .refused("jti is missing or has already been used")
        }
        let hash = accessToken.map { Base64URL.encode(SHA256.hash(data: Array($0.utf8))) }
        guard claims["ath"]?.string == hash else { return .refused("ath is missing, wrong or unexpected") }
        guard nonce == nil || claims["nonce"]?.string == nonce else {
            return .refused(error: missingNonce, description: "Authorization server requires nonce in DPoP proof.")
        }
        let members = #"{"crv":"P-256","kty":"EC","x":"\#(x)","y":"\#(y)"}"#
        return .valid(thumbprint: Base64URL.encode(SHA256.hash(data: Array(members.utf8))))
    }
}
