package import AuthFlowEssentials
package import AuthFlowHTTP
public import AuthFlowJSON
import Crypto

/// A private key that signs client assertions, request objects and DPoP proofs for this client.
///
/// ``PrivateKey`` stores a key in memory. A key that cannot be exported from its hardware requires a separate type that conforms to this
/// protocol.
public protocol SigningKey: Sendable {
    /// The public key (RFC 7517), with its `kid`, as it is registered with the authorization server.
    var publicJWK: JSON { get }

    /// The algorithms that the key can sign with, in order of preference; at least one.
    var algorithms: [SignatureAlgorithm] { get }

    /// Signs bytes. It is called once for each JWT.
    /// - Parameters:
    ///   - bytes: The bytes to sign.
    ///   - algorithm: One of ``algorithms``.
    /// - Returns: The signature in the format of RFC 7518 section 3: for ECDSA, R and S concatenated.
    /// - Throws: An error, which aborts the operation that needs the signature.
    func signature(over bytes: [UInt8], by algorithm: SignatureAlgorithm) async throws -> [UInt8]
}

extension SigningKey {
    /// The `kid` of the public key.
    package var keyID: String? { publicJWK["kid"]?.string }

    /// Creates a signed JWT (RFC 7515 section 7.1).
    /// - Throws: Any ``AuthError`` of the key or the certificate; `CancellationError`; ``AuthError`` with `unsupported` for any other error of the
    ///   key.
    package func jwt(
        _ claims: JSON,
        type: String,
        algorithm: SignatureAlgorithm,
        certificate: CertificateBinding? = nil
    ) async throws -> String {
        var header: [String: JSON] = ["typ": .string(type), "alg": .string(algorithm.rawValue)]
        header["kid"] = keyID.map(JSON.string)
        // RFC 7515 section 4.1.8.
        header["x5t#S256"] = try certificate.map { .string(try $0.thumbprint()) }
        let text =
            "\(Base64URL.encode(try JSON.object(header).serialized())).\(Base64URL.encode(try claims.serialized()))"
        return "\(text).\(try await encodedSignature(over: text, by: algorithm))"
    }

    /// The signature over the header and the payload of a JWT, in base64url.
    /// - Throws: Any ``AuthError`` of the key; `CancellationError`; ``AuthError`` with `unsupported` for any other error of the key.
    func encodedSignature(over text: String, by algorithm: SignatureAlgorithm) async throws -> String {
        do {
            return Base64URL.encode(try await signature(over: Array(text.utf8), by: algorithm))
        } catch {
            // A key in a hardware token throws CancellationError if the task is cancelled.
            if error is AuthError || error is CancellationError { throw error }
            throw AuthError(.unsupported, "The client's key could not sign.", underlyingError: error)
        }
    }

    /// The signature algorithm: the first of this key's algorithms, in order of preference, that the server advertises.
    /// - Parameters:
    ///   - wanted: The client's registered algorithm; nil for any.
    ///   - allowed: The algorithms that the client's security profile allows; nil for any.
    ///   - advertised: The algorithms that the server advertises; nil when it advertises none.
    /// - Throws: ``AuthError`` with `invalid_configuration` or `unsupported` when there is no such algorithm.
    package func algorithm(
        _ wanted: SignatureAlgorithm?,
        allowed: [SignatureAlgorithm]?,
        advertised: [String]?
    ) throws(AuthError) -> SignatureAlgorithm {
        let supported = (wanted.map { [$0] } ?? algorithms).filter {
            algorithms.contains($0) && allowed?.contains($0) != false
        }
        guard let first = supported.first else {
            if let wanted, let allowed, algorithms.contains(wanted) {
                throw AuthError(
                    .invalidConfiguration,
                    "The client's security profile does not allow signatures with \(wanted.rawValue), only with \(allowed.map(\.rawValue).joined(separator: ", "))."
                )
            }
            let names = (wanted.map { [$0] } ?? allowed ?? []).map(\.rawValue).joined(separator: ", ")
            throw AuthError(
                .invalidConfiguration,
                names.isEmpty
                    ? "The client's key supports no signature algorithm."
                    : "The client's key cannot sign with \(names); it supports \(algorithms.map(\.rawValue).joined(separator: ", "))."
            )
        }
        guard let advertised else { return first }
        if let common = supported.first(where: { advertised.contains($0.rawValue) }) { return common }
        throw AuthError(
            .unsupported,
            "The provider accepts signatures with \(DisplayText.sanitized(advertised.joined(separator: ", "))), but the client's key and settings allow none of these."
        )
    }
}

/// The times in JWTs that this client signs.
package enum SignedTimes {
    /// The number of seconds by which `iat` is backdated, because a server's clock may be slightly behind, and some servers reject a JWT issued even one
    /// second in the future. FAPI 2.0 Security Profile section 5.3.2.1 requires them to tolerate ten seconds; not all do.
    static let backdating: Int64 = 5

    /// The number of seconds by which `nbf` is backdated. `nbf` does not state when a JWT was issued, and idpyoidc, a
    /// Python server library, rejects a client assertion whose `nbf` is less than 15 seconds in the past.
    static let earlier: Int64 = 30

    /// The `iat` claim of a JWT that is signed at the given time.
    package static func issued(at time: Date) -> JSON { .integer(Int64(time.timeIntervalSince1970) - backdating) }

    /// The `iat`, `nbf` and `exp` claims.
    package static func claims(at time: Date, lifetime: Int64) -> [String: JSON] {
        let now = Int64(time.timeIntervalSince1970)
        return ["iat": issued(at: time), "nbf": .integer(now - earlier), "exp": .integer(now + lifetime)]
    }
}

extension JSON {
    /// The thumbprint of a public key in JWK form (RFC 7638), in base64url; nil when a member is missing.
    package var jwkThumbprint: String? {
        // Section 3.2 and RFC 8037 section 2: the required members of each type, in lexicographic order, without whitespace.
        let names: [String]
        switch self["kty"]?.string {
        case "RSA": names = ["e", "kty", "n"]
        case "EC": names = ["crv", "kty", "x", "y"]
        case "OKP": names = ["crv", "kty", "x"]
        default: return nil
        }
        let values = names.compactMap { self[$0]?.string }
        guard values.count == names.count else { return nil }
        let text = zip(names, values).map { "\"\($0)\":\"\($1)\"" }.joined(separator: ",")
        return Base64URL.encode(SHA256.hash(data: Array("{\(text)}".utf8)))
    }
}
