import AuthFlow

// The listing of the article "Writing a user agent".

/// Shows the address, and has the user paste the redirect.
struct PasteAgent: UserAgent {
    nonisolated(nonsending) func withRedirectSession<Return: Sendable>(
        _ options: RedirectOptions,
        _ body: nonisolated(nonsending) (RedirectSession) async throws -> Return
    ) async throws -> Return {
        let redirectURI = options.redirectURI.uri
        let session = RedirectSession(redirectURI: redirectURI) { url in
            print("Open \(url)\nand paste the address that the browser ends at:")
            while let line = readLine() {
                if options.accepts(line, at: redirectURI) { return line }
                print("That is not the response to this sign-in.")
            }
            throw AuthError(.userAgentFailed, "Standard input has ended.")
        }
        return try await body(session)
    }
}

extension UserAgentFactory {
    /// `paste-here`, by which a configuration file chooses it.
    static var pasteHere: UserAgentFactory { UserAgentFactory("paste-here") { _, _ in PasteAgent() } }
}
