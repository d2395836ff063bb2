package import AuthFlow
import AuthFlowSimulation

/// A browser in a ``ServerHistory``: its cookies, and its user's session at the provider.
package final class Browser: @unchecked Sendable {  // All jobs of a simulation run on one thread.
    package static let origin = "https://app.example"

    package let name: String
    package private(set) var cookies: [String: String] = [:]
    /// The session at the provider.
    var userSession: Int?
    /// The number of sign-ins that have begun, and of those that are in progress.
    var signIns = (begun: 0, inProgress: 0)

    package init(name: String) { self.name = name }

    /// The value of the application's session cookie.
    package var session: String? { cookies[SessionServerCookie.name] }

    /// A request with the browser's current cookies.
    package func request(_ method: HTTPRequest.Method, _ path: String) -> HTTPRequest {
        var request = HTTPRequest(method: method, scheme: "https", authority: "app.example", path: path)
        let pairs = cookies.sorted { $0.key < $1.key }.map { "\($0.key)=\($0.value)" }
        if !pairs.isEmpty { request.headerFields[.cookie] = pairs.joined(separator: "; ") }
        if method == .post { request.headerFields[.origin] = Self.origin }
        return request
    }

    /// Stores the cookies of a response.
    package func receive(_ response: TransportResponse) {
        for field in response.head.headerFields[values: .setCookie] {
            let parts = field.split(separator: ";")
            guard let pair = parts.first, let equals = pair.firstIndex(of: "=") else { continue }
            let name = String(pair[..<equals])
            let isRemoval = parts.contains { $0.drop { $0 == " " } == "Max-Age=0" }
            cookies[name] = isRemoval ? nil : String(pair[pair.index(after: equals)...])
        }
    }
}

/// The session cookie of the application.
enum SessionServerCookie {
    static let name = "__Host-Http-authflow"

    /// The value of the session cookie that a response sets; nil when it sets none.
    static func session(in response: TransportResponse) -> String? {
        response.head.headerFields[values: .setCookie].first { $0.hasPrefix("\(name)=") && !$0.contains("Max-Age=0") }
            .map { String($0.dropFirst(name.count + 1).prefix { $0 != ";" }) }
    }
}
