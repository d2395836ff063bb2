/// What a provider knows this client by, and what the client asks for.
public struct ClientSettings: Sendable {
    /// `client_id`, as registered with the provider.
    public var clientID: String

    /// How the client proves who it is at the token endpoint.
    public var authentication: ClientAuthentication

    /// Where the provider sends the person back to, as registered.
    public var redirectURI: RedirectURI

    /// `scope`: what is asked for. With `openid` the provider must send an ID Token.
    public var scopes: [String]

    /// More parameters, for requests of each purpose.
    public var parameters: [ProviderRequest.Purpose: FormParameters]

    /// How long a whole sign-in may take, the person's part included.
    public var timeout: Duration

    /// Creates settings.
    /// - Parameters:
    ///   - clientID: `client_id`, as registered.
    ///   - authentication: How the client proves who it is. Apps and command-line tools cannot keep a secret and use
    ///     ``ClientAuthentication/none``.
    ///   - redirectURI: As registered; a loopback address with a free port unless given.
    ///   - scopes: What is asked for.
    ///   - parameters: More parameters, for requests of each purpose.
    ///   - timeout: How long a whole sign-in may take. Five minutes unless given.
    /// - Throws: ``AuthError`` with `invalid_configuration` when a value cannot be sent.
    public init(
        clientID: String,
        authentication: ClientAuthentication = .none,
        redirectURI: RedirectURI = .loopback,
        scopes: [String] = ["openid"],
        parameters: [ProviderRequest.Purpose: FormParameters] = [:],
        timeout: Duration = .seconds(300)
    ) throws(AuthError) {
        guard !clientID.isEmpty else { throw AuthError(.invalidConfiguration, "The client_id is empty.") }
        // RFC 6749 section 3.3: scope-token = 1*( %x21 / %x23-5B / %x5D-7E )
        for scope in scopes {
            let isToken = scope.utf8.allSatisfy { (0x21...0x7E).contains($0) && $0 != 0x22 && $0 != 0x5C }
            guard isToken, !scope.isEmpty else {
                throw AuthError(
                    .invalidConfiguration,
                    "The scope \"\(DisplayText.sanitized(scope))\" has a character that RFC 6749 section 3.3 does not allow."
                )
            }
        }
        self.clientID = clientID
        self.authentication = authentication
        self.redirectURI = redirectURI
        self.scopes = scopes
        self.parameters = parameters
        self.timeout = timeout
    }
}
