import AuthFlowEssentials
import AuthFlowHTTP
import AuthFlowJOSE
import AuthFlowJSON
import Crypto

/// The checks that an API applies to a DPoP proof, which follow the numbered list in RFC 9449 section 4.3.
struct ProofVerification {
    /// A proof that has passed every check except the replay check.
    struct Proof {
        let identifier: ProofIdentifier
        /// The nonce for the client's next proof, if the current nonce expires soon.
        let nextNonce: String?
    }

    /// The maximum size of a proof, in bytes.
    static let maximumSize = 8 * 1024

    let algorithms: [SignatureAlgorithm]
    /// The maximum difference between a proof's `iat` and the server's clock, in seconds.
    let window: Double
    let nonces: ProofNonces?

    func check(
        _ values: [String],
        method: String,
        address: Endpoint,
        token: Secret,
        thumbprint: String,
        now: Date
    ) throws(TokenFailure) -> Proof {
        // "1. There is not more than one DPoP HTTP request header field."
        guard let text = values.first else { throw .invalidProof("the request has no DPoP header field") }
        guard values.count == 1 else { throw .invalidProof("the request has more than one DPoP header field") }
        // "2. The DPoP HTTP request header field value is a single and well-formed JWT."
        guard text.utf8.count <= Self.maximumSize, let jws = try? JWS(Secret(text)) else {
            throw .invalidProof("it is too large or not a well-formed JWT")
        }
        let (header, claims) = (jws.header.json, jws.payload)
        // "3. All required claims per Section 4.2 are contained in the JWT."
        guard let identifier = claims["jti"]?.string, !identifier.isEmpty, identifier.utf8.count <= 512,
            let proofMethod = claims["htm"]?.string, let proofURL = claims["htu"]?.string,
            let issued = claims["iat"]?.number
        else { throw .invalidProof("a required claim is missing or invalid (jti, htm, htu, iat)") }
        // "4. The typ JOSE Header Parameter has the value dpop+jwt."
        guard header["typ"]?.string == "dpop+jwt" else { throw .invalidProof("its type is not dpop+jwt (typ)") }
        guard header.headerParameter("crit") == nil else {
            throw .invalidProof("its \"crit\" header parameter is not supported")
        }
        // "5. The alg JOSE Header Parameter indicates a registered asymmetric digital signature algorithm, is not none, is supported by
        // the application, and is acceptable per local policy."
        guard algorithms.contains(jws.header.algorithm), SignatureAlgorithm.asymmetric.contains(jws.header.algorithm)
        else {
            throw .invalidProof("its algorithm is not accepted (alg)")
        }
        // "7. The jwk JOSE Header Parameter does not contain a private key."
        guard let jwk = header["jwk"], let members = jwk.object,
            !JWK.privateMembers.contains(where: members.keys.contains),
            let key = JWK(jwk)
        else { throw .invalidProof("its key is not a usable public key (jwk)") }
        // "12. b. ... confirm that the public key to which the access token is bound matches the public key from the DPoP proof."
        // Checked before the signature, because this check is cheap.
        guard let ownThumbprint = jwk.jwkThumbprint, ownThumbprint.isIdentical(to: thumbprint) else {
            throw .invalidProof("its key is not the key to which the token is bound")
        }
        // "6. The JWT signature verifies with the public key contained in the jwk JOSE Header Parameter."
        guard key.isValid(jws.signature, for: jws.signedBytes, algorithm: jws.header.algorithm) else {
            throw .invalidProof("its signature is invalid")
        }
        // "8. The htm claim matches the HTTP method of the current request."
        guard proofMethod.isIdentical(to: method) else { throw .invalidProof("it is for another method (htm)") }
        // "9. The htu claim matches the HTTP URI value for the HTTP request in which the JWT was received, ignoring any query and fragment
        // parts."
        guard let url = NormalizedURL(proofURL), url == NormalizedURL(address.url) else {
            throw .invalidProof("it is for another URL (htu)")
        }
        // "12. If presented to a protected resource in conjunction with an access token: a. ensure that the value of the ath claim equals
        // the hash of that access token".
        let hash = Base64URL.encode(SHA256.hash(data: Array(token.exposed.utf8)))
        guard claims["ath"]?.string?.isIdentical(to: hash) == true else {
            throw .invalidProof("it lacks the hash of this access token (ath)")
        }
        // "11. The creation time of the JWT, as determined by either the iat claim or a server managed timestamp via the nonce claim, is
        // within an acceptable window".
        guard abs(issued - now.timeIntervalSince1970) <= window else {
            throw .invalidProof("its time is outside the accepted window (iat)")
        }
        // A proof need not contain these claims. RFC 7519 section 4.1.4: "the current date/time MUST be before the expiration date/time listed in
        // the "exp" claim"; section 4.1.5: it "MUST be after or equal to the not-before date/time listed in the "nbf" claim".
        for (claim, isAcceptable) in [
            ("exp", { now.timeIntervalSince1970 < $0 + window }), ("nbf", { $0 - window <= now.timeIntervalSince1970 }),
        ] as [(String, (Double) -> Bool)] {
            // As in an access token, a null claim is absent.
            guard let value = claims[claim], value != .null else { continue }
            guard value.number.map(isAcceptable) ?? false else {
                throw .invalidProof("it has expired or is not valid yet (\(claim))")
            }
        }
        // "10. If the server provided a nonce value to the client, the nonce claim matches the server-provided nonce value."
        let nextNonce = try nonces?.check(claims["nonce"]?.string, at: now) ?? nil
        return Proof(
            identifier: ProofIdentifier(thumbprint: thumbprint, identifier: identifier),
            nextNonce: nextNonce
        )
    }
}

/// A URL for comparison (RFC 9449 section 4.3: "employ Syntax-Based Normalization ... and Scheme-Based Normalization", RFC 3986 sections 6.2.2
/// and 6.2.3), without query and fragment.
struct NormalizedURL: Hashable {
    private let origin: String
    private let path: [UInt8]

    init?(_ text: String) {
        let end = text.utf8.firstIndex { $0 == UInt8(ascii: "?") || $0 == UInt8(ascii: "#") } ?? text.endIndex
        guard let endpoint = try? Endpoint(String(text[..<end])) else { return nil }
        self.origin = endpoint.origin
        self.path = Self.withoutDotSegments(Self.decodingUnreserved(endpoint.path.isEmpty ? "/" : endpoint.path))
    }

    /// Decodes percent-encoded unreserved characters (section 6.2.2.2), and converts other percent-encodings to
    /// uppercase (section 6.2.2.1).
    private static func decodingUnreserved(_ path: String) -> [UInt8] {
        let bytes = Array(path.utf8)
        var result: [UInt8] = []
        var index = 0
        while index < bytes.count {
            if bytes[index] == UInt8(ascii: "%"), index + 2 < bytes.count,
                let high = FormURLEncoding.hexValue(bytes[index + 1]),
                let low = FormURLEncoding.hexValue(bytes[index + 2])
            {
                let value = high << 4 | low
                // Section 2.3: unreserved = ALPHA / DIGIT / "-" / "." / "_" / "~".
                if value.isLetterOrDigit || "-._~".utf8.contains(value) {
                    result.append(value)
                } else {
                    result += Array(String(decoding: bytes[index...(index + 2)], as: UTF8.self).uppercased().utf8)
                }
                index += 3
            } else {
                result.append(bytes[index])
                index += 1
            }
        }
        return result
    }

    /// Removes dot segments (RFC 3986 section 5.2.4).
    private static func withoutDotSegments(_ path: [UInt8]) -> [UInt8] {
        let dot = UInt8(ascii: ".")
        let segments = path.dropFirst().split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false)
        var kept: [ArraySlice<UInt8>] = []
        for (index, segment) in segments.enumerated() {
            let isLast = index == segments.count - 1
            if segment.elementsEqual([dot]) {
                if isLast { kept.append([]) }
            } else if segment.elementsEqual([dot, dot]) {
                _ = kept.popLast()
                if isLast { kept.append([]) }
            } else {
                kept.append(segment)
            }
        }
        return kept.flatMap { [UInt8(ascii: "/")] + $0 }
    }
}
