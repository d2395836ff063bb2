public import AuthFlow

/// The options of a ``SessionServer``.
public struct SessionServerOptions: Sendable {
    /// The origin of the application: scheme, host and port, such as `https://app.example.com`.
    public var origin: String

    /// The path that starts a sign-in; default: `/login`.
    public var loginPath = "/login"

    /// The path that ends the session; default: `/logout`.
    public var logoutPath = "/logout"

    /// The path that returns the signed-in user to scripts of the page; default: `/session`.
    public var sessionPath = "/session"

    /// The path that the provider posts logout tokens to; default: `/backchannel-logout`. Register it as `backchannel_logout_uri`. Where there
    /// are several providers, each has its own: `/backchannel-logout/NAME`.
    public var backChannelLogoutPath = "/backchannel-logout"

    /// The path of a page that the provider loads in a frame when a user signs out there (OpenID Connect Front-Channel Logout 1.0); default,
    /// nil: none. Register it as `frontchannel_logout_uri` with `frontchannel_logout_session_required`.
    ///
    /// Browsers send no cookie with it, so the session is found by the unauthenticated `iss` and `sid` of the request: a client
    /// that knows a `sid` can end that session. Use back-channel logout if the provider supports it.
    public var frontChannelLogoutPath: String?

    /// The page of the application that users return to by default; default: `/`.
    public var startPath = "/"

    /// The allowed prefixes of the page to return to; default, nil: any path of the application.
    public var returnPrefixes: [String]?

    /// The parameters of the sign-in route to forward to the provider; default: none, because a page of another site can send the browser to
    /// that route with any of them.
    public var signInParameters: Set<SignInParameter> = []

    /// The user's claims that `/session` returns, in addition to `sub` and `name`; default: none.
    public var sessionClaims: [String] = []

    /// The idle timeout of a session; default: one hour.
    public var idleTime = Duration.seconds(3600)

    /// The maximum lifetime of a session; default: 12 hours. The provider's session may end earlier.
    public var lifetime = Duration.seconds(12 * 3600)

    /// The maximum number of sessions of a user, at least 1; default: 100. A sign-in beyond it ends the least recently used session.
    public var sessionsPerUser = 100

    /// Whether the cookie persists when the browser is closed, for the lifetime of the session; default: no.
    public var isPersistent = false

    /// The name of the session's cookie; default: `__Host-Http-authflow`. Browsers accept a name with `__Host-` only for a cookie that no
    /// other host can set, so with TLS every name begins with it.
    public var cookieName = "__Host-Http-authflow"

    /// The cross-site requests that carry the session cookie: its `SameSite` attribute.
    public enum SameSite: Sendable {
        /// No cross-site request (RFC 10017 section 6.1.3.2: "SHOULD"). A link from another site opens the application without its session; ``SessionServer``
        /// finds it again when such a visit comes to the sign-in route.
        case strict
        /// Top-level navigations, such as links that the user follows. GET requests must then be free of side effects.
        case lax
    }

    /// The cross-site requests that carry the session cookie (`SameSite`); default: ``SameSite/strict``, so no cross-site request does.
    public var sameSite = SameSite.strict

    /// The header field that scripts of the page send with every request (RFC 10017 section 6.1.3.3), with any value; default: `X-AuthFlow`.
    /// Pages of other sites cannot send it without this one's permission (CORS).
    public var headerName = "X-AuthFlow"

    /// The keys for the hashes of users and provider sessions by which the store finds sessions: new sessions are hashed with the first key,
    /// and lookups use all keys. Default, none: a reader of the store can find out whether a user they know has a session.
    ///
    /// Sessions that were created without a key are not found with a key. To rotate a key, add the new key as the last in every process, then make it
    /// the first in every process, and remove the old key after ``lifetime``.
    public var tagKeys: [Secret] = []

    /// Required members that the provider's logout tokens may lack; default: none.
    public var logoutTokens = LogoutTokenOptions()

    /// The application's hooks for the lifecycle of a session; default: none.
    public var hooks = SessionHooks()

    /// The pages that users see during a sign-in.
    public var pages = SessionPages()

    /// Whether plain HTTP on loopback is allowed, for development: the cookies are then neither `Secure` nor protected
    /// from other programs on this machine; default: no.
    public var allowsPlainHTTPOnLoopback = false

    /// Creates options.
    /// - Parameter origin: The origin of the application.
    public init(origin: String) { self.origin = origin }
}
