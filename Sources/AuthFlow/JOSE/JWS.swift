public import AuthFlowJSON

/// A signed JSON document in compact form (RFC 7515 section 7.1), taken apart but **not verified**.
struct JWS: Sendable {
    let header: JWSHeader
    let payload: JSON
    let signature: [UInt8]
    let signedBytes: [UInt8]

    /// The largest token read, in bytes. Real ones have a few thousand.
    static let maximumSize = 64 * 1024

    /// Takes a compact JWS apart.
    /// - Throws: ``AuthError`` with `invalid_id_token`; the message never quotes the token.
    init(_ compact: Secret) throws(AuthError) {
        func malformed(_ what: String, _ cause: (any Error)? = nil) -> AuthError {
            AuthError(.invalidIDToken, "The signed token is malformed: \(what).", underlyingError: cause)
        }
        let bytes = Array(compact.exposed.utf8)
        guard bytes.count <= Self.maximumSize else { throw malformed("it has more than \(Self.maximumSize) bytes") }
        let parts = bytes.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
        guard parts.count != 5 else {
            throw AuthError(.unsupported, "The token is encrypted (JWE), which is not supported.")
        }
        guard parts.count == 3 else { throw malformed("it does not have three parts (RFC 7515 section 7.1)") }
        guard let header = Base64URL.decode(utf8: parts[0]), let payload = Base64URL.decode(utf8: parts[1]),
            let signature = Base64URL.decode(utf8: parts[2])
        else { throw malformed("a part is not base64url (RFC 7515 section 2)") }
        do throws(JSONError) {
            self.header = JWSHeader(try JSON(parsing: header))
            self.payload = try JSON(parsing: payload)
        } catch {
            throw malformed("a part is not acceptable JSON: \(error)", error)
        }
        guard self.payload.object != nil else { throw malformed("the payload is not an object (RFC 7519 section 7.2)") }
        self.signature = signature
        self.signedBytes = Array(bytes[..<parts[2].startIndex.advanced(by: -1)])
    }
}

/// The header of a signed token.
public struct JWSHeader: Sendable, Hashable {
    /// `alg`: how it says it was signed. Compared with what is allowed before anything is believed.
    public let algorithm: SignatureAlgorithm

    /// `kid`: which key it says it was signed with.
    public let keyID: String?

    /// All members.
    public let json: JSON

    init(_ json: JSON) {
        self.algorithm = SignatureAlgorithm(rawValue: json["alg"]?.string ?? "")
        self.keyID = json["kid"]?.string
        self.json = json
    }
}
