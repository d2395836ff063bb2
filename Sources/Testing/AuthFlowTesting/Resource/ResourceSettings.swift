public import AuthFlowJSON

/// How an emulated protected resource and its authorization servers behave.
public struct ResourceSettings: Sendable {
    /// Where the resource's metadata is.
    public enum MetadataPlace: Sendable, Hashable {
        /// At the well-known address with the path of the resource.
        case path
        /// At the well-known address of the origin, as metadata of the origin.
        case root
        /// Somewhere else, where only a challenge leads.
        case custom(String)
        /// Nowhere.
        case none
    }

    /// Where the metadata of an authorization server is.
    public enum ServerMetadata: Sendable, Hashable {
        /// RFC 8414 section 3.1.
        case oauthInserted
        /// RFC 8414 section 5.
        case openIDInserted
        /// OpenID Connect Discovery section 4.
        case openIDAppended
    }

    /// What an authorization response says in `iss`.
    public enum Issuer: Sendable, Hashable {
        /// The issuer.
        case right
        /// Nothing.
        case missing
        /// The issuer with a slash at its end, which is another.
        case withSlash
        /// Something else.
        case other(String)
    }

    /// How tokens are bound to keys.
    public enum DPoP: Sendable, Hashable {
        /// Not at all.
        case none
        /// Both sides offer it, and the resource demands it.
        case required
        /// Both sides also demand a nonce.
        case requiredWithNonce
    }

    /// The path of the MCP server.
    public var endpoint = "/mcp"
    /// Whether a challenge says where the metadata is.
    public var challengeNamesMetadata = true
    /// Whether a 401 has a challenge at all.
    public var challenges = true
    /// Where the metadata is.
    public var metadataPlace = MetadataPlace.path
    /// `resource` in the metadata; nil for the right one.
    public var resource: String?
    /// `authorization_servers` in the metadata; nil for the right one.
    public var authorizationServer: String?
    /// `scope` of a challenge.
    public var challengeScopes: [String]? = ["mcp:basic"]
    /// `scopes_supported` of the resource.
    public var supportedScopes: [String]? = ["mcp:basic"]
    /// The scopes that a call of a tool needs.
    public var toolScopes: [String] = []
    /// Whether calls of tools are refused whatever the token.
    public var refusesCalls = false
    /// Whether it demands another scope for every request.
    public var growsScopes = false
    /// Whether it takes no token at all.
    public var refusesTokens = false
    /// Whether every request with a token is forbidden, without a reason.
    public var forbids = false
    /// Scopes that the authorization server refuses to ask the user for.
    public var unknownScopes: [String] = []
    /// Whether the resource names its second authorization server after the first call.
    public var migratesAfterFirstCall = false
    /// Whether it serves POST alone, as the servers of the conformance suite do.
    public var servesPostAlone = true

    /// The paths of the issuers; the first is trusted.
    public var issuerPaths = [""]
    /// Where their metadata is.
    public var serverMetadata: Set<ServerMetadata> = [.oauthInserted]
    /// `issuer` in their metadata; nil for the right one.
    public var issuerInMetadata: String?
    /// The origin of their authorization endpoint; nil for their own.
    public var authorizationOrigin: String?
    /// `code_challenge_methods_supported`.
    public var codeChallengeMethods: [String]? = ["S256"]
    /// `scopes_supported` of the authorization server.
    public var serverScopes: [String]?
    /// `authorization_response_iss_parameter_supported`.
    public var announcesIssuer = true
    /// `iss` in authorization responses.
    public var issuer = Issuer.right
    /// Whether clients can register.
    public var registers = true
    /// `client_id_metadata_document_supported`.
    public var supportsMetadataDocuments = false
    /// The `client_id` that a client by its own description has to have; nil for any.
    public var expectedClientID: String?
    /// `token_endpoint_auth_methods_supported`.
    public var authenticationMethods = ["none"]
    /// Clients that were registered beforehand: their secrets by their identifiers.
    public var registeredClients: [String: String] = [:]
    /// The public key of the client that authenticates by `private_key_jwt`.
    public var clientKey: JSON?
    /// The grants of clients without a user.
    public var grants: Set<String> = []
    /// Assertions that are taken for tokens.
    public var assertions: Set<String> = []
    /// The ID Token that the identity provider exchanges.
    public var identityToken: String?
    /// Whether a demand for more scopes names the scheme Bearer, however tokens are bound.
    public var stepsUpAsBearer = false
    /// How tokens are bound.
    public var dpop = DPoP.none
    /// The lifetime of access tokens, in seconds.
    public var tokenLifetime = 3600
    /// The status of every response of the token endpoints, which then gives no tokens; nil for none.
    public var tokenStatus: Int?
    /// Whether the user denies every sign-in.
    public var denies = false
    /// Whether refresh tokens are given, used once, and revoke their sign-in when they come again.
    public var refreshes = false

    /// The revision that its MCP server speaks alone; nil for every one.
    public var version: String?
    /// The tools beside `test-tool`, as `tools/list` has them.
    public var tools: [JSON] = []
    /// Whether it keeps sessions (revisions up to 2025-11-25).
    public var hasSessions = false
    /// Whether a session that it does not know is refused with 401.
    public var refusesLostSessions = false
    /// Whether responses come as event streams.
    public var streams = false
    /// Whether calls break their stream off, to be resumed.
    public var breaksStreams = false

    /// Settings that keep to the rules.
    public init() {}
}
