package import AuthFlowHTTP
public import AuthFlowJSON
import Synchronization

/// A signed JSON document in the JWS Compact Serialization (RFC 7515 section 7.1), parsed but **not verified**.
package struct JWS: Sendable {
    package let header: JWSHeader
    package let payload: JSON
    package let signature: [UInt8]
    package let signedBytes: [UInt8]

    /// The maximum size of a token, in bytes. Typical tokens are a few thousand bytes long.
    static let maximumSize = 64 * 1024

    /// Parses a compact JWS.
    /// - Throws: ``AuthError`` with `invalid_id_token`, or `unsupported` for an encrypted token; the message never quotes the token.
    package init(_ compact: Secret) throws(AuthError) {
        func malformed(_ what: String, _ cause: (any Error)? = nil) -> AuthError {
            AuthError(.invalidIDToken, "The signed token is malformed: \(what).", underlyingError: cause)
        }
        let bytes = Array(compact.exposed.utf8)
        guard bytes.count <= Self.maximumSize else { throw malformed("it is larger than \(Self.maximumSize) bytes") }
        let dots = bytes.indices.filter { bytes[$0] == UInt8(ascii: ".") }
        guard dots.count != 4 else {
            throw AuthError(.unsupported, "The token is encrypted (JWE), but no decryption key is available.")
        }
        guard dots.count == 2 else {
            throw malformed("it does not have three parts (RFC 7515 section 7.1), so it is not a signed JWT")
        }
        guard let payload = Base64URL.decode(utf8: bytes[(dots[0] + 1)..<dots[1]]),
            let signature = Base64URL.decode(utf8: bytes[(dots[1] + 1)...])
        else { throw malformed("a part is not base64url (RFC 7515 section 2)") }
        let header: JWSHeader?
        do throws(JSONError) {
            header = try JWSHeader(encoded: bytes[..<dots[0]])
            self.payload = try JSON(parsing: payload)
        } catch {
            throw malformed("a part is not acceptable JSON: \(error)", error)
        }
        guard let header else { throw malformed("a part is not base64url (RFC 7515 section 2)") }
        self.header = header
        guard self.payload.object != nil else { throw malformed("the payload is not an object (RFC 7519 section 7.2)") }
        self.signature = signature
        self.signedBytes = Array(bytes[..<dots[1]])
    }
}

/// The header of a signed token.
public struct JWSHeader: Sendable, Hashable {
    /// `alg`: the claimed signature algorithm. It is checked against the allowed algorithms before anything is trusted.
    package let algorithm: SignatureAlgorithm

    /// `kid`: the ID of the claimed signing key.
    package let keyID: String?

    /// All members.
    public let json: JSON

    /// The last parsed header and its encoded text, cached because all tokens signed with one key have the same header.
    private static let last = Mutex<(text: [UInt8], header: JWSHeader)?>(nil)

    /// Decodes a header as it is encoded in a token.
    /// - Returns: nil when the text is not base64url.
    init?(encoded text: ArraySlice<UInt8>) throws(JSONError) {
        if let last = Self.last.withLock({ $0 }), last.text.elementsEqual(text) {
            self = last.header
            return
        }
        guard let bytes = Base64URL.decode(utf8: text) else { return nil }
        let header = JWSHeader(try JSON(parsing: bytes))
        Self.last.withLock { $0 = (Array(text), header) }
        self = header
    }

    package init(_ json: JSON) {
        self.algorithm = SignatureAlgorithm(rawValue: json["alg"]?.string ?? "")
        self.keyID = json["kid"]?.string
        self.json = json
    }
}

extension JSON {
    /// The value of a header parameter of a token; nil if it is absent, or null, which some issuers send instead of omitting it.
    package func headerParameter(_ name: String) -> JSON? { self[name] == .null ? nil : self[name] }
}
