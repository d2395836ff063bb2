import AuthFlowIssuer
import Crypto

extension OAuthClient {
    /// Exchanges an assertion for an access token (RFC 7523 section 2.1), without user interaction.
    /// - Parameters:
    ///   - assertion: The assertion.
    ///   - scopes: The scopes to request; default: the assertion's, or if it specifies none, the registration's without `openid`.
    ///   - resources: The target resources of the token (RFC 8707); default: the registration's, or none if the assertion specifies scopes.
    /// - Returns: A credential without an identity, because only the server reads the assertion. Send a new assertion when the
    ///   access token expires, because there is no refresh token.
    /// - Throws: ``AuthError`` with `provider_rejected`, whose message describes the assertion; `invalid_configuration` when a resource is not an
    ///   absolute URI; `invalid_response`.
    public func jwtBearer(
        _ assertion: Assertion,
        scopes: [String]? = nil,
        resources: [String]? = nil
    ) async throws -> Credential {
        try ResourceIdentifier.check(resources ?? [])
        let metadata = try await metadata()
        var request = try tokenRequest(
            .jwtBearer,
            [
                "grant_type": "urn:ietf:params:oauth:grant-type:jwt-bearer", "assertion": assertion.jwt.exposed,
            ],
            at: metadata
        )
        let wanted = scopes ?? assertion.scopes ?? ownScopes
        // If the assertion specifies scopes, no other scopes are requested, unless the caller specifies them.
        if assertion.scopes == nil || scopes != nil, !wanted.isEmpty {
            request.parameters["scope"] = wanted.joined(separator: " ")
        }
        request.addResources(resources ?? (assertion.scopes == nil ? registration.resources : []))
        let details = assertion.scopes == nil ? registration.authorizationDetails : nil
        try request.addAuthorizationDetails(details, at: metadata)
        let key = try await newDPoPKey(at: metadata)
        // If this client uses a different key, its tokens must not silently be bound to the assertion's key.
        if let bound = assertion.key, bound.isExternal || key?.isExternal == true, bound.thumbprint != key?.thumbprint {
            throw AuthError(
                .invalidConfiguration,
                "The assertion is bound to a DPoP key other than this client's. Configure the same non-exportable key for both clients."
            )
        }
        let response = try await sendTokenRequest(request, scopes: wanted, key: assertion.key ?? key)
        // An assertion that specifies scopes was obtained for the registration's resources, so the access token is for them as well.
        return try await machineToMachineCredential(
            response,
            resources: resources ?? registration.resources,
            details: details,
            metadata
        )
    }

    /// The scopes of a request that involves no user: the registration's, without `openid`.
    var ownScopes: [String] { registration.scopes.filter { $0 != "openid" } }

    /// A digest of the registration's token request for a grant without a user; it identifies the stored token.
    package func requestDigest(of purpose: ProviderRequest.Purpose) -> String {
        let request: JSON = [
            "scopes": .array(ownScopes.sorted().map(JSON.string)),
            "resources": .array(registration.resources.sorted().map(JSON.string)),
            "authorization_details": registration.authorizationDetails ?? .null,
            "parameters": .string(FormURLEncoding.encodeQuery(parameters(of: purpose))),
        ]
        return Base64URL.encode(SHA256.hash(data: (try? request.serialized()) ?? []))
    }

    /// A credential without an identity and without a refresh token.
    /// - Parameters:
    ///   - resources: The requested resources.
    ///   - details: The requested authorization details; nil for none.
    func machineToMachineCredential(
        _ response: TokenResponse,
        resources: [String],
        details: JSON?,
        _ metadata: ProviderMetadata
    ) async throws -> Credential {
        try await revokingRejectedTokens(response.tokens) {
            var tokens = try requireUsable(response)
            // RFC 6749 section 4.4.3: "A refresh token SHOULD NOT be included." RFC 7521 section 4.1, for assertions: "In practice,
            // that will usually mean that refresh tokens are not issued". A refresh token would outlive the authorization on which the
            // access token is based.
            tokens.refreshToken = nil
            tokens.idToken = nil
            _ = try AuthorizationDetails.compare(details, tokens, registration)
            var credential = Credential(tokens: tokens, identity: nil, signedInAt: host.wholeSecond)
            credential.binding = ProviderBinding(metadata)
            credential.resources = resources
            try credential.requireStorableSize()
            return credential
        }
    }

    /// The values that an assertion source needs to create an assertion.
    package func assertionRequest() async throws -> AssertionSource.Request {
        AssertionSource.Request(
            clientID: registration.clientID,
            issuer: try await metadata().issuer,
            time: server.time,
            identifier: host.randomToken(),
            resources: registration.resources,
            scopes: ownScopes,
            transport: server.transport,
            host: host
        )
    }
}
