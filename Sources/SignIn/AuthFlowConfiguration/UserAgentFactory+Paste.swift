import AuthFlowSignIn

extension UserAgentFactory {
    /// `paste`: reports the authorization URL, and waits until the program passes the pasted redirect URL to ``AuthClient/resume(with:)-(String)``.
    public static var paste: UserAgentFactory {
        UserAgentFactory("paste") { _, context in
            context.launchEnvironment.hasTerminal
                ? .lastResort(reason: "the URLs must be copied to and from a browser")
                : .unavailable(reason: "there is no terminal to paste into")
        } make: { _, _ in
            PasteUserAgent()
        }
    }
}
