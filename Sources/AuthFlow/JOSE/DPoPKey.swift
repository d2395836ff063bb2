import AuthFlowJSON
import Crypto

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

/// The key that tokens are bound to: a client that cannot sign with it cannot use them (RFC 9449).
///
/// One is generated for each sign-in, stored with its tokens, and deleted with them. It is a P-256 key and signs with
/// ES256.
struct DPoPKey: Sendable, Hashable {
    /// The private key, base64url.
    let stored: Secret

    private let publicPoint: [UInt8]

    /// Generates a key.
    /// - Throws: ``AuthError`` when the random source yields no valid key.
    init(host: HostServices) throws(AuthError) {
        // A number beyond the order of the curve is not a key. One in four thousand million is beyond it.
        for _ in 0..<4 {
            if let key = DPoPKey(stored: Secret(Base64URL.encode(host.randomBytes(32)))) {
                self = key
                return
            }
        }
        throw AuthError(.unsupported, "No DPoP key could be generated: the random source is broken.")
    }

    /// Reads a key from its ``stored`` form.
    init?(stored: Secret) {
        guard let key = Self.privateKey(stored) else { return nil }
        self.stored = stored
        self.publicPoint = Array(key.publicKey.rawRepresentation)
    }

    private static func privateKey(_ stored: Secret) -> P256.Signing.PrivateKey? {
        Base64URL.decode(stored.exposed).flatMap { try? P256.Signing.PrivateKey(rawRepresentation: $0) }
    }

    /// The public key (RFC 7518 section 6.2.1). RFC 9449 section 4.2: "It MUST NOT contain a private key."
    var publicJWK: JSON {
        [
            "kty": "EC", "crv": "P-256", "x": .string(Base64URL.encode(publicPoint.prefix(32))),
            "y": .string(Base64URL.encode(publicPoint.suffix(32))),
        ]
    }

    /// The thumbprint of the public key (RFC 7638), by which requests and tokens identify it.
    var thumbprint: String {
        let (x, y) = (Base64URL.encode(publicPoint.prefix(32)), Base64URL.encode(publicPoint.suffix(32)))
        // Section 3: the required members, in lexicographic order, without whitespace.
        let text = #"{"crv":"P-256","kty":"EC","x":"\#(x)","y":"\#(y)"}"#
        return Base64URL.encode(SHA256.hash(data: Array(text.utf8)))
    }

    /// Creates the DPoP proof for one request (RFC 9449 section 4.2).
    /// - Parameters:
    ///   - method: `htm`: the method of the request.
    ///   - endpoint: The target of the request.
    ///   - nonce: The nonce that the server requires; nil when it has sent none.
    ///   - accessToken: The access token that the request carries; nil at a token endpoint.
    ///   - time: The time, by the clock of the server that checks it where that is known.
    ///   - host: The randomness.
    func proof(
        method: String,
        endpoint: Endpoint,
        nonce: String?,
        accessToken: Secret?,
        time: Date,
        host: HostServices
    ) throws(AuthError) -> String {
        var claims: [String: JSON] = [
            "jti": .string(host.randomToken()),
            "htm": .string(method),
            // "htu: The HTTP target URI ... of the request to which the JWT is attached, without query and fragment parts."
            "htu": .string(String(endpoint.url.prefix { $0 != "?" })),
            "iat": SignedTimes.issued(at: time),
        ]
        claims["nonce"] = nonce.map(JSON.string)
        // "When the DPoP proof is used in conjunction with the presentation of an access token in protected resource access
        // ... ath: Hash of the access token."
        claims["ath"] = accessToken.map {
            .string(Base64URL.encode(SHA256.hash(data: Array($0.exposed.utf8))))
        }
        let header: JSON = ["typ": "dpop+jwt", "alg": "ES256", "jwk": publicJWK]
        guard let key = Self.privateKey(stored), let headerText = try? header.serialized(),
            let payload = try? JSON.object(claims).serialized()
        else { throw AuthError(.unsupported, "The DPoP proof could not be written.") }
        let text = "\(Base64URL.encode(headerText)).\(Base64URL.encode(payload))"
        guard let signature = try? key.signature(for: Array(text.utf8)) else {
            throw AuthError(.unsupported, "The DPoP proof could not be signed.")
        }
        return "\(text).\(Base64URL.encode(signature.rawRepresentation))"
    }
}

extension DPoPKey: CustomStringConvertible, CustomReflectable {
    /// The thumbprint of the public key.
    var description: String { thumbprint }
    /// A mirror without children.
    var customMirror: Mirror { Mirror(self, children: [:]) }
}
