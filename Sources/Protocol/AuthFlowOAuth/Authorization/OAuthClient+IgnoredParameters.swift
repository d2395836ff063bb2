// A sign-in without an authorization request cannot enforce authorization request parameters: an app that requires a
// recent authentication must not receive tokens for an older authentication.

extension OAuthClient {
    /// The authorization request parameters, from the options and the registration, that a token exchange for a shared
    /// sign-in would ignore. `prompt=none` is not included, because a token exchange shows no page.
    package func parametersIgnoredByTokenExchange(_ options: AuthorizationOptions) -> [String] {
        var names = parameters(of: .authorization).names + options.userAuthenticationParameters(allowing: .none)
        if !hasScopesOfRegistration(options) { names.append("scope") }
        if !(options.resources ?? registration.resources).isEmpty { names.append("resource") }
        if (options.authorizationDetails ?? registration.authorizationDetails) != nil {
            names.append(AuthorizationDetails.name)
        }
        return names.filter { !Self.pageOnlyParameters.contains($0) }
    }

    /// The parameters of an authorization request that a device authorization request does not have (RFC 8628 section
    /// 3.1). `prompt=consent` is not included, because section 3.3 requires the server to obtain the user's approval in any case.
    package func parametersIgnoredByDeviceFlow(_ options: AuthorizationOptions) -> [String] {
        var names = options.userAuthenticationParameters(allowing: .consent)
        if (options.authorizationDetails ?? registration.authorizationDetails) != registration.authorizationDetails {
            names.append(AuthorizationDetails.name)
        }
        return names.filter { !Self.pageOnlyParameters.contains($0) }
    }

    /// The options that a grant without a user would ignore, because its stored token is shared by all requests of the client.
    /// - Parameter resource: The resource for which the token is requested; nil for the registration's resources.
    package func parametersIgnoredWithoutUser(_ options: AuthorizationOptions, resource: String?) -> [String] {
        // No page is shown.
        var names = options.userAuthenticationParameters(allowing: .none)
        if !hasScopesOfRegistration(options) { names.append("scope") }
        let resources = resource.map { [$0] } ?? registration.resources
        if Set(options.resources ?? resources) != Set(resources) { names.append("resource") }
        if (options.authorizationDetails ?? registration.authorizationDetails) != registration.authorizationDetails {
            names.append(AuthorizationDetails.name)
        }
        return names.filter { !Self.pageOnlyParameters.contains($0) }
    }

    /// RFC 6749 section 3.3: the order of the scopes "does not matter".
    private func hasScopesOfRegistration(_ options: AuthorizationOptions) -> Bool {
        options.scopes.map { Set($0) == Set(registration.scopes) } ?? true
    }

    /// The parameters that affect only the appearance of pages.
    private static let pageOnlyParameters: Set<String> = ["display", "ui_locales"]
}

extension AuthorizationOptions {
    /// The names of the parameters that request a specific user or authentication.
    /// - Parameter allowed: The value of `prompt` that the flow satisfies anyway; it is not included.
    fileprivate func userAuthenticationParameters(allowing allowed: Prompt) -> [String] {
        parameters.names
            + [
                prompt.flatMap { $0 == allowed ? nil : "prompt" }, loginHint.map { _ in "login_hint" },
                maxAge.map { _ in "max_age" }, acrValues.isEmpty ? nil : "acr_values", claims.map { _ in "claims" },
            ].compactMap { $0 }
    }
}
