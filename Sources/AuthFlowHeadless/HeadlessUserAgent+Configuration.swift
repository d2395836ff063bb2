public import AuthFlow

extension UserAgentFactory {
    /// `headless`: signs in without a window, by filling in HTML forms.
    public static var headless: UserAgentFactory { headless(transport: nil) }

    /// `headless`, with a transport of its own.
    ///
    /// ## Configuration keys
    /// - `username` (string, required): The user name.
    /// - `password` (secret reference, required): The password.
    /// - `origins` (array of URLs, required): The only sites that both may be typed into.
    /// - `consent` (`allow` or `deny`, optional): What to answer when asked for consent; default: `allow`.
    /// - `user_agent_string` (string, optional): The `User-Agent` to send, for providers that accept only browsers.
    /// - `transcript` (path, optional): A file to record requests and responses in, without any secret.
    /// - Parameter transport: The HTTP transport; nil for that of the profile.
    public static func headless(transport: (any HTTPTransport)?) -> UserAgentFactory {
        let keys = [
            ConfigurationKey("username", .text, required: true, "The user name."),
            ConfigurationKey("password", .secret, required: true, "The password, by reference."),
            ConfigurationKey("origins", .list(.url), required: true, "The only sites that both may be typed into."),
            ConfigurationKey(
                "consent",
                .choice(HTMLFormDriver.Consent.allCases.map(\.rawValue)),
                "What to answer when the provider asks for consent; default: allow."
            ),
            ConfigurationKey(
                "user_agent_string",
                .text,
                "The User-Agent to send, for providers that accept only browsers."
            ),
            ConfigurationKey(
                "transcript",
                .text,
                "A file to record requests and responses in, without any secret."
            ),
        ]
        return UserAgentFactory("headless", keys: keys) { options, context in
            guard let password = try options.secret("password") else {
                throw options.error("the password is missing", at: "password")
            }
            let origins = try (options.texts("origins") ?? []).map { origin in
                try options.located("origins") { () throws(AuthError) in try Endpoint(origin, name: "origin") }
            }
            let driver = HTMLFormDriver(
                username: options.text("username") ?? "",
                password: password,
                origins: origins,
                consent: options.text("consent").flatMap(HTMLFormDriver.Consent.init) ?? .allow
            )
            let described = HeadlessTransport(
                base: transport ?? context.transport,
                userAgentString: options.text("user_agent_string"),
                transcript: options.filePath("transcript").map(Transcript.init)
            )
            return HeadlessUserAgent(driver: driver, transport: described)
        }
    }
}
