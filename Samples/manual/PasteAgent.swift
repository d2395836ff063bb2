import AuthFlow

// The code from the article "Writing a user agent".

/// Shows the authorization URL, and reads the redirect URL that the user pastes.
struct PasteAgent: UserAgent {
    nonisolated(nonsending) func withRedirectSession<Return: Sendable>(
        _ options: RedirectOptions,
        _ body: nonisolated(nonsending) (RedirectSession) async throws -> Return
    ) async throws -> Return {
        let redirectURI = options.redirectURI.uri
        let session = RedirectSession(redirectURI: redirectURI) { url in
            print("Open \(url)\nand paste the URL to which the browser is redirected:")
            while let line = readLine() {
                if options.accepts(line, at: redirectURI) { return line }
                print("That URL is not the response to this sign-in.")
            }
            throw AuthError(.userAgentFailed, "Standard input has ended.")
        }
        return try await body(session)
    }
}

extension UserAgentFactory {
    /// `paste-here`: the name of the user agent in a configuration file.
    static var pasteHere: UserAgentFactory { UserAgentFactory("paste-here") { _, _ in PasteAgent() } }
}
