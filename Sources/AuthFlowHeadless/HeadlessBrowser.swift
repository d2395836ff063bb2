public import AuthFlow
import Foundation
import HTTPTypes

/// The part of a browser that a sign-in without a window needs: cookies and redirects, within bounds.
public actor HeadlessBrowser {
    /// The most redirects in a row.
    private static let maximumRedirects = 20

    private let transport: any HTTPTransport
    private let now: @Sendable () -> Date
    private let reporter: FlowReporter
    private let sharedCookies: SharedCookies?
    private var jar: CookieJar
    private var hasTypedCredentials = false

    init(
        transport: any HTTPTransport,
        now: @escaping @Sendable () -> Date,
        reporter: FlowReporter,
        sharedCookies: SharedCookies? = nil,
        cookies: [Cookie] = []
    ) {
        self.sharedCookies = sharedCookies
        self.jar = CookieJar(cookies)
        self.transport = transport
        self.now = now
        self.reporter = reporter
    }

    /// Sends one request with the cookies that belong to it, and keeps those that come back. Follows no redirect.
    /// - Throws: What ``AuthFlow/HTTPTransport/send(_:)`` throws.
    public func send(_ call: HTTPCall) async throws -> HTTPReply {
        let endpoint = try Endpoint(call.url)
        var call = call
        let cookies = jar.field(for: endpoint, now: now()) { sharedCookies?.mayGo($0, to: endpoint) ?? true }
        if let cookies { call.request.headerFields[.cookie] = cookies }
        let reply = try await transport.send(call)
        for field in reply.response.headerFields[fields: .setCookie] {
            jar.store(field.value, from: endpoint, now: now())
        }
        return reply
    }

    /// Publishes what a driver does on its way.
    /// - Parameter details: By name. Never secret.
    public func report(_ details: [String: String]) { reporter.report(.pageVisit, details: details) }

    /// The cookies of the visit so far.
    var cookies: [Cookie] { jar.cookies }

    /// Where a visit ended.
    enum Arrival: Sendable {
        /// At a page.
        case page(HeadlessPage)
        /// At the redirect URI, which is not requested.
        case redirect(String)
    }

    /// Goes somewhere and follows redirects until there is a page, or the redirect URI is reached.
    func go(_ navigation: HeadlessNavigation, until redirectURI: String) async throws -> Arrival {
        if navigation.typesCredentials { hasTypedCredentials = true }
        // A driver that was told where the visit ends goes there itself.
        if navigation.form == nil, Self.isAnswer(navigation.endpoint.url, redirectURI) {
            return .redirect(navigation.endpoint.url)
        }
        var endpoint = navigation.endpoint
        var form = navigation.form
        for _ in 0...Self.maximumRedirects {
            try Task.checkCancellation()
            let reply = try await send(call(endpoint, form))
            reporter.report(.pageVisit, details: ["url": endpoint.description, "status": "\(reply.status)"])
            guard (300..<400).contains(reply.status), let location = reply.response.headerFields[.location] else {
                return .page(HeadlessPage(endpoint: endpoint, reply: reply, hasTypedCredentials: hasTypedCredentials))
            }
            if Self.isAnswer(location, redirectURI) { return .redirect(location) }
            let next = try Self.resolve(location, against: endpoint)
            if Self.isAnswer(next, redirectURI) { return .redirect(next) }
            let target = try Endpoint(String(next.prefix { $0 != "#" }), name: "redirect")
            // RFC 9110 section 15.4: 307 and 308 repeat the request as it was. What was typed into one site must not be
            // repeated to another.
            if reply.status == 307 || reply.status == 308 {
                guard form == nil || target.origin == endpoint.origin else {
                    throw AuthError(
                        .userAgentFailed,
                        "\(endpoint) passes what was typed on to \(target.origin), which was refused."
                    )
                }
            } else {
                form = nil
            }
            endpoint = target
        }
        throw AuthError(
            .userAgentFailed,
            "The sign-in was redirected more than \(Self.maximumRedirects) times in a row."
        )
    }

    private func call(_ endpoint: Endpoint, _ form: FormParameters?) -> HTTPCall {
        var fields: HTTPFields = [.accept: "text/html, application/xhtml+xml, */*;q=0.5"]
        guard let form else { return HTTPCall(.get, endpoint, headerFields: fields) }
        fields[.contentType] = "application/x-www-form-urlencoded"
        fields[HTTPField.Name("Origin") ?? .accept] = endpoint.origin
        return HTTPCall(.post, endpoint, headerFields: fields, body: Array(FormURLEncoding.encodeForm(form).utf8))
    }

    /// Whether an address is the redirect URI with an answer.
    private static func isAnswer(_ url: String, _ redirectURI: String) -> Bool {
        url == redirectURI || url.hasPrefix("\(redirectURI)?") || url.hasPrefix("\(redirectURI)#")
            || redirectURI.contains("?") && url.hasPrefix("\(redirectURI)&")
    }

    /// An address as a page or a redirect of `base` names it (RFC 3986 section 5).
    static func resolve(_ reference: String, against base: Endpoint) throws -> String {
        guard let url = URL(string: reference, relativeTo: URL(string: base.url)) else {
            throw AuthError(.userAgentFailed, "\(base) leads to something that is not an address.")
        }
        return url.absoluteURL.absoluteString
    }
}
