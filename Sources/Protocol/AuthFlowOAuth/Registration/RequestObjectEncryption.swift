import AuthFlowIssuer
public import AuthFlowJOSE

/// The encryption of request objects for the server, after they are signed (RFC 9101 section 4, OIDC Core section 6.1).
/// Only the server can then read the request; the browser that transmits it cannot.
public struct RequestObjectEncryption: Sendable, Hashable {
    /// The algorithm that the client has registered (`request_object_encryption_alg`); nil for the best algorithm that the server's
    /// metadata and keys allow.
    public var algorithm: KeyManagementAlgorithm?

    /// The content encryption (`request_object_encryption_enc`); nil for the best algorithm that the server advertises, or
    /// `A128CBC-HS256` if it advertises none, which is the default of OpenID Connect Dynamic Client Registration section 2.
    public var content: ContentEncryption?

    /// Creates settings.
    /// - Parameters:
    ///   - algorithm: The algorithm that the client has registered; default: according to the server's metadata and keys.
    ///   - content: The content encryption; default: according to the server's metadata.
    public init(algorithm: KeyManagementAlgorithm? = nil, content: ContentEncryption? = nil) {
        self.algorithm = algorithm
        self.content = content
    }

    /// Encrypts a signed request object.
    /// - Parameter host: Generates the content encryption key.
    /// - Throws: ``AuthError`` with `unsupported` when the server has no key for the algorithm, or does not accept the algorithm.
    func encrypted(
        _ object: String,
        with keys: [EncryptionKey],
        _ metadata: ProviderMetadata,
        _ host: HostServices
    ) throws -> String {
        let offered = metadata.advertised("request_object_encryption_alg_values_supported")
        if let algorithm, offered?.contains(algorithm.rawValue) == false {
            throw metadata.unsupported(
                "does not advertise \(algorithm.rawValue) for request objects (request_object_encryption_alg_values_supported)."
            )
        }
        let wanted = (algorithm.map { [$0] } ?? KeyManagementAlgorithm.all).filter {
            offered?.contains($0.rawValue) ?? true
        }
        // Keys that are marked for encryption are preferred; an unmarked key may be for signatures.
        for keys in [keys.filter(\.isMarkedForEncryption), keys.filter { !$0.isMarkedForEncryption }] {
            for candidate in wanted {
                // RSA-OAEP with SHA-1 is used only if the configuration, the metadata or the key specifies it.
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
        throw metadata.unsupported(
            "has no key for encrypting request objects\(algorithm.map { " with \($0.rawValue)" } ?? "")."
        )
    }

    private func contentEncryption(_ metadata: ProviderMetadata) throws(AuthError) -> ContentEncryption {
        let offered = metadata.advertised("request_object_encryption_enc_values_supported")
        guard let content else {
            guard let offered else { return .a128CBCHS256 }
            if let best = ContentEncryption.allCases.first(where: { offered.contains($0.rawValue) }) { return best }
            throw metadata.unsupported("supports none of the implemented content encryption algorithms.")
        }
        guard offered?.contains(content.rawValue) != false else {
            throw metadata.unsupported("does not accept request objects encrypted with \(content.rawValue).")
        }
        return content
    }
}
