import AuthFlowHTTP
import AuthFlowJOSE
import AuthFlowPKCS11

/// The location of a client's key.
package struct ClientKey: Sendable {
    /// A key in a profile: the path of its file, or an object.
    static let value = value(of: [file, keyID, algorithm, certificate, token, pin])

    /// A key that is not identified by a certificate.
    static let withoutCertificate = value(of: [file, keyID, algorithm, token, pin])

    private static func value(of keys: [any AnyConfigurationKey]) -> ConfigurationValue<ClientKey> {
        .either(
            ConfigurationValue<String>.path.map { path throws(AuthError) in ClientKey(path: path) },
            .object(keys) { object throws(ConfigurationError) in try ClientKey(object) }
        )
    }

    static let file = ConfigurationKey("file", ConfigurationValue<String>.path, "The file.")
    static let keyID = ConfigurationKey(
        "kid",
        .text,
        "The kid of the key; in a JWK Set, it selects the key. Default: the JWK's kid, otherwise its thumbprint."
    )
    private static let algorithm = ConfigurationKey(
        "algorithm",
        .choice(of: SignatureAlgorithm.asymmetric),
        "The signature algorithm; for a client key, the registered algorithm. Default: the best algorithm that the key supports and that the provider advertises."
    )
    private static let certificate = ConfigurationKey(
        "certificate",
        ConfigurationValue<String>.path,
        "The key's certificate in a PEM file, for a provider that identifies the key by the certificate's thumbprint (x5t#S256), as Microsoft Entra does. Requires private_key_jwt."
    )
    private static let token = ConfigurationKey(
        "pkcs11",
        .text,
        "Instead of a file: the URI of a key in a PKCS #11 token (RFC 7512), such as pkcs11:token=Work;object=signing. Its module-path names the PKCS #11 library; without it, all modules registered with p11-kit are searched."
    )
    private static let pin = ConfigurationKey("pin", .secret, "The PIN of the PKCS #11 token, by reference.")

    let source: SigningKeySource
    let algorithm: SignatureAlgorithm?
    let certificate: CertificateBinding?

    private init(path: String) {
        self.source = .file(path: path)
        self.algorithm = nil
        self.certificate = nil
    }

    private init(_ object: ConfigurationObject) throws(ConfigurationError) {
        self.algorithm = try object[Self.algorithm]
        let certificate = try object[Self.certificate].map { CertificateBinding.file(path: $0) }
        try object.located(Self.certificate) { () throws(AuthError) in _ = try certificate?.thumbprint() }
        self.certificate = certificate
        switch (try object[Self.file], try object[Self.token]) {
        case (let file?, nil): self.source = .file(path: file, keyID: try object[Self.keyID])
        case (nil, let uri?):
            #if os(Linux) || os(macOS)
            let (pin, keyID) = (try object[Self.pin], try object[Self.keyID])
            self.source = try object.located(Self.token) { () throws(AuthError) in
                try .pkcs11(uri, pin: pin, keyID: keyID)
            }
            #else
            throw object.error("PKCS #11 tokens are not supported on this system", at: Self.token)
            #endif
        default: throw object.error("a key needs either \"file\" or \"pkcs11\"")
        }
    }
}
