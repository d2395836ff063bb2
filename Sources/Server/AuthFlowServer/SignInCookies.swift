import AuthFlow
import AuthFlowEssentials
import Crypto

/// The cookies for a browser's sign-ins in progress, at all providers: one per sign-in, because a user may have
/// several tabs.
///
/// The name is derived from the state, so that a response identifies its cookie. The value begins with the time, so
/// that the oldest cookies can be identified if there are too many.
struct SignInCookies: Sendable {
    let prefix: String
    /// Whether the authorization response is a cross-site POST (`response_mode=form_post`).
    let arePosted: Bool
    let isSecure: Bool
    let lifetime: Duration

    /// The maximum number of cookies per browser.
    private static let limit = 5
    private static let stateBytes = 6

    /// The cookie of a new sign-in.
    func cookie(for state: Secret, at now: Date, random: [UInt8]) -> ResponseCookie {
        cookie(name(for: state), "\(Int(now.timeIntervalSince1970)).\(Base64URL.encode(random))")
    }

    /// The browser must send this cookie with the provider's redirect, which another site initiates. It would not send
    /// a `Strict` cookie, and a form that another site posts requires `None`. Browsers ignore a `None` cookie that is not `Secure` (RFC 6265bis
    /// section 5.7). Chromium and Firefox accept `Secure` cookies over plain HTTP on loopback; Safari may not (WebKit bug 281149).
    private func cookie(_ name: String, _ value: String) -> ResponseCookie {
        ResponseCookie(
            name: name,
            value: value,
            sameSite: arePosted ? .none : .lax,
            isSecure: isSecure || arePosted,
            maximumAge: lifetime
        )
    }

    func removal(of name: String) -> ResponseCookie { cookie(name, "").removal }

    func name(for state: Secret) -> String {
        prefix + Base64URL.encode(SHA256.hash(data: Array(state.exposed.utf8)).prefix(Self.stateBytes))
    }

    /// The cookies of a browser, newest first.
    func all(in cookies: RequestCookies) -> [(name: String, value: String)] {
        func time(_ value: String) -> Int { Int(value.prefix { $0 != "." }) ?? 0 }
        return cookies.named(prefix)
            .filter { Base64URL.decode($0.name.dropFirst(prefix.count))?.count == Self.stateBytes }
            .sorted { time($0.value) > time($1.value) }
    }

    /// The newest cookies of a browser, up to the maximum number of cookies.
    func newest(in cookies: RequestCookies) -> [(name: String, value: String)] {
        Array(all(in: cookies).filter { $0.value.utf8.count >= 43 }.prefix(Self.limit))
    }

    /// Expired cookies that remove the oldest cookies, to make room for a new cookie.
    func surplus(of cookies: RequestCookies) -> [ResponseCookie] {
        all(in: cookies).dropFirst(Self.limit - 1).map { removal(of: $0.name) }
    }
}
