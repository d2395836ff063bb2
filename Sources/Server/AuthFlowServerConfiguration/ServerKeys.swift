import AuthFlowConfiguration
import AuthFlowHTTP
import AuthFlowOAuth
import AuthFlowServer

/// The keys of `server`.
enum ServerKeys {
    static let origin = ConfigurationKey(
        "origin",
        .text,
        "The origin that browsers see: scheme, host and port. Default: the origin of the first provider's redirect URI."
    )
    static let providers = ConfigurationKey(
        "providers",
        .list(ProviderEntry.value),
        default: [],
        "The providers that users sign in with, and their names in sessions: the profile of each, or an object. Default: the default profile, or the only one. The first profile's store is used."
    )
    static let loginPath = path("login_path", "/login", "The path that starts a sign-in.")
    static let logoutPath = path("logout_path", "/logout", "The path that ends the session.")
    static let sessionPath = path(
        "session_path",
        "/session",
        "The path that returns the signed-in user to the page's scripts."
    )
    static let backChannelLogoutPath = path(
        "backchannel_logout_path",
        "/backchannel-logout",
        "The path that the provider posts logout tokens to; with several providers, followed by a slash and the name of each."
    )
    static let frontChannelLogoutPath = ConfigurationKey(
        "frontchannel_logout_path",
        .text,
        "The path that the provider loads in a frame when a user signs out there. A client that knows a sid can end that session with it. Default: none."
    )
    static let startPath = path("start_path", "/", "The page that users are sent to by default.")
    static let returnPrefixes = ConfigurationKey(
        "return_prefixes",
        .list(.text),
        "The allowed prefixes of the path to return to. Default: any path of the application."
    )
    static let signInParameters = ConfigurationKey(
        "sign_in_parameters",
        .list(.choice(of: SignInParameter.allCases)),
        default: [],
        "The sign-in route's parameters that are sent to the provider. A page of another site can set them. Default: none."
    )
    static let sessionClaims = ConfigurationKey(
        "session_claims",
        .list(.text),
        default: [],
        "The claims that the session path returns to scripts, besides sub and name. Default: none."
    )
    static let idleTime = ConfigurationKey(
        "idle_time",
        .seconds(60...31_536_000),
        default: .seconds(3600),
        "The idle timeout of a session, in seconds."
    )
    static let lifetime = ConfigurationKey(
        "lifetime",
        .seconds(60...31_536_000),
        default: .seconds(43_200),
        "The maximum lifetime of a session, in seconds."
    )
    static let sessionsPerUser = ConfigurationKey(
        "sessions_per_user",
        .number(1...10_000),
        default: 100,
        "The maximum number of sessions of a user. A further sign-in ends the least recently used one."
    )
    static let isPersistent = ConfigurationKey(
        "persistent",
        .flag,
        default: false,
        "Whether the cookie persists after the browser is closed."
    )
    static let cookieName = ConfigurationKey(
        "cookie_name",
        .text,
        default: "__Host-Http-authflow",
        "The name of the session cookie. Over TLS it must begin with __Host-."
    )
    static let sameSite = ConfigurationKey(
        "same_site",
        ConfigurationValue<SessionServerOptions.SameSite>.named(["strict": .strict, "lax": .lax]),
        default: .strict,
        "The cross-site requests that contain the session cookie: none (strict), or links that the user follows (lax)."
    )
    static let headerName = ConfigurationKey(
        "header_name",
        .text,
        default: "X-AuthFlow",
        "The header field that scripts of the page send with every request."
    )
    static let tagKeys = ConfigurationKey(
        "tag_keys",
        .list(.secret),
        default: [],
        "The keys of the hashes that index the sessions of a user in the store, each by reference: the first is for new sessions, lookups use all. Global sign-outs and the provider's logouts do not find sessions of an unlisted key. Default: none."
    )
    static let applicationName = ConfigurationKey(
        "application_name",
        .text,
        default: "",
        "The name of the application on the pages of a sign-in; empty for none."
    )
    static let requiresLogoutTokenType = ConfigurationKey(
        "requires_logout_token_type",
        .flag,
        default: false,
        "Whether logout tokens must have the type logout+jwt. Many providers send JWT or none."
    )
    static let logoutTokenAge = ConfigurationKey(
        "logout_token_age",
        .seconds(10...3600),
        "The maximum age of a logout token without exp, in seconds. Default: such a token is rejected."
    )
    static let allowsPlainHTTP = ConfigurationKey(
        "allow_plain_http_on_loopback",
        .flag,
        default: false,
        "Whether the application may be served over plain HTTP on loopback, for testing."
    )

    static let all: [any AnyConfigurationKey] = [
        origin, providers, loginPath, logoutPath, sessionPath, backChannelLogoutPath, frontChannelLogoutPath, startPath,
        returnPrefixes, signInParameters, sessionClaims, idleTime, lifetime, sessionsPerUser, isPersistent, cookieName,
        sameSite, headerName, tagKeys, applicationName, requiresLogoutTokenType, logoutTokenAge, allowsPlainHTTP,
    ]

    private static func path(_ name: String, _ fallback: String, _ summary: String) -> ConfigurationKey<String> {
        ConfigurationKey(name, .text, default: fallback, summary)
    }
}

/// One of the `providers`.
struct ProviderEntry: Sendable {
    let profile: String
    let name: String
    let displayName: String?

    private static let profileKey = ConfigurationKey("profile", required: .text, "The profile.")
    private static let nameKey = ConfigurationKey(
        "name",
        .text,
        "The name in sessions and URLs: 1 to 32 characters from a-z, 0-9 and -. Default: the profile's name."
    )
    private static let displayNameKey = ConfigurationKey(
        "display_name",
        .text,
        "The name that users see. Default: the host of the issuer."
    )

    static let value = ConfigurationValue<ProviderEntry>.either(
        ConfigurationValue<String>.text.map { name throws(AuthError) in
            ProviderEntry(profile: name, name: name, displayName: nil)
        },
        .object([profileKey, nameKey, displayNameKey]) { object throws(ConfigurationError) in
            let profile = try object[profileKey]
            return ProviderEntry(
                profile: profile,
                name: try object[nameKey] ?? profile,
                displayName: try object[displayNameKey]
            )
        }
    )
}

extension SessionServerOptions {
    /// The options that a section `server` describes.
    init(_ object: ConfigurationObject, origin: String) throws(ConfigurationError) {
        self.init(origin: origin)
        loginPath = try object[ServerKeys.loginPath]
        logoutPath = try object[ServerKeys.logoutPath]
        sessionPath = try object[ServerKeys.sessionPath]
        backChannelLogoutPath = try object[ServerKeys.backChannelLogoutPath]
        frontChannelLogoutPath = try object[ServerKeys.frontChannelLogoutPath]
        startPath = try object[ServerKeys.startPath]
        returnPrefixes = try object[ServerKeys.returnPrefixes]
        signInParameters = Set(try object[ServerKeys.signInParameters])
        sessionClaims = try object[ServerKeys.sessionClaims]
        idleTime = try object[ServerKeys.idleTime]
        lifetime = try object[ServerKeys.lifetime]
        sessionsPerUser = try object[ServerKeys.sessionsPerUser]
        isPersistent = try object[ServerKeys.isPersistent]
        cookieName = try object[ServerKeys.cookieName]
        sameSite = try object[ServerKeys.sameSite]
        headerName = try object[ServerKeys.headerName]
        tagKeys = try object[ServerKeys.tagKeys]
        pages.applicationName = try object[ServerKeys.applicationName]
        logoutTokens = LogoutTokenOptions(
            requiresType: try object[ServerKeys.requiresLogoutTokenType],
            ageWithoutExpiry: try object[ServerKeys.logoutTokenAge]
        )
        allowsPlainHTTPOnLoopback = try object[ServerKeys.allowsPlainHTTP]
    }
}
