public import AuthFlow

extension UserAgentFactory {
    /// `headless`: signs in without a window, by filling in HTML forms.
    public static var headless: UserAgentFactory { headless(transport: nil) }

    /// `headless`, with a custom transport.
    /// - Parameter transport: The HTTP transport; nil for the profile's transport.
    public static func headless(transport: (any HTTPTransport)?) -> UserAgentFactory {
        let username = ConfigurationKey("username", required: .text, "The user name.")
        let password = ConfigurationKey("password", required: .secret, "The password, by reference.")
        let origins = ConfigurationKey(
            "origins",
            required: .list(.origin),
            "The only origins where credentials are entered and, during a sign-in, forms are submitted: the page with the form and its action URL must both be listed."
        )
        let consent = ConfigurationKey(
            "consent",
            ConfigurationValue<HTMLFormDriver.Consent>.choice,
            default: .allow,
            "The decision when the provider asks for consent."
        )
        let userAgentString = ConfigurationKey(
            "user_agent_string",
            .text,
            "The value of the User-Agent header field, for providers that accept only browsers."
        )
        let transcript = ConfigurationKey(
            "transcript",
            .path,
            "A file (0600) that records HTTP messages: methods, URLs, parameter names; no values that could be secret."
        )
        let keys: [any AnyConfigurationKey] = [username, password, origins, consent, userAgentString, transcript]
        return UserAgentFactory("headless", keys: keys) { options, context in
            let driver = HTMLFormDriver(
                username: try options[username],
                password: try options[password],
                origins: try options[origins],
                consent: try options[consent]
            )
            let described = HeadlessTransport(
                base: transport ?? context.transport,
                userAgentString: try options[userAgentString],
                transcript: try options[transcript].map(Transcript.init)
            )
            return HeadlessUserAgent(driver: driver, transport: described)
        }
    }
}
