public import AuthFlow
import AuthFlowEssentials
import Crypto

// Mutual TLS (RFC 8705). The emulator is behind a proxy that terminates TLS and forwards the certificate (RFC 9440).

extension OIDCEmulator {
    /// The path prefix of the endpoints that request a client certificate.
    static let certificatePrefix = "/mtls"

    /// `x5t#S256` of a request's client certificate; nil if the request has none.
    static func thumbprint(of request: HTTPRequest) -> String? {
        // RFC 9440 section 2.2: the DER certificate as a Structured Fields Byte Sequence (base64 between colons).
        guard let field = request.headerFields[.clientCertificate], field.hasPrefix(":"), field.hasSuffix(":"),
            field.utf8.count > 2, let certificate = Data(base64Encoded: String(field.dropFirst().dropLast()))
        else { return nil }
        return Base64URL.encode(SHA256.hash(data: Array(certificate)))
    }

    /// The endpoints that request a client certificate (RFC 8705 section 5).
    var mtlsEndpointAliases: JSON {
        let names = [
            "token_endpoint": "token", "userinfo_endpoint": "userinfo", "revocation_endpoint": "revoke",
            "introspection_endpoint": "introspect", "pushed_authorization_request_endpoint": "par",
        ]
        return .object(names.mapValues { .string("\(base)\(Self.certificatePrefix)/\($0)") })
    }
}

/// A transport that presents a client certificate: it adds the certificate to requests to the emulator's mutual-TLS
/// endpoints, in the header field in which a TLS-terminating proxy would forward it.
public struct CertificateTransport: HTTPTransport {
    private let base: any HTTPTransport
    private let certificate: [UInt8]

    /// Creates a transport.
    /// - Parameters:
    ///   - base: Sends the requests.
    ///   - certificate: The certificate in DER. The emulator accepts any bytes.
    public init(_ base: any HTTPTransport, certificate: [UInt8]) {
        self.base = base
        self.certificate = certificate
    }

    public func send(_ call: TransportRequest) async throws -> TransportResponse {
        var call = call
        if call.head.path?.contains("\(OIDCEmulator.certificatePrefix)/") == true {
            call.head.headerFields[.clientCertificate] = ":\(Data(certificate).base64EncodedString()):"
        }
        return try await base.send(call)
    }
}

extension HTTPField.Name {
    fileprivate static let clientCertificate = HTTPField.Name(known: "Client-Cert")
}
