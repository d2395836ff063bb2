public import AuthFlowHTTP
public import AuthFlowJSON

/// The options of one authorization request, in addition to the registration's.
///
/// A requirement (`maxAge`, an essential `acr` or `auth_time` claim, a `sub` claim with a value) is also checked against the returned ID Token.
public struct AuthorizationOptions: Sendable {
    /// A value of `prompt` (OIDC Core section 3.1.2.1), from an extensible set.
    public struct Prompt: RawRepresentable, Sendable, Hashable {
        public let rawValue: String
        public init(rawValue: String) { self.rawValue = rawValue }

        /// No page is shown. If user interaction is required, the response is an error.
        public static let none = Self(rawValue: "none")
        /// The user signs in again.
        public static let login = Self(rawValue: "login")
        /// The user is asked for consent again.
        public static let consent = Self(rawValue: "consent")
        /// The user chooses the account.
        public static let selectAccount = Self(rawValue: "select_account")
        /// The user creates an account (Initiating User Registration via OpenID Connect 1.0).
        public static let create = Self(rawValue: "create")
    }

    /// `prompt`; default: the server decides.
    public var prompt: Prompt?
    /// `login_hint`: an e-mail address or a user name; default: none.
    public var loginHint: String?
    /// `max_age`: the maximum time since the user's authentication, in whole seconds; default: any. Without the `openid` scope, there is no ID
    /// Token in which it could be checked: only the resource that receives the access token can check it (RFC 9470).
    public var maxAge: Duration?
    /// `acr_values`: Authentication Context Class Reference values, in order of preference. To require a value, use ``claims``. Default: none.
    public var acrValues: [String] = []
    /// `ui_locales`: language tags (BCP 47), in order of preference; default: none.
    public var uiLocales: [String] = []
    /// `scope`; default: the scopes of the registration.
    public var scopes: [String]?
    /// `claims` (OIDC Core section 5.5); default: none.
    public var claims: JSON?
    /// `resource` (RFC 8707); default: the resources of the registration.
    public var resources: [String]?
    /// `authorization_details` (RFC 9396); default: the registration's.
    public var authorizationDetails: JSON?
    /// The redirect URI, which must be one of the registered URIs; default: the first at which the user agent can receive redirects, or
    /// without a user agent, the first complete URI.
    public var redirectURI: RedirectURI?
    /// Additional parameters. They replace the registration's parameters with the same names. Default: none.
    ///
    /// OIDC Core section 3.1.2.1 recommends `id_token_hint` with `prompt` `none`: the ``TokenSet/idToken`` of the user who should be signed in.
    /// Unless requests are pushed, it becomes part of the URL in the browser. The provider may ignore it, so check which user has signed in.
    public var parameters = FormParameters()
    /// The maximum time to wait for the response; default: one hour.
    public var lifetime = Duration.seconds(3600)

    /// Creates options.
    public init(
        prompt: Prompt? = nil,
        loginHint: String? = nil,
        maxAge: Duration? = nil,
        scopes: [String]? = nil,
        resources: [String]? = nil
    ) {
        self.prompt = prompt
        self.loginHint = loginHint
        self.maxAge = maxAge
        self.scopes = scopes
        self.resources = resources
    }

    /// The options as parameters of a request.
    func apply(to request: inout ProviderRequest) throws(AuthError) {
        for name in parameters.names {
            request.parameters[name] = nil
            for value in parameters.values(for: name) { request.parameters.append(name, value) }
        }
        if let prompt { request.parameters["prompt"] = prompt.rawValue }
        if let loginHint { request.parameters["login_hint"] = loginHint }
        if let maxAge { request.parameters["max_age"] = "\(maxAge.components.seconds)" }
        if !acrValues.isEmpty { request.parameters["acr_values"] = acrValues.joined(separator: " ") }
        if !uiLocales.isEmpty { request.parameters["ui_locales"] = uiLocales.joined(separator: " ") }
        if let claims {
            do throws(JSONError) {
                request.parameters["claims"] = String(decoding: try claims.serialized(), as: UTF8.self)
            } catch {
                throw AuthError(
                    .invalidConfiguration,
                    "The claims cannot be encoded as JSON: \(error).",
                    underlyingError: error
                )
            }
        }
    }
}
