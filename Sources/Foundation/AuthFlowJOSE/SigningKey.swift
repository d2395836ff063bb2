package import AuthFlowEssentials
package import AuthFlowHTTP
public import AuthFlowJSON
import Crypto

/// A private key that signs for this client: client assertions and request objects.
///
/// ``PrivateKey`` keeps one in memory. A key that cannot be copied out of its hardware is a type of its own that adopts this
/// protocol.
public protocol SigningKey: Sendable {
    /// The public key (RFC 7517), with its `kid`, as it is registered with the authorization server.
    var publicJWK: JSON { get }

    /// The algorithms that it can sign with, best first; at least one.
    var algorithms: [SignatureAlgorithm] { get }

    /// Signs.
    ///
    /// It is called once for each JWT that is made.
    /// - Parameters:
    ///   - bytes: The bytes to sign.
    ///   - algorithm: One of ``algorithms``.
    /// - Returns: The signature in the form of RFC 7518 section 3: for ECDSA, R and S side by side.
    /// - Throws: An error that ends what the signature was for.
    func signature(over bytes: [UInt8], by algorithm: SignatureAlgorithm) async throws -> [UInt8]
}

extension SigningKey {
    /// The `kid` of the public key.
    public var keyID: String? { publicJWK["kid"]?.string }

    /// Makes a signed JWT (RFC 7515 section 7.1).
    /// - Throws: ``AuthError`` with `unsupported` when it cannot be signed.
    package func jwt(_ claims: JSON, type: String, algorithm: SignatureAlgorithm) async throws -> String {
        var header: [String: JSON] = ["typ": .string(type), "alg": .string(algorithm.rawValue)]
        header["kid"] = keyID.map(JSON.string)
        let text =
            "\(Base64URL.encode(try JSON.object(header).serialized())).\(Base64URL.encode(try claims.serialized()))"
        let signature: [UInt8]
        do {
            signature = try await self.signature(over: Array(text.utf8), by: algorithm)
        } catch let error as AuthError {
            throw error
        } catch {
            throw AuthError(.unsupported, "The client's key could not sign.", underlyingError: error)
        }
        return "\(text).\(Base64URL.encode(signature))"
    }

    /// The algorithm to sign with: the best of this key that a server announces.
    /// - Parameters:
    ///   - wanted: The one that the client is registered for; nil for any.
    ///   - allowed: Those of the client's security profile; nil for any.
    ///   - announced: Those that the server announces; nil when it announces none.
    /// - Throws: ``AuthError`` with `invalid_configuration` or `unsupported` when there is none.
    package func algorithm(
        _ wanted: SignatureAlgorithm?,
        allowed: [SignatureAlgorithm]?,
        announced: [String]?
    ) throws(AuthError) -> SignatureAlgorithm {
        let able = (wanted.map { [$0] } ?? algorithms).filter {
            algorithms.contains($0) && allowed?.contains($0) != false
        }
        guard let first = able.first else {
            let names = (wanted.map { [$0] } ?? allowed ?? []).map(\.rawValue).joined(separator: ", ")
            throw AuthError(
                .invalidConfiguration,
                names.isEmpty
                    ? "The client's key has no algorithm to sign with."
                    : "The client's key cannot sign with \(names): it can with \(algorithms.map(\.rawValue).joined(separator: ", "))."
            )
        }
        guard let announced else { return first }
        if let common = able.first(where: { announced.contains($0.rawValue) }) { return common }
        throw AuthError(
            .unsupported,
            "The provider accepts signatures by \(DisplayText.sanitized(announced.joined(separator: ", "))), but the client's key supports none that is allowed."
        )
    }
}

/// The times in JWTs that this client signs.
package enum SignedTimes {
    /// How long before now they begin, in seconds: a server's clock may be a moment behind, and servers refuse what begins in the
    /// future to the second. FAPI 2.0 Security Profile section 5.3.2.1 has them tolerate ten seconds; not all do.
    static let backdating: Int64 = 5

    /// How long before now they may be used, in seconds. `nbf` says nothing about when they were made, and cryptojwt, by which many
    /// servers in Python read assertions, refuses what is good for less than 15 seconds.
    static let earlier: Int64 = 30

    /// The claim `iat` of what is signed at a time.
    package static func issued(at time: Date) -> JSON { .integer(Int64(time.timeIntervalSince1970) - backdating) }

    /// The claims `iat`, `nbf` and `exp`.
    package static func claims(at time: Date, lifetime: Int64) -> [String: JSON] {
        let now = Int64(time.timeIntervalSince1970)
        return ["iat": issued(at: time), "nbf": .integer(now - earlier), "exp": .integer(now + lifetime)]
    }
}

extension JSON {
    /// The thumbprint of a public key in JWK form (RFC 7638), base64url; nil when a member is missing.
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
