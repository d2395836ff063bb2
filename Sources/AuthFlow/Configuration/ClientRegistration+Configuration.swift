extension ClientRegistration {
    /// Reads the registration of a profile.
    /// - Throws: ``ConfigurationError``.
    init(configuration: ConfigurationObject, provider: ProviderFactory) throws {
        let keys = ProfileKeys.self
        let authentication = try ClientAuthentication(configuration: configuration, provider: provider)
        let algorithms = try configuration[keys.idTokenSigningAlgorithms]
        try configuration.located(keys.idTokenSigningAlgorithms) { () throws(AuthError) in
            try ClientRegistration.Values.check(algorithms, authentication)
        }
        var values = ClientRegistration.Values(clientID: try configuration[keys.clientID])
        values.authentication = authentication
        if let redirectURIs = try configuration[keys.redirectURI] { values.redirectURIs = redirectURIs }
        values.scopes = try configuration[keys.scopes] ?? provider.defaultScopes
        values.parameters = try configuration[keys.parameters]
        values.responseMode = try configuration[keys.responseMode]
        values.idTokenSigningAlgorithms = algorithms
        values.clockLeeway = try configuration[keys.clockLeeway]
        values.postLogoutRedirectURI = try configuration[keys.postLogoutRedirectURI]
        values.sendsClientIDAtSignOut = try configuration[keys.sendsClientIDAtSignOut]
        values.usesDPoP = try configuration[keys.usesDPoP]
        self = try configuration.located(keys.scopes) { [values] () throws(AuthError) in
            try ClientRegistration(values)
        }
        try provider.check(self, configuration)
    }
}

extension ClientAuthentication {
    fileprivate init(configuration: ConfigurationObject, provider: ProviderFactory) throws(ConfigurationError) {
        let key = ProfileKeys.clientAuthentication
        switch (try configuration[key], try configuration[ProfileKeys.clientSecret]) {
        case (Method.none, _?):
            throw configuration.error("\"none\" sends no secret, but there is a \"client_secret\"", at: key)
        case (nil, nil), (Method.none, nil): self = .none
        case (let method, let secret?):
            self =
                (method ?? provider.secretMethod) == .clientSecretPost
                ? .clientSecretPost(secret) : .clientSecretBasic(secret)
        case (let method?, nil):
            throw configuration.error("\"\(method.rawValue)\" needs a \"client_secret\"", at: key)
        }
    }
}
