import AuthFlow
import HTTPTypes
import Synchronization

/// A short address of the loopback port that leads to the provider.
///
/// Everybody on the machine can read the command line of the browser that is opened, so the address in it must be of no use
/// to them: it leads on the first browser that comes, and no other one, which its cookie tells.
final class StartPage: Sendable {
    let path: String

    private struct State {
        var target: String?
        var visitor: Secret?
    }

    private let origin: String
    private let cookie: String
    private let state = Mutex(State())

    /// - Parameter origin: That of the port.
    init(origin: String) {
        let name = Base64URL.encode(HostServices.systemRandomBytes(9))
        self.origin = origin
        self.path = "/start/\(name)"
        // Cookies of one host are those of all its ports (RFC 6265 section 8.5), so each sign-in has a name of its own.
        self.cookie = "authflow-\(name)"
    }

    /// Sets the address that is led to.
    /// - Returns: The short one.
    func lead(to url: String) -> String {
        state.withLock { $0 = State(target: url) }
        return origin + path
    }

    /// Leads a visitor on.
    func response(to request: HTTPRequest) -> TransportResponse {
        guard request.method == .get else { return TransportResponse(head: HTTPResponse(status: .methodNotAllowed)) }
        let token = Base64URL.encode(HostServices.systemRandomBytes(16))
        let brought = request.headerFields[.cookie]?.split(separator: ";").lazy
            .map { $0.drop { $0 == " " } }
            .first { $0.hasPrefix("\(self.cookie)=") }
            .map { Secret(String($0.dropFirst(self.cookie.count + 1))) }
        let target = state.withLock { state -> String? in
            if state.visitor == nil { state.visitor = Secret(token) } else if brought != state.visitor { return nil }
            return state.target
        }
        guard let target else {
            return ResultPage(
                status: .gone,
                title: "Opened already",
                message:
                    "This sign-in was opened in another browser. If that was you, go on there, or open the whole address that the program shows. If not, stop it, and sign in again."
            ).response
        }
        var fields: HTTPFields = [
            .location: target,
            .cacheControl: "no-store",
            ResultPage.referrerPolicy: "no-referrer",
        ]
        if brought == nil { fields[.setCookie] = "\(cookie)=\(token); Path=\(path); HttpOnly; SameSite=Lax" }
        return TransportResponse(head: HTTPResponse(status: .found, headerFields: fields))
    }
}
