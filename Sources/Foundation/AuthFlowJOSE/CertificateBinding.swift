import AuthFlowEssentials
public import AuthFlowHTTP
import AuthFlowJSON
import Crypto

/// The certificate that a client's transport shows, for comparing what access tokens are bound to (RFC 8705 section 3).
public struct CertificateBinding: Sendable {
    private let read: @Sendable () throws(AuthError) -> [UInt8]

    /// A certificate that stays the same.
    /// - Parameter certificate: The certificate in DER.
    public init(certificate: [UInt8]) {
        self.read = { () throws(AuthError) in certificate }
    }

    /// The first certificate in a PEM file. It is read for every comparison, as the transport reads it for every connection.
    /// - Parameter path: The file.
    public static func file(path: String) -> CertificateBinding {
        CertificateBinding { () throws(AuthError) in
            guard let bytes = BoundedFile.contents(ofPlainFile: path, maximumSize: 1024 * 1024),
                let block = PEMBlock.blocks(in: String(decoding: bytes, as: UTF8.self)).first(where: {
                    $0.label == "CERTIFICATE"
                }),
                let certificate = block.content
            else {
                throw AuthError(
                    .invalidConfiguration,
                    "The file \(DisplayText.sanitized(path)) has no certificate that can be read."
                )
            }
            return certificate
        }
    }

    private init(_ read: @escaping @Sendable () throws(AuthError) -> [UInt8]) {
        self.read = read
    }

    /// `x5t#S256`: the SHA-256 of the certificate, base64url.
    /// - Throws: ``AuthError`` with `invalid_configuration` when the file cannot be read.
    public func thumbprint() throws(AuthError) -> String { Base64URL.encode(SHA256.hash(data: try read())) }

    /// Checks that an access token is not bound to another certificate, where it can be read.
    /// - Parameter isRequired: Whether a token that can be read and is not bound is refused.
    /// - Throws: ``AuthError`` with `invalid_reply`.
    package func check(_ accessToken: Secret, isRequired: Bool) throws(AuthError) {
        // Section 3.1: "the hash of the certificate ... in the x5t#S256 member of cnf". An access token that is no JWT says nothing
        // to the client.
        guard let token = try? JWS(accessToken) else { return }
        guard let bound = token.payload["cnf"]?["x5t#S256"] else {
            guard !isRequired else {
                throw AuthError(
                    .invalidResponse,
                    "The access token is not bound to the client's certificate (RFC 8705 section 3.1), although the client demands it."
                )
            }
            return
        }
        guard bound.string == (try thumbprint()) else {
            throw AuthError(
                .invalidResponse,
                "The access token is bound to another certificate than the client's (RFC 8705 section 3.1), so no service would accept it."
            )
        }
    }
}
