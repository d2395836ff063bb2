public import AuthFlow

/// The options of a ``SessionServer``.
public struct SessionServerOptions: Sendable {
    /// The origin of the application: scheme, host and port, such as `https://app.example.com`.
    public var origin: String

    /// The path that starts a sign-in; default: `/login`.
    public var loginPath = "/login"

    /// The path that ends the session; default: `/logout`.
    public var logoutPath = "/logout"

    /// The path at which a page's scripts request information about the signed-in user; default: `/session`.
    public var sessionPath = "/session"

    /// The path to which the provider posts logout tokens; default: `/backchannel-logout`. Register its URL as
    /// `backchannel_logout_uri`. If there are several providers, each has a separate path: `/backchannel-logout/NAME`.
    public var backChannelLogoutPath = "/backchannel-logout"

    /// The path of a page that the provider loads in a frame when a user signs out at the provider (OpenID Connect
    /// Front-Channel Logout 1.0); default: nil, none. Register its URL as `frontchannel_logout_uri` with
    /// `frontchannel_logout_session_required`.
    ///
    /// Browsers do not send the session cookie with this request, so the session is looked up by the request's
    /// unauthenticated `iss` and `sid`: any client that knows a `sid` can end that session. Use back-channel logout if
    /// the provider supports it.
    public var frontChannelLogoutPath: String?

    /// The page to which users return if no other page is specified; default: `/`.
    public var startPath = "/"

    /// The allowed prefixes of the return path after sign-in; default: nil, any path in the application.
    public var returnPrefixes: [String]?

    /// The parameters of the sign-in route to forward to the provider; default: none, because a page on another site
    /// can send the browser to that route with any value of these parameters.
    public var signInParameters: Set<SignInParameter> = []

    /// The claims about the user that the session route returns in addition to `sub` and `name`; default: none.
    public var sessionClaims: [String] = []

    /// The idle timeout of a session; default: one hour.
    public var idleTime = Duration.seconds(3600)

    /// The maximum lifetime of a session; default: 12 hours. The session at the provider may end earlier.
    public var lifetime = Duration.seconds(12 * 3600)

    /// The maximum number of sessions per user, at least 1; default: 100. A sign-in that exceeds it ends the least
    /// recently used session.
    public var sessionsPerUser = 100

    /// Whether the cookie persists when the browser is closed, for the lifetime of the session; default: no.
    public var isPersistent = false

    /// The name of the session cookie; default: `__Host-Http-authflow`. Over TLS, the name must begin with `__Host-`, because
    /// browsers accept this prefix only for a cookie that no other host can set.
    public var cookieName = "__Host-Http-authflow"

    /// The `SameSite` attribute of the session cookie, which determines the cross-site requests that include it.
    public enum SameSite: Sendable {
        /// No cross-site request (RFC 10017 section 6.1.3.2: "SHOULD"). A link from another site opens the application
        /// without its session; ``SessionServer`` recovers the session if such a visit reaches the sign-in route.
        case strict
        /// Top-level navigations, such as links that the user follows. GET requests must then be free of side effects.
        case lax
    }

    /// The cross-site requests that carry the session cookie (`SameSite`); default: ``SameSite/strict``, no cross-site
    /// requests.
    public var sameSite = SameSite.strict

    /// The header field that the application's scripts must send with every request, with any value (RFC 10017 section
    /// 6.1.3.3); default: `X-AuthFlow`. Pages on other sites cannot send it without this site's permission (CORS).
    public var headerName = "X-AuthFlow"

    /// The HMAC keys for the hashes of users and provider sessions that index sessions in the store: new sessions use the
    /// first key, and lookups use all keys. Default: none; any reader of the store can then determine whether a
    /// known user has a session.
    ///
    /// Sessions that were created without a key cannot be found with a key. To rotate keys, append the new key in every
    /// process, then move it to the front in every process, and remove the old key after ``lifetime`` or one day, whichever
    /// is longer: the records that detect replayed logout tokens are indexed with the keys, too.
    public var tagKeys: [Secret] = []

    /// The relaxed requirements for the provider's logout tokens; default: none.
    public var logoutTokens = LogoutTokenOptions()

    /// The application's hooks into the lifecycle of a session; default: none.
    public var hooks = SessionHooks()

    /// The pages that users see during a sign-in.
    public var pages = SessionPages()

    /// Whether plain HTTP on loopback is allowed, for development; default: no. If so, the session cookie is neither `Secure`
    /// nor protected from other programs on this machine.
    public var allowsPlainHTTPOnLoopback = false

    /// Creates options.
    /// - Parameter origin: The origin of the application.
    public init(origin: String) { self.origin = origin }
}
