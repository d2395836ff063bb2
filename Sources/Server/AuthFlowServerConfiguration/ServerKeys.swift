import AuthFlowConfiguration
import AuthFlowOAuth
import AuthFlowServer

/// The keys of `server`.
enum ServerKeys {
    static let origin = ConfigurationKey(
        "origin",
        .text,
        "The public origin: scheme, host and port. Default: the origin of the first provider's redirect URI."
    )
    static let providers = ConfigurationKey(
        "providers",
        .list(ProviderEntry.value),
        default: [],
        "The providers at which users sign in. Each element is the name of a profile, which is also the name of the provider in sessions, or an object. Default: the default profile, or the only profile. The store of the first profile is used."
    )
    static let loginPath = path("login_path", "/login", "The path that starts a sign-in.")
    static let logoutPath = path("logout_path", "/logout", "The path that ends the session.")
    static let sessionPath = path(
        "session_path",
        "/session",
        "The path at which a page's scripts request information about the signed-in user."
    )
    static let backChannelLogoutPath = path(
        "backchannel_logout_path",
        "/backchannel-logout",
        "The path to which the provider posts logout tokens. With several providers, it is followed by a slash and the name of the provider."
    )
    static let frontChannelLogoutPath = ConfigurationKey(
        "frontchannel_logout_path",
        .text,
        "The path that the provider loads in a frame when a user signs out at the provider. Anyone who knows a session's sid can use this path to end that session. Default: none."
    )
    static let startPath = path("start_path", "/", "The page to which users return if no other page is specified.")
    static let returnPrefixes = ConfigurationKey(
        "return_prefixes",
        .list(.text),
        "The allowed prefixes of the return path after sign-in. Default: any path in the application."
    )
    static let signInParameters = ConfigurationKey(
        "sign_in_parameters",
        .list(.choice(of: SignInParameter.allCases)),
        default: [],
        "The parameters of the sign-in route that are forwarded to the provider. A page on another site can set them. Default: none."
    )
    static let sessionClaims = ConfigurationKey(
        "session_claims",
        .list(.text),
        default: [],
        "The claims that the session path returns to scripts, in addition to sub and name. Default: none."
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
        "The maximum number of sessions per user. An additional sign-in ends the least recently used session."
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
        "The name of the session cookie. Over TLS it must begin with __Host-; over plain HTTP (allow_plain_http_on_loopback), such a prefix is omitted."
    )
    static let sameSite = ConfigurationKey(
        "same_site",
        ConfigurationValue<SessionServerOptions.SameSite>.named(["strict": .strict, "lax": .lax]),
        default: .strict,
        "The cross-site requests that carry the session cookie: none (strict), or top-level navigations, such as links that the user follows (lax)."
    )
    static let headerName = ConfigurationKey(
        "header_name",
        .text,
        default: "X-AuthFlow",
        "The header field that the application's scripts must send with every request."
    )
    static let tagKeys = ConfigurationKey(
        "tag_keys",
        .list(.secret),
        default: [],
        "The HMAC keys for the hashes that index the sessions of a user in the store, each by reference: new sessions use the first key, and lookups use all keys. Global sign-outs and provider-initiated logouts do not find sessions whose key is not listed. Default: none."
    )
    static let applicationName = ConfigurationKey(
        "application_name",
        .text,
        default: "",
        "The name of the application on the sign-in pages; empty for none."
    )
    static let requiresLogoutTokenType = ConfigurationKey(
        "requires_logout_token_type",
        .flag,
        default: false,
        "Whether logout tokens must have the type logout+jwt. Many providers send the type JWT or no type."
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

/// An element of `providers`.
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
    /// The options in a `server` section.
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
            maximumAgeWithoutExpiry: try object[ServerKeys.logoutTokenAge]
        )
        allowsPlainHTTPOnLoopback = try object[ServerKeys.allowsPlainHTTP]
    }
}
