import AuthFlowSignIn

extension UserAgentFactory {
    /// `paste`: shows the authorization URL, and reads from the terminal the redirect URL that the user copies from the browser.
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
