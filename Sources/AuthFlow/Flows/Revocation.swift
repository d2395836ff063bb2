import HTTPTypes

extension Engine {
    /// Revokes tokens one after the other (RFC 7009).
    /// - Throws: ``AuthError`` with `unsupported` when the provider cannot, or what the first refusal was; the other tokens
    ///   have been tried all the same.
    func revoke(_ tokens: [RevocableToken]) async throws {
        guard !tokens.isEmpty else { return }
        let endpoint = try (try await metadata(with: \.revocationEndpoint))
            .required(\.revocationEndpoint, "revocation endpoint")
        var failure: (any Error)?
        for token in tokens {
            do {
                try await revoke(token, at: endpoint)
            } catch let error as AuthError where standardName(of: error.providerError) == "invalid_token" {
                // RFC 7009 section 2.2: "invalid tokens do not cause an error response". Some send one: Google does for an access
                // token that it has revoked with its refresh token. What is not good any more needs no revoking.
                continue
            } catch let error as AuthError
                where standardName(of: error.providerError) == "unsupported_token_type"
            {
                // Section 2.2.1: "the authorization server does not support the revocation of the presented token type".
                failure =
                    failure
                    ?? AuthError(
                        .unsupported,
                        "\(endpoint.host) does not revoke tokens of the kind \(Self.words(for: token)).",
                        providerError: error.providerError
                    )
            } catch {
                failure = failure ?? error
            }
        }
        if let failure { throw failure }
    }

    /// `refresh_token` is a name of the protocol, and no word.
    private static func words(for token: RevocableToken) -> String {
        DisplayText.sanitized(token.typeHint.replacing("_", with: " "), limit: 40)
    }

    private func revoke(_ token: RevocableToken, at endpoint: Endpoint) async throws {
        let response = try await send(
            ProviderRequest(
                purpose: .revocation,
                endpoint: endpoint,
                parameters: [:],
                headerFields: [:],
                protectedParameters: ["token": token.token.exposed, "token_type_hint": token.typeHint]
            ),
            scopes: []
        )
        // RFC 7009 section 2.2: "The authorization server responds with HTTP status code 200 if the token has been revoked
        // successfully or if the client submitted an invalid token"; the body says nothing. Some answer 204.
        guard (200..<300).contains(response.status) else {
            let error = (try? provider.parameters(of: response)).flatMap { ProviderError($0, status: response.status) }
            throw AuthError(
                .providerRejected,
                "\(endpoint.host) did not revoke the \(Self.words(for: token)) (status \(response.status)).",
                providerError: error ?? response.http.providerError,
                status: response.status
            )
        }
    }
}
