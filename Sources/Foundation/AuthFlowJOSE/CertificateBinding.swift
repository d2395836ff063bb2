import AuthFlowEssentials
package import AuthFlowHTTP
import AuthFlowJSON
import Crypto

/// A client's certificate: the certificate that its transport presents, for checking certificate-bound access tokens (RFC 8705 section 3), or the
/// certificate of its key, for identifying the key in assertions.
public struct CertificateBinding: Sendable {
    private let read: @Sendable () throws(AuthError) -> [UInt8]

    /// Creates a binding to a fixed certificate.
    /// - Parameter certificate: The certificate in DER.
    public init(certificate: [UInt8]) {
        self.read = { () throws(AuthError) in certificate }
    }

    /// The first certificate in a PEM file. The file is read for every comparison,
    /// just as the transport reads it for every connection.
    /// - Parameter path: The path of the file.
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
                    "The file \(DisplayText.sanitized(path)) does not contain a valid certificate."
                )
            }
            return certificate
        }
    }

    private init(_ read: @escaping @Sendable () throws(AuthError) -> [UInt8]) {
        self.read = read
    }

    /// `x5t#S256`: the SHA-256 thumbprint of the certificate, in base64url.
    /// - Throws: ``AuthError`` with `invalid_configuration` when the file cannot be read.
    package func thumbprint() throws(AuthError) -> String { Base64URL.encode(SHA256.hash(data: try read())) }

    /// Checks that an access token is not bound to a different certificate, if the token can be decoded.
    /// - Parameter isRequired: Whether to reject a token that can be decoded but is not bound to a certificate.
    /// - Throws: ``AuthError`` with `invalid_response`, or `invalid_configuration` when the certificate file cannot be read.
    package func check(_ accessToken: Secret, isRequired: Bool) throws(AuthError) {
        // Section 3.1: "represented using the x5t#S256 confirmation method member". An access token that is not a JWT is
        // opaque to the client.
        guard let token = try? JWS(accessToken) else { return }
        guard let bound = token.payload["cnf"]?["x5t#S256"], bound != .null else {
            guard !isRequired else {
                throw AuthError(
                    .invalidResponse,
                    "The access token is not bound to the client's certificate (RFC 8705 section 3.1), although the client requires certificate-bound tokens."
                )
            }
            return
        }
        guard bound.string == (try thumbprint()) else {
            throw AuthError(
                .invalidResponse,
                "The access token is bound to a certificate other than the client's (RFC 8705 section 3.1), so no resource server would accept it."
            )
        }
    }
}
