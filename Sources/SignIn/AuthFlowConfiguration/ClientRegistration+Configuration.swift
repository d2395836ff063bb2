package import AuthFlowOAuth

extension ClientRegistration {
    /// Reads the registration of a profile.
    /// - Throws: ``ConfigurationError``.
    init(configuration: ConfigurationObject, provider: ProviderFactory, clientAssertion: AssertionSource?) throws {
        let keys = ProfileKeys.self
        let authentication = try ClientAuthentication(
            configuration: configuration,
            secretMethod: provider.secretMethod,
            assertion: clientAssertion,
            certificate: try configuration[NetworkSettings.Keys.clientCertificate]
        )
        let algorithms = try configuration[keys.idTokenSigningAlgorithms]
        try configuration.located(keys.idTokenSigningAlgorithms) { () throws(AuthError) in
            try ClientRegistration.Values.check(algorithms, authentication)
        }
        var values = ClientRegistration.Values(clientID: try configuration[keys.clientID])
        func check(_ values: ClientRegistration.Values, at key: any AnyConfigurationKey) throws(ConfigurationError) {
            try configuration.located(key) { () throws(AuthError) in _ = try ClientRegistration(values) }
        }
        try check(values, at: keys.clientID)
        values.scopes = try configuration[keys.scopes] ?? provider.defaultScopes
        try check(values, at: keys.scopes)
        values.authentication = authentication
        if let redirectURIs = try configuration[keys.redirectURI] { values.redirectURIs = redirectURIs }
        values.requiresAdvertisedPKCE = try configuration[keys.requiresAdvertisedPKCE]
        values.sendsResourcesOnRefresh = try configuration[keys.sendsResourcesOnRefresh]
        values.bearerTokenTypes = Set(try configuration[keys.bearerTokenTypes].map { $0 == "none" ? "" : $0 })
        values.parameters = try configuration[keys.parameters]
        // These requests contain the registration's scopes, which would replace the parameter.
        let ownScopes = values.scopes.filter { $0 != "openid" }
        // The assertion from another profile's sign-in specifies the scopes and the authorization details.
        let isIdentityAssertion = configuration.member("assertion")?.json["name"] == "profile"
        let requested: [(ProviderRequest.Purpose, [String])] = [
            (.authorization, values.scopes), (.deviceAuthorization, values.scopes), (.clientCredentials, ownScopes),
            (.jwtBearer, isIdentityAssertion ? [] : ownScopes),
        ]
        for (purpose, scopes) in requested where !scopes.isEmpty && values.parameters[purpose]?["scope"] != nil {
            throw configuration.error(
                "the parameter \"scope\" of \(purpose) requests would be replaced: list the scopes in \"scopes\"",
                at: keys.parameters
            )
        }
        values.responseMode = try configuration[keys.responseMode]
        values.idTokenSigningAlgorithms = algorithms
        values.trustedAudiences = try configuration[keys.trustedAudiences]
        values.requestsUserInfoAtSignIn = try configuration[keys.requestsUserInfoAtSignIn]
        values.clockLeeway = try configuration[keys.clockLeeway]
        values.defaultTokenLifetime = try configuration[keys.defaultTokenLifetime]
        values.postLogoutRedirectURI = try configuration[keys.postLogoutRedirectURI]
        values.sendsClientIDAtSignOut = try configuration[keys.sendsClientIDAtSignOut]
        values.sendsIDTokenAtSignOut = try configuration[keys.sendsIDTokenAtSignOut]
        values.usesDPoP = try configuration[keys.usesDPoP]
        values.resources = try configuration[keys.resources]
        values.requiresExactAuthorizationDetails = try configuration[keys.requiresExactDetails]
        values.authorizationDetails = try configuration[keys.authorizationDetails]
        let detailed: [ProviderRequest.Purpose] =
            [.authorization, .deviceAuthorization, .clientCredentials] + (isIdentityAssertion ? [] : [.jwtBearer])
        let parameters = values.parameters
        if values.authorizationDetails != nil,
            let purpose = detailed.first(where: { parameters[$0]?["authorization_details"] != nil })
        {
            throw configuration.error(
                "the parameter \"authorization_details\" of \(purpose) requests would be replaced by the key \"authorization_details\"",
                at: keys.parameters
            )
        }
        values.pushedRequests = try configuration[keys.pushedRequests]
        values.repeatedPushedParameters = try configuration[keys.repeatedPushedParameters]
        values.securityProfile = try configuration[keys.securityProfile]
        values.decryptionKeys = try configuration[keys.decryptionKey].map(DecryptionKeySource.init)
        values.encryptedResponses = Set(try configuration[keys.encryptedResponses])
        guard values.encryptedResponses.isEmpty || values.decryptionKeys != nil else {
            throw configuration.error("encrypted responses need a \"decryption_key\"", at: keys.encryptedResponses)
        }
        try configuration.located(keys.decryptionKey) { [values] () throws(AuthError) in
            _ = try values.decryptionKeys?.keys()
        }
        if let certificate = try configuration[NetworkSettings.Keys.clientCertificate] {
            values.certificate = .file(path: certificate.file)
        }
        values.signedIntrospection = try configuration[keys.signedIntrospection]
        // An unusable key file is a configuration error, and is reported before the first request.
        func requireUsable(_ key: ClientKey, at place: any AnyConfigurationKey) throws(ConfigurationError) {
            guard !key.source.isInHardwareToken else { return }
            try configuration.located(place) { () throws(AuthError) in _ = try key.source.key() }
        }
        let key = try configuration[keys.clientKey]
        if let key { try requireUsable(key, at: keys.clientKey) }
        guard key?.certificate == nil || authentication.method == .privateKeyJWT else {
            throw configuration.error(
                "\"certificate\" requires \"client_authentication\": \"private_key_jwt\"",
                at: keys.clientKey
            )
        }
        if let dpopKey = try configuration[keys.dpopKey] {
            try requireUsable(dpopKey, at: keys.dpopKey)
            values.dpopKey = dpopKey.source
            values.dpopAlgorithm = dpopKey.algorithm
            values.usesDPoP = true
        }
        if try configuration[keys.signsRequests] || values.securityProfile == .fapi2MessageSigning {
            guard let key else {
                let place: any AnyConfigurationKey =
                    values.securityProfile == nil ? keys.signsRequests : keys.securityProfile
                throw configuration.error("signed requests need a \"client_key\"", at: place)
            }
            values.requestObjectKey = key.source
            values.requestObjectAlgorithm = key.algorithm
        }
        try values.apply(switchesOf: configuration)
        values.requestObjectEncryption = try configuration[keys.requestEncryption]
        guard values.requestObjectEncryption == nil || values.requestObjectKey != nil else {
            throw configuration.error(
                "encrypted requests must be signed: set \"signed_requests\"",
                at: keys.requestEncryption
            )
        }
        values = try configuration.located(keys.securityProfile) { [values] () throws(AuthError) in
            var values = values
            try values.applyProfile()
            return values
        }
        self = try configuration.located { [values] () throws(AuthError) in
            try ClientRegistration(values)
        }
    }
}

extension ClientRegistration.Values {
    /// Disables the features that a profile turns off. `"dpop": false` with a client certificate binds tokens to the
    /// certificate. Features that the security profile requires cannot be turned off.
    fileprivate mutating func apply(switchesOf configuration: ConfigurationObject) throws(ConfigurationError) {
        let keys = ProfileKeys.self
        func isOff(_ key: any AnyConfigurationKey) -> Bool {
            configuration.member(key.declaration.name)?.json == false
        }
        if certificate != nil {
            bindsTokensToCertificate = isOff(keys.usesDPoP) || securityProfile == nil && !usesDPoP
        }
        if isOff(keys.usesDPoP), dpopKey != nil {
            throw configuration.error("\"dpop\" cannot be false when a \"dpop_key\" is set", at: keys.usesDPoP)
        }
        guard let securityProfile else { return }
        if isOff(keys.usesDPoP), !usesCertificate {
            throw configuration.error(
                "\(securityProfile.rawValue) requires tokens that are bound to a DPoP key or to a \"client_certificate\" (FAPI 2.0 Security Profile section 5.3.3.1)",
                at: keys.usesDPoP
            )
        }
        guard securityProfile == .fapi2MessageSigning else { return }
        for (key, clause) in [
            (keys.signedIntrospection as any AnyConfigurationKey, "5.5.2"), (keys.signsRequests, "5.3.2"),
        ] where isOff(key) {
            throw configuration.error(
                "fapi2-message-signing requires the value true (FAPI 2.0 Message Signing section \(clause))",
                at: key
            )
        }
    }
}

extension ClientAuthentication {
    /// Reads the client authentication method.
    /// - Parameters:
    ///   - configuration: An object with the keys of ``ProfileKeys`` for client authentication.
    ///   - secretMethod: The default method for a client with a secret; nil to choose between `client_secret_basic` and `client_secret_post` according to the server's metadata.
    ///   - assertion: The source of the client's assertions; nil for none.
    ///   - certificate: The client certificate that the transport presents; nil for none.
    package init(
        configuration: ConfigurationObject,
        secretMethod: Method?,
        assertion: AssertionSource?,
        certificate: NetworkSettings.ClientCertificate?
    ) throws(ConfigurationError) {
        let key = ProfileKeys.clientAuthentication
        let secret = try configuration[ProfileKeys.clientSecret]
        let clientKey = try configuration[ProfileKeys.clientKey]
        let audience = try configuration[ProfileKeys.assertionAudience]
        let method = try configuration[key]
        let usual: Method =
            clientKey != nil || assertion != nil
            ? .privateKeyJWT : secret != nil ? secretMethod ?? .clientSecretBasic : .none
        func needed<Value>(_ value: Value?, _ name: String, _ method: Method) throws(ConfigurationError) -> Value {
            guard let value else { throw configuration.error("\"\(method.rawValue)\" needs a \"\(name)\"", at: key) }
            return value
        }
        if let issuer = try configuration[ProfileKeys.clientSecretIssuer] {
            guard method == .clientSecretPost, secret == nil, assertion == nil else {
                throw configuration.error(
                    "\"client_secret_issuer\" requires \"client_authentication\": \"client_secret_post\", without \"client_secret\" or \"client_assertion\"",
                    at: ProfileKeys.clientSecretIssuer
                )
            }
            let clientKey = try needed(clientKey, "client_key", .clientSecretPost)
            self = .signedSecret(by: clientKey.source, issuer: issuer, algorithm: clientKey.algorithm)
            return
        }
        switch method ?? usual {
        case .none:
            guard secret == nil else {
                throw configuration.error("\"none\" sends no secret, but \"client_secret\" is set", at: key)
            }
            self = .none
        case .clientSecretPost: self = .clientSecretPost(try needed(secret, "client_secret", .clientSecretPost))
        case .clientSecretJWT:
            let algorithm = try configuration[ProfileKeys.assertionAlgorithm]
            let secret = try needed(secret, "client_secret", .clientSecretJWT)
            self = .clientSecretJWT(secret, algorithm: algorithm, audience: audience)
        case .privateKeyJWT where assertion != nil, .spiffeJWT:
            let method = method ?? usual
            guard configuration.member(ProfileKeys.assertionAudience.declaration.name) == nil else {
                throw configuration.error(
                    "this key does not apply to a \"client_assertion\", whose option \"audience\" is the audience",
                    at: ProfileKeys.assertionAudience
                )
            }
            self = .assertion(
                from: try needed(assertion, "client_assertion", method),
                isSPIFFE: method == .spiffeJWT
            )
        case .privateKeyJWT:
            let clientKey = try needed(clientKey, "client_key", .privateKeyJWT)
            self = .privateKeyJWT(
                clientKey.source,
                algorithm: clientKey.algorithm,
                audience: audience,
                certificate: clientKey.certificate
            )
        case .tlsClientAuth, .selfSignedTLSClientAuth:
            let method = method ?? usual
            _ = try needed(certificate, "client_certificate", method)
            self = method == .tlsClientAuth ? .tlsClientAuth : .selfSignedTLSClientAuth
        case .clientSecretBasic:
            let secret = try needed(secret, "client_secret", .clientSecretBasic)
            self = method ?? secretMethod == nil ? .clientSecret(secret) : .clientSecretBasic(secret)
        default: preconditionFailure("the key has no other values")
        }
    }
}
