import AuthFlow

extension SessionServer {
    /// Handles GET requests for ``SessionServerOptions/frontChannelLogoutPath``, which the provider's page loads in a
    /// frame (OpenID Connect Front-Channel Logout 1.0 section 2).
    func endSessions(named query: String, _ request: HTTPRequest) async -> TransportResponse {
        let parameters = FormURLEncoding.decode(query) ?? FormParameters()
        let (issuers, names) = (parameters.values(for: "iss"), parameters.values(for: "sid"))
        // Neither a sign-in nor a back-channel logout limits the length of `sid`; a longer request exceeds the limits of most servers.
        guard issuers.count == 1, names.count == 1, (1...4096).contains(names[0].utf8.count) else {
            return ServerResponse.plain(.badRequest)
        }
        // Browsers send the request destination (Sec-Fetch-Dest), which must be a frame.
        let destination = HTTPField.Name("Sec-Fetch-Dest").flatMap { field($0, of: request) }
        guard destination == nil || destination == "iframe" else { return ServerResponse.plain(.forbidden) }
        let named: [ProviderSessions]
        do {
            named = try await providers(issuing: issuers[0])
        } catch {
            report(.endSession, error)
            return ServerResponse.plain(.serviceUnavailable)
        }
        guard let first = named.first else { return ServerResponse.plain(.badRequest) }
        do {
            // The provider's page may remove the frame before the store has responded, and does not load it again.
            let isHandled = try await complete(at: first) { [self] in
                try await endSessions(ofProviderSession: names[0], issuers[0], at: named)
            }
            guard isHandled else { return ServerResponse.tooMany() }
            var response = ServerResponse.plain(.ok, [], "text/html; charset=utf-8")
            let origins = named.compactMap { try? Endpoint($0.client.server.issuer).origin }
            response.head.headerFields[.contentSecurityPolicy] =
                "default-src 'none'; frame-ancestors \(Set(origins).sorted().joined(separator: " "))"
            return response
        } catch {
            return ServerResponse.plain(.serviceUnavailable)
        }
    }

    /// - Returns: Whether the number of concurrent requests was within the limit.
    private func endSessions(
        ofProviderSession name: String,
        _ issuer: String,
        at named: [ProviderSessions]
    ) async throws -> Bool {
        for provider in named {
            // Concurrency is limited, because the request writes to the store and is not authenticated.
            guard provider.frontChannelLogouts.enter() else { return false }
            defer { provider.frontChannelLogouts.release() }
            try await storeLogoutRecord(ofProviderSession: name, issuer, at: provider)
            // Only the sessions in the store are ended, because an unauthenticated request must not trigger a search of this process's memory.
            let found = try await sessions(ofProviderSession: name, issuer, at: provider)
            try await end(found, at: provider, .providerLogout, revoking: \.endsWithProviderSession)
        }
        return true
    }

    /// The providers whose ID Tokens can have this issuer: the server's, or else, at a multi-tenant server, a tenant's.
    private func providers(issuing issuer: String) async throws -> [ProviderSessions] {
        let named = providers.filter { $0.client.server.issuer.isIdentical(to: issuer) }
        guard named.isEmpty else { return named }
        var ofTenant: [ProviderSessions] = []
        var failure: (any Error)?
        for provider in providers {
            do {
                let metadata = try await provider.client.server.metadata()
                if metadata.tokenIssuer?.covers(issuer) == true { ofTenant.append(provider) }
            } catch {
                failure = error
            }
        }
        // The outage of a provider does not prevent the logout at another.
        if ofTenant.isEmpty, let failure { throw failure }
        return ofTenant
    }
}
