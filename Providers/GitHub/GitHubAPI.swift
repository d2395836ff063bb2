public import AuthFlow

// The requests to the REST API, which identifies the user.

extension GitHubProvider: UserInfoProviding {
    /// The response to `GET /user`, which describes the user.
    public func userInfo(for tokens: TokenSet, in context: ProviderContext) async throws -> JSON {
        try await context.resource(try call(.get, "/user"), with: tokens).json(from: "\(host.apiURL)/user")
    }

    /// Derives the identity from the account ID, because "login", the e-mail address and the name can be reassigned.
    public func identity(for tokens: TokenSet, in context: ProviderContext) async throws -> Identity? {
        let user = try await userInfo(for: tokens, in: context)
        guard let number = user["id"]?.integer else {
            throw AuthError(.invalidUserInfo, "GitHub's response to GET /user has no \"id\".")
        }
        var claims = (user.object ?? [:]).filter { $0.value != .null }
        claims["preferred_username"] = user["login"]
        return Identity(issuer: issuer, subject: "\(number)", claims: .object(claims))
    }
}

extension GitHubProvider {
    /// An API request, which should specify the API version for which it was written. "All API requests must include a valid
    /// User-Agent header", which should identify the application: the transport adds the configured product name.
    func call(_ method: HTTPRequest.Method, _ path: String, body: JSON? = nil) throws -> TransportRequest {
        var fields: HTTPFields = [.accept: "application/vnd.github+json"]
        if let version = HTTPField.Name("X-GitHub-Api-Version") { fields[version] = "2022-11-28" }
        if body != nil { fields[.contentType] = "application/json" }
        return TransportRequest(
            method,
            try Endpoint(host.apiURL + path),
            headerFields: fields,
            body: try body?.serialized() ?? []
        )
    }
}
