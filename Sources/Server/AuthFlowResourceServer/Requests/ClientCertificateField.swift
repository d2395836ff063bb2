import AuthFlowEssentials
import AuthFlowHTTP
public import HTTPTypes

/// The header field in which a TLS-terminating proxy forwards the client certificate.
public struct ClientCertificateField: Sendable, Hashable {
    /// The encoding of the certificate.
    public enum Encoding: Sendable, Hashable {
        /// A structured-field byte sequence, `:base64:` (RFC 9440: `Client-Cert`).
        case structured
        /// PEM, percent-encoded: nginx's `$ssl_client_escaped_cert`.
        case escapedPEM
    }

    /// The name of the field.
    public let name: HTTPField.Name

    /// The encoding of the certificate.
    public let encoding: Encoding

    /// Creates a field.
    public init(_ name: HTTPField.Name, encoding: Encoding = .structured) {
        self.name = name
        self.encoding = encoding
    }

    /// `Client-Cert` (RFC 9440 section 2.2).
    public static let clientCert = HTTPField.Name("Client-Cert").map { ClientCertificateField($0) }

    /// - Returns: The certificate in DER; nil if the client did not present a certificate.
    func certificate(in fields: HTTPFields) throws(TokenFailure) -> [UInt8]? {
        let values = fields[values: name]
        guard let value = values.first else { return nil }
        // A second field, even if it is empty, was sent by the client: the proxy failed to remove it.
        guard values.count == 1 else { throw .malformed("The request has more than one client certificate field.") }
        guard !value.isEmpty else { return nil }
        let certificate =
            switch encoding {
            case .structured: Self.byteSequence(value)
            case .escapedPEM: Self.pem(value)
            }
        guard let certificate else { throw .malformed("The client certificate in the request cannot be decoded.") }
        return certificate
    }

    private static func byteSequence(_ value: String) -> [UInt8]? {
        guard value.utf8.count > 2, value.hasPrefix(":"), value.hasSuffix(":") else { return nil }
        return Data(base64Encoded: String(value.dropFirst().dropLast())).map(Array.init)
    }

    private static func pem(_ value: String) -> [UInt8]? {
        guard let text = FormURLEncoding.percentDecoded(value) else { return nil }
        let blocks = PEMBlock.blocks(in: text)
        guard blocks.count == 1, blocks[0].label == "CERTIFICATE" else { return nil }
        return blocks[0].content
    }
}
