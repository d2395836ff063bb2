public import AuthFlowJSON

/// The behavior of an emulated protected resource and its authorization servers.
public struct ResourceSettings: Sendable {
    /// The location of the protected resource metadata (RFC 9728).
    public enum MetadataPlace: Sendable, Hashable {
        /// At the well-known URL with the path of the resource.
        case path
        /// At the well-known URL of the origin, as metadata of the origin.
        case root
        /// At a different URL, which is given only in the challenge.
        case custom(String)
        /// The resource has no metadata.
        case none
    }

    /// The location of an authorization server's metadata.
    public enum ServerMetadata: Sendable, Hashable {
        /// RFC 8414 section 3.1.
        case oauthInserted
        /// RFC 8414 section 5.
        case openIDInserted
        /// OpenID Connect Discovery section 4.
        case openIDAppended
    }

    /// The value of `iss` in an authorization response.
    public enum Issuer: Sendable, Hashable {
        /// The issuer.
        case right
        /// No `iss`.
        case missing
        /// The issuer with a trailing slash, which is a different issuer.
        case withSlash
        /// Another value.
        case other(String)
    }

    /// The binding of tokens to keys.
    public enum DPoP: Sendable, Hashable {
        /// Tokens are not bound.
        case none
        /// The resource and the authorization server require DPoP.
        case required
        /// The resource and the authorization server also require a nonce.
        case requiredWithNonce
    }

    /// The path of the MCP server.
    public var endpoint = "/mcp"
    /// Whether a challenge contains the URL of the protected resource metadata.
    public var challengeNamesMetadata = true
    /// Whether a 401 or 403 response contains a challenge.
    public var challenges = true
    /// The location of the protected resource metadata.
    public var metadataPlace = MetadataPlace.path
    /// `resource` in the metadata; nil for the correct value.
    public var resource: String?
    /// `authorization_servers` in the metadata; nil for the correct value.
    public var authorizationServer: String?
    /// `scope` of a challenge.
    public var challengeScopes: [String]? = ["mcp:basic"]
    /// `scopes_supported` of the resource.
    public var supportedScopes: [String]? = ["mcp:basic"]
    /// The scopes that a tool call requires.
    public var toolScopes: [String] = []
    /// Whether tool calls are rejected regardless of the token.
    public var refusesCalls = false
    /// Whether every request is rejected with a challenge for a new scope.
    public var growsScopes = false
    /// Whether every token is rejected.
    public var rejectsTokens = false
    /// The authentication context class that the last sign-in must have requested (RFC 9470); nil for any.
    public var requiredACR: String?
    /// Whether every request with a token is rejected with status 403, without an error code.
    public var forbids = false
    /// The scopes that the authorization server rejects as invalid.
    public var unknownScopes: [String] = []
    /// Whether the resource's metadata names the second authorization server after the first call.
    public var migratesAfterFirstCall = false
    /// Whether the MCP server supports only POST, like the servers of the conformance suite.
    public var supportsOnlyPOST = true

    /// The paths of the issuers; the first is trusted.
    public var issuerPaths = [""]
    /// The locations of the issuers' metadata.
    public var serverMetadata: Set<ServerMetadata> = [.oauthInserted]
    /// `issuer` in the issuers' metadata; nil for the correct value.
    public var issuerInMetadata: String?
    /// The origin of the issuers' authorization endpoints; nil for the origin of the issuers.
    public var authorizationOrigin: String?
    /// `code_challenge_methods_supported`.
    public var codeChallengeMethods: [String]? = ["S256"]
    /// `scopes_supported` of the authorization server.
    public var serverScopes: [String]?
    /// `authorization_response_iss_parameter_supported`.
    public var advertisesIssuer = true
    /// `iss` in authorization responses.
    public var issuer = Issuer.right
    /// Whether clients can register.
    public var registers = true
    /// Whether registrations can be deleted (RFC 7592).
    public var deletesRegistrations = false
    /// The status of every response to a request to delete a registration, which then has no effect; nil for the regular responses.
    public var deletionStatus: Int?
    /// `client_id_metadata_document_supported`.
    public var supportsMetadataDocuments = false
    /// The required `client_id` of a client with a client ID metadata document; nil for any.
    public var expectedClientID: String?
    /// `token_endpoint_auth_methods_supported`.
    public var authenticationMethods = ["none"]
    /// The secrets of preregistered clients, by client ID.
    public var registeredClients: [String: String] = [:]
    /// The public key of the client that authenticates with `private_key_jwt`.
    public var clientKey: JSON?
    /// The grant types for machine-to-machine clients.
    public var grants: Set<String> = []
    /// The assertions that are accepted in exchange for tokens.
    public var assertions: Set<String> = []
    /// The ID Token that the identity provider exchanges.
    public var identityToken: String?
    /// Whether a step-up challenge uses the Bearer scheme even when tokens are DPoP-bound.
    public var stepsUpAsBearer = false
    /// The binding of access tokens to keys.
    public var dpop = DPoP.none
    /// The lifetime of access tokens, in seconds.
    public var tokenLifetime = 3600
    /// The status of every token endpoint response, which then contains no tokens; nil for regular responses.
    public var tokenStatus: Int?
    /// Whether the user denies every sign-in.
    public var denies = false
    /// Whether refresh tokens are issued. Each can be used only once, and its reuse revokes all tokens of the sign-in.
    public var refreshes = false

    /// The only protocol version that the MCP server supports; nil for every version.
    public var version: String?
    /// The tools in addition to `test-tool`, as returned by `tools/list`.
    public var tools: [JSON] = []
    /// Whether the MCP server uses sessions (protocol version 2025-11-25 or earlier).
    public var hasSessions = false
    /// Whether an unknown session is rejected with status 401.
    public var rejectsUnknownSessions = false
    /// Whether responses are sent as event streams.
    public var streams = false
    /// Whether the streams of tool calls are interrupted and must be resumed.
    public var breaksStreams = false

    /// Creates settings that comply with the specifications.
    public init() {}
}
