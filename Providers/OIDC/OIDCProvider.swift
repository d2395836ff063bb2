public import AuthFlow

/// The generic adapter, for providers that conform to OpenID Connect, or to OAuth 2.0 with a metadata document.
public struct OIDCProvider: Sendable {
    /// The source of the user's identity.
    public enum IdentitySource: String, Sendable, Hashable, CaseIterable {
        /// The ID Token, with the claims of userinfo. Without the `openid` scope, the user is not identified.
        case idToken = "id_token"
        /// The userinfo endpoint, even if there is no ID Token whose `sub` the response must match.
        case userInfo = "userinfo"
        /// The introspection endpoint (RFC 7662).
        case introspection
        /// The access token, which must be a JWT signed by the provider (RFC 9068).
        case accessToken = "access_token"
    }

    public let issuer: String

    private var fixed: ProviderMetadata?
    private let metadataURL: Endpoint?
    private let endpoints: ProviderMetadata?
    private let identitySource: IdentitySource
    private let subjectClaim: String
    private let tokenIssuer: TokenIssuerTemplate?

    /// Creates a provider whose endpoints are discovered from its issuer (OpenID Connect Discovery, RFC 8414).
    /// - Parameters:
    ///   - issuer: The issuer, exactly as in the provider's metadata.
    ///   - metadataURL: The URL of the metadata document, which must contain the issuer; default: the issuer's well-known URLs (OpenID
    ///     Connect Discovery, RFC 8414).
    ///   - endpoints: Endpoints that replace or supplement the discovered ones; default: none.
    ///   - identitySource: The source of the user's identity; default: the ID Token.
    ///   - subjectClaim: The claim that identifies a user if there is no ID Token, or its JSON Pointer (RFC 6901), such as `/data/id`;
    ///     default: `sub`.
    ///   - tokenIssuer: The template for the tenant-specific issuers of ID Tokens, if users of several tenants sign in; default: none.
    public init(
        issuer: String,
        metadataURL: Endpoint? = nil,
        endpoints: ProviderMetadata? = nil,
        identitySource: IdentitySource = .idToken,
        subjectClaim: String = "sub",
        tokenIssuer: TokenIssuerTemplate? = nil
    ) {
        self.issuer = issuer
        self.metadataURL = metadataURL
        self.endpoints = endpoints
        self.identitySource = identitySource
        self.subjectClaim = subjectClaim
        self.tokenIssuer = tokenIssuer
    }

    /// Creates a provider with fixed endpoints.
    /// - Parameters:
    ///   - metadata: The issuer and the endpoints. ID Tokens are verified with the keys at `jwksURI`.
    ///   - identitySource: The source of the user's identity; default: the ID Token.
    ///   - subjectClaim: The claim that identifies a user if there is no ID Token, or its JSON Pointer (RFC 6901), such as `/data/id`;
    ///     default: `sub`.
    public init(metadata: ProviderMetadata, identitySource: IdentitySource = .idToken, subjectClaim: String = "sub") {
        self.init(issuer: metadata.issuer, identitySource: identitySource, subjectClaim: subjectClaim)
        self.fixed = metadata
    }
}

extension OIDCProvider: ProviderAdapter {
    public func metadata(in context: ServerContext) async throws -> ProviderMetadata {
        if let fixed { return fixed }
        let needed =
            switch identitySource {
            case .userInfo:
                "\"authorization\", \"token\" and \"userinfo\", and \"jwks\" if the openid scope is requested"
            case .introspection:
                "\"authorization\", \"token\" and \"introspection\", and \"jwks\" if the openid scope is requested"
            case .idToken: "\"authorization\" and \"token\", and \"jwks\" if the openid scope is requested"
            case .accessToken: "\"authorization\", \"token\" and \"jwks\""
            }
        var metadata: ProviderMetadata
        do {
            metadata = try await context.discover(
                at: metadataURL,
                tokenIssuer: tokenIssuer,
                advice:
                    "Check the issuer, or configure the endpoints explicitly (\"endpoints\": \(needed))\(metadataURL == nil ? "" : ", and remove \"metadata_url\"")."
            )
        } catch let error as AuthError where error.code == .issuerMismatch && metadataURL == nil {
            throw AuthError(
                .issuerMismatch,
                "\(error.message) If there is no metadata at that issuer, set \"metadata_url\" to the URL of this document as well.",
                underlyingError: error
            )
        }
        if let endpoints { metadata.replaceEndpoints(by: endpoints) }
        return metadata
    }
}

extension OIDCProvider: UserInfoProviding {
    /// The `sub` that older Azure AD B2C policies issue for every user. If it were accepted, all users would share one account.
    private static let subjectOfEveryUser = "Not supported currently. Use oid claim."

    public func identity(for tokens: TokenSet, in context: ProviderContext) async throws -> Identity? {
        // A verified ID Token is stronger evidence than any other source.
        guard tokens.verifiedIDToken == nil else {
            let identity = try await context.identity(for: tokens)
            guard identity?.subject != Self.subjectOfEveryUser else {
                throw AuthError(
                    .invalidIDToken,
                    "The provider issues the same subject for every user (\"\(Self.subjectOfEveryUser)\"). Configure its policy to send the user's object ID as \"sub\"."
                )
            }
            return identity
        }
        switch identitySource {
        case .idToken: return nil
        case .userInfo: return try identity(try await userInfo(for: tokens, in: context))
        case .introspection:
            guard let claims = try await context.introspect(tokens.accessToken) else {
                throw AuthError(
                    .invalidUserInfo,
                    "The introspection endpoint reports that the new access token is not active."
                )
            }
            return try identity(claims)
        case .accessToken: return try identity(try await context.accessTokenClaims(of: tokens))
        }
    }

    public func userInfo(for tokens: TokenSet, in context: ProviderContext) async throws -> JSON {
        try await context.userInfo(for: tokens, trustingAccessTokenAlone: identitySource == .userInfo)
    }

    public func identifiesUsers(of registration: ClientRegistration) -> Bool {
        registration.scopes.contains("openid") || identitySource != .idToken
    }

    private func identity(_ claims: JSON) throws -> Identity {
        // Some providers use numbers as user IDs.
        let claim = subjectClaim.hasPrefix("/") ? claims.value(at: subjectClaim) : claims[subjectClaim]
        let subject = claim?.string ?? claim?.integer.map { "\($0)" }
        guard let subject, !subject.isEmpty else {
            throw AuthError(
                .invalidUserInfo,
                "The claims about the user do not contain \"\(subjectClaim)\", so the user cannot be identified."
            )
        }
        return Identity(issuer: issuer, subject: subject, claims: claims)
    }
}

extension JSON {
    /// The value that a JSON Pointer identifies (RFC 6901 section 4); nil when there is none.
    fileprivate func value(at pointer: String) -> JSON? {
        pointer.split(separator: "/", omittingEmptySubsequences: false).dropFirst().reduce(Optional(self)) {
            value,
            token in
            // Section 4: "~1" first, then "~0".
            let name = String(token.replacing("~1", with: "/").replacing("~0", with: "~"))
            if let elements = value?.array {
                return Int(name).flatMap { elements.indices.contains($0) ? elements[$0] : nil }
            }
            return value?[name]
        }
    }
}
