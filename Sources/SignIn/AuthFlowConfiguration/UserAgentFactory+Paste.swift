import AuthFlowSignIn

extension UserAgentFactory {
    /// `paste`: shows the address, and takes the one that the user's browser ends at from the terminal.
    public static var paste: UserAgentFactory {
        UserAgentFactory("paste") { _, context in
            context.launchEnvironment.hasTerminal
                ? .lastResort(reason: "the address has to be carried to a browser and back")
                : .unavailable(reason: "there is no terminal to paste at")
        } make: { _, _ in
            PasteUserAgent()
        }
    }
}
