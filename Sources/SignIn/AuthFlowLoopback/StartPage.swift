import AuthFlow
import Synchronization

/// A short loopback URL that redirects to the provider.
///
/// Every user of the machine can read the command line of the browser, so the URL in it must be useless
/// to other users: it redirects only the first browser that opens it, which is identified by a cookie.
final class StartPage: Sendable {
    let path: String

    private struct State {
        var target: String?
        var visitor: Secret?
    }

    private let origin: String
    private let cookie: String
    private let state = Mutex(State())

    private let appearance: LoopbackUserAgent.Appearance

    /// - Parameter origin: The origin of the loopback server.
    init(origin: String, appearance: LoopbackUserAgent.Appearance) {
        self.appearance = appearance
        let name = Base64URL.encode(HostServices.systemRandomBytes(9))
        self.origin = origin
        self.path = "/start/\(name)"
        // All ports of a host share its cookies (RFC 6265 section 8.5), so each sign-in has its own cookie name.
        self.cookie = "authflow-\(name)"
    }

    /// Sets the URL to redirect to.
    /// - Returns: The short URL.
    func redirect(to url: String) -> String {
        state.withLock { $0 = State(target: url) }
        return origin + path
    }

    /// Redirects a visitor.
    func response(to request: HTTPRequest) -> TransportResponse {
        guard request.method == .get else { return TransportResponse(head: HTTPResponse(status: .methodNotAllowed)) }
        let token = Base64URL.encode(HostServices.systemRandomBytes(16))
        let presented = request.headerFields[.cookie]?.split(separator: ";").lazy
            .map { $0.drop { $0 == " " } }
            .first { $0.hasPrefix("\(self.cookie)=") }
            .map { Secret(String($0.dropFirst(self.cookie.count + 1))) }
        let target = state.withLock { state -> String? in
            if state.visitor == nil { state.visitor = Secret(token) } else if presented != state.visitor { return nil }
            return state.target
        }
        guard let target else {
            return appearance.page(
                .gone,
                "Already opened",
                "This page was already opened in another browser, so the request was stopped. Go back to \(appearance.program), and try again."
            )
        }
        var fields: HTTPFields = [
            .location: target,
            .cacheControl: "no-store",
            StatusPage.referrerPolicy: "no-referrer",
        ]
        if presented == nil { fields[.setCookie] = "\(cookie)=\(token); Path=\(path); HttpOnly; SameSite=Lax" }
        return TransportResponse(head: HTTPResponse(status: .found, headerFields: fields))
    }
}
