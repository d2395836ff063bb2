public import AuthFlowOAuth

extension ResourceServer {
    /// Creates a resource server from the `resource_server` section of a configuration file.
    /// - Parameters:
    ///   - file: The file.
    ///   - proofs: The replay cache for DPoP proofs; default: an in-memory cache. Several instances of the API need a
    ///     `SharedReplayCache`.
    ///   - publicURL: The URL of a request as seen by its client; default: the origin of the resource, followed by the
    ///     path of the request.
    ///   - transport: Sends the requests to the issuers; default: the transport that the file describes.
    ///   - host: The clock, random number generator and environment.
    ///   - observer: Receives each decision. It must not block.
    /// - Throws: ``/AuthFlow/ConfigurationError`` with the location of every error, such as a missing section.
    public convenience init(
        configuration file: ConfigurationFile,
        proofs: any ProofReplayCache = MemoryReplayCache(),
        publicURL: (@Sendable (HTTPRequest) -> String?)? = nil,
        transport: (any HTTPTransport)? = nil,
        host: HostServices = .system,
        observer: (@Sendable (AuthorizationDecision) -> Void)? = nil
    ) throws {
        guard let section = file.resourceServer else {
            throw file.error("the section \"resource_server\" is missing")
        }
        let object = try section.checked(Self.configurationKeys, environment: host.environment)
        let network = try transport ?? section.transport(environment: host.environment)
        var rules = try ResourceServerRules(object)
        rules.dpop.proofs = proofs
        if let publicURL { rules.publicURL = publicURL }
        let resource = try object[ResourceServerKeys.resource]
        var issuers: [TrustedIssuer] = []
        let certificate = try object[NetworkSettings.Keys.clientCertificate]
        for settings in try object[ResourceServerKeys.issuers] {
            issuers.append(try settings.issuer(network, certificate, rules.clockLeeway, host))
        }
        do throws(AuthError) {
            try self.init(resource, issuers: issuers, rules: rules, host: host, observer: observer)
        } catch {
            throw section.error(error.message)
        }
    }

    /// The keys of `resource_server`, for the JSON Schema.
    public static var configurationKeys: [any AnyConfigurationKey] { ResourceServerKeys.all }
}
