import AuthFlowJSON
import HTTPTypes

extension ProviderAdapter {
    /// Finds the provider's metadata from its issuer: at the address of OpenID Connect Discovery section 4, or, when
    /// there is none, at that of RFC 8414 section 3.
    /// - Parameters:
    ///   - issuer: The issuer that the document has to name.
    ///   - address: Where the document is, when it is at neither of these.
    ///   - context: The engine's.
    /// - Throws: ``AuthError`` with `issuer_mismatch`, `discovery_failed`, or a code of the network's.
    public func discoveredMetadata(
        issuer: String,
        at address: Endpoint? = nil,
        in context: ProviderContext
    ) async throws -> ProviderMetadata {
        let issuerURL = try Endpoint(issuer, name: "issuer")
        guard issuerURL.query == nil else {
            throw AuthError(
                .invalidConfiguration,
                "The issuer \"\(issuerURL)\" has a query, which RFC 8414 section 2 forbids."
            )
        }
        for address in address.map({ [$0.url] }) ?? Self.wellKnownAddresses(of: issuerURL) {
            let call = HTTPCall(
                .get,
                try Endpoint(address, name: "discovery address"),
                headerFields: [.accept: "application/json"]
            )
            let reply = try await context.send(call)
            if reply.status == 404 { continue }
            guard reply.status == 200 else {
                throw AuthError(
                    .discoveryFailed,
                    "\(call) answered with status \(reply.status). Is \"\(issuer)\" the provider's issuer?"
                )
            }
            let metadata = try ProviderMetadata(try reply.json(from: "\(call)"))
            // OIDC Discovery section 4.3: "The issuer value returned MUST be identical to the Issuer URL that was used
            // as the prefix to /.well-known/openid-configuration to retrieve the configuration information."
            guard metadata.issuer == issuer else {
                throw AuthError(
                    .issuerMismatch,
                    """
                    The metadata found for the issuer "\(issuer)" is that of "\(Redaction.url(metadata.issuer))". They must \
                    be identical to the last character. If the second is right, write it in the configuration.
                    """
                )
            }
            return metadata
        }
        throw AuthError(
            .discoveryFailed,
            """
            No metadata document was found for the issuer "\(issuer)": neither at \
            .well-known/openid-configuration nor at .well-known/oauth-authorization-server. Check the issuer, or give the \
            endpoints by hand.
            """
        )
    }

    private static func wellKnownAddresses(of issuer: Endpoint) -> [String] {
        let path = issuer.path.hasSuffix("/") ? String(issuer.path.dropLast()) : issuer.path
        return [
            // OIDC Discovery section 4: appended, "any terminating / MUST be removed".
            "\(issuer.scheme)://\(issuer.authority)\(path)/.well-known/openid-configuration",
            // RFC 8414 section 3.1: inserted between the host and the path.
            "\(issuer.scheme)://\(issuer.authority)/.well-known/oauth-authorization-server\(path)",
        ]
    }
}
