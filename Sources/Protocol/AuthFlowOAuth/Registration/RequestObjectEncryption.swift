import AuthFlowHTTP
public import AuthFlowJOSE
import AuthFlowJSON

/// How request objects are encrypted to the server, after they are signed (RFC 9101 section 4, OIDC Core section 6.1): what a request
/// says can then be read by the server alone, and not by the browser that carries it.
public struct RequestObjectEncryption: Sendable, Hashable {
    /// The algorithm that the client is registered for (`request_object_encryption_alg`); nil for the best one that the server's
    /// metadata and keys allow.
    public var algorithm: KeyManagementAlgorithm?

    /// How the content is encrypted (`request_object_encryption_enc`); nil for the best one that the server announces, and
    /// `A128CBC-HS256` where it announces none, which is what OpenID Connect Dynamic Client Registration section 2 begins with.
    public var content: ContentEncryption?

    /// Creates settings.
    /// - Parameters:
    ///   - algorithm: The algorithm that the client is registered for; default: what the server offers.
    ///   - content: How the content is encrypted; default: what the server offers.
    public init(algorithm: KeyManagementAlgorithm? = nil, content: ContentEncryption? = nil) {
        self.algorithm = algorithm
        self.content = content
    }

    /// Encrypts a signed request object.
    /// - Parameters:
    ///   - object: The object.
    ///   - keys: The server's.
    ///   - metadata: The server's.
    ///   - host: Makes the content encryption key.
    /// - Throws: ``AuthError`` with `unsupported` when the server has no key for it, or does not take it.
    func encrypted(
        _ object: String,
        with keys: [EncryptionKey],
        _ metadata: ProviderMetadata,
        _ host: HostServices
    ) throws -> String {
        let offered = metadata.json["request_object_encryption_alg_values_supported"]?.strings
        if let algorithm, offered?.contains(algorithm.rawValue) == false {
            throw AuthError(
                .unsupported,
                "The provider \(metadata.issuer) does not announce \(algorithm.rawValue) for requests (request_object_encryption_alg_values_supported)."
            )
        }
        let wanted = (algorithm.map { [$0] } ?? KeyManagementAlgorithm.all).filter {
            offered?.contains($0.rawValue) ?? true
        }
        // A key that says what it is for is meant before one that does not, which may be for signatures.
        for keys in [keys.filter(\.isMarked), keys.filter { !$0.isMarked }] {
            for candidate in wanted {
                // RSA-OAEP with SHA-1 has to be named.
                let isNamed = candidate != .rsaOAEP || algorithm != nil || offered != nil
                guard
                    let key = keys.first(where: {
                        $0.algorithms.contains(candidate) && (isNamed || $0.algorithms.count == 1)
                    })
                else { continue }
                return try key.encrypted(
                    object,
                    candidate,
                    try contentEncryption(metadata),
                    randomBytes: host.randomBytes
                )
            }
        }
        throw AuthError(
            .unsupported,
            "The provider \(metadata.issuer) has no key for encrypting requests\(algorithm.map { " with \($0.rawValue)" } ?? "")."
        )
    }

    private func contentEncryption(_ metadata: ProviderMetadata) throws(AuthError) -> ContentEncryption {
        let offered = metadata.json["request_object_encryption_enc_values_supported"]?.strings
        guard let content else {
            guard let offered else { return .a128CBCHS256 }
            if let best = ContentEncryption.allCases.first(where: { offered.contains($0.rawValue) }) { return best }
            throw AuthError(
                .unsupported,
                "The provider \(metadata.issuer) takes no content encryption that is implemented."
            )
        }
        guard offered?.contains(content.rawValue) != false else {
            throw AuthError(
                .unsupported,
                "The provider \(metadata.issuer) does not accept requests encrypted with \(content.rawValue)."
            )
        }
        return content
    }
}
