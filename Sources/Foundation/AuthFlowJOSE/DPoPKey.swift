package import AuthFlowEssentials
package import AuthFlowHTTP
package import AuthFlowJSON
import Crypto

/// The DPoP key to which tokens are bound: a client that cannot sign with the key cannot use the tokens (RFC 9449).
///
/// A key is generated for each sign-in, and stored and deleted together with its tokens. It is a P-256 key and signs
/// with ES256. If the registration specifies a non-exportable key instead, only its public part is stored.
package struct DPoPKey: Sendable, Hashable {
    /// The private key, in base64url; for a non-exportable key, the public JWK (RFC 7517), which starts with a brace.
    package let stored: Secret

    /// Whether the key is the registration's non-exportable key.
    package var isExternal: Bool { Self.isPublic(stored) }

    private static func isPublic(_ stored: Secret) -> Bool { stored.exposed.utf8.first == UInt8(ascii: "{") }

    /// The public key (RFC 7518 section 6). RFC 9449 section 4.2: "It MUST NOT contain a private key."
    package let publicJWK: JSON

    /// The thumbprint of the public key (RFC 7638), which identifies it in requests and tokens.
    package let thumbprint: String

    /// Generates a key.
    /// - Throws: ``AuthError`` when the random number generator yields no valid key.
    package init(host: HostServices) throws(AuthError) {
        // A random number is not a valid key if it is not less than the order of the curve (about one in four
        // billion).
        for _ in 0..<4 {
            if let key = DPoPKey(stored: Secret(Base64URL.encode(host.randomBytes(32)))) {
                self = key
                return
            }
        }
        throw AuthError(.unsupported, "No DPoP key could be generated: the random number generator is broken.")
    }

    /// Creates a reference to a non-exportable key.
    /// - Throws: ``AuthError`` with `unsupported` when its public key cannot be used.
    package init(_ key: any SigningKey, signingBy algorithm: SignatureAlgorithm) throws(AuthError) {
        var members = (key.publicJWK.object ?? [:]).filter { Self.publicMembers.contains($0.key) }
        members["alg"] = .string(algorithm.rawValue)
        guard let text = try? JSON.object(members).serialized(),
            let own = DPoPKey(stored: Secret(String(decoding: text, as: UTF8.self)))
        else { throw AuthError(.unsupported, "The public part of the DPoP key cannot be used.") }
        self = own
    }

    /// Decodes a key from its ``stored`` form.
    package init?(stored: Secret) {
        if Self.isPublic(stored) {
            guard let json = try? JSON(parsing: Array(stored.exposed.utf8)),
                let members = json.object, Self.publicMembers.isSuperset(of: members.keys)
            else { return nil }
            self.publicJWK = json
        } else {
            guard let key = Self.privateKey(stored) else { return nil }
            self.publicJWK = .object(PublicKeyMaterial.curve(.p256, Array(key.publicKey.rawRepresentation)).members)
        }
        guard let thumbprint = publicJWK.jwkThumbprint else { return nil }
        self.thumbprint = thumbprint
        self.stored = stored
    }

    /// The members of public keys. Private keys have additional members.
    private static let publicMembers: Set<String> = ["kty", "crv", "x", "y", "n", "e", "alg"]

    private static func privateKey(_ stored: Secret) -> P256.Signing.PrivateKey? {
        Base64URL.decode(stored.exposed).flatMap { try? P256.Signing.PrivateKey(rawRepresentation: $0) }
    }

    /// Creates the DPoP proof for one request (RFC 9449 section 4.2).
    /// - Parameters:
    ///   - method: `htm`: the method of the request.
    ///   - nonce: The nonce that the server requires; nil when it has sent none.
    ///   - accessToken: The access token that the request contains; nil for a token request.
    ///   - time: The current time according to the server that verifies the proof, or the local time if the offset of
    ///     that server's clock is unknown.
    ///   - identifier: `jti`.
    ///   - externalKey: The non-exportable key, if ``isExternal`` is true; nil otherwise.
    package func proof(
        method: String,
        endpoint: Endpoint,
        nonce: String?,
        accessToken: Secret?,
        time: Date,
        identifier: String,
        signingWith externalKey: (any SigningKey)?
    ) async throws -> String {
        var claims: [String: JSON] = [
            "jti": .string(identifier),
            "htm": .string(method),
            // "htu: The HTTP target URI ... of the request to which the JWT is attached, without query and fragment parts."
            "htu": .string(endpoint.targetURI),
            "iat": SignedTimes.issued(at: time),
        ]
        claims["nonce"] = nonce.map(JSON.string)
        // "When the DPoP proof is used in conjunction with the presentation of an access token in protected resource access
        // ... ath: Hash of the access token."
        claims["ath"] = accessToken.map {
            .string(Base64URL.encode(SHA256.hash(data: Array($0.exposed.utf8))))
        }
        let key = Self.privateKey(stored)
        let algorithm = publicJWK["alg"]?.string.map(SignatureAlgorithm.init(rawValue:))
        let header: JSON = [
            "typ": "dpop+jwt", "alg": .string((algorithm ?? .es256).rawValue), "jwk": publicJWK,
        ]
        guard let headerText = try? header.serialized(), let payload = try? JSON.object(claims).serialized() else {
            throw AuthError(.unsupported, "The DPoP proof could not be encoded.")
        }
        let text = "\(Base64URL.encode(headerText)).\(Base64URL.encode(payload))"
        if let externalKey, let algorithm {
            return "\(text).\(try await externalKey.encodedSignature(over: text, by: algorithm))"
        }
        guard let signature = try? key?.signature(for: Array(text.utf8)) else {
            throw AuthError(.unsupported, "The DPoP proof could not be signed.")
        }
        return "\(text).\(Base64URL.encode(signature.rawRepresentation))"
    }
}

extension DPoPKey: CustomStringConvertible, NonReflectable {
    /// The thumbprint of the public key.
    package var description: String { thumbprint }
}
