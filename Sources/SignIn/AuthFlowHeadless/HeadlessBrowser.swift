public import AuthFlow
import AuthFlowEssentials

/// The subset of a browser that a headless sign-in needs: cookies and redirects, within limits.
public actor HeadlessBrowser {
    /// The maximum number of consecutive redirects.
    private static let maximumRedirects = 20

    private let transport: any HTTPTransport
    private let now: @Sendable () -> Date
    private let reporter: FlowReporter
    private let sharedCookies: SharedCookies?
    private var jar: CookieJar
    private var hasTypedCredentials = false
    /// The origins to which the user name has been sent.
    private var userNameOrigins: Set<String> = []
    /// The secrets that have been entered.
    private var secrets: [Secret] = []
    private let purpose: RedirectOptions.Purpose
    /// The current page of the visit.
    private var page: Endpoint?
    /// The network reach of the connection that fetched the page; nil when unknown.
    private var pageReach: NetworkReach?

    init(
        purpose: RedirectOptions.Purpose = .signIn,
        transport: any HTTPTransport,
        now: @escaping @Sendable () -> Date,
        reporter: FlowReporter,
        sharedCookies: SharedCookies? = nil,
        cookies: [Cookie] = []
    ) {
        self.purpose = purpose
        self.sharedCookies = sharedCookies
        self.jar = CookieJar(cookies)
        self.transport = transport
        self.now = now
        self.reporter = reporter
    }

    /// Sends one request with the matching cookies, and stores the cookies of the response. Redirects are not followed.
    /// - Parameters:
    ///   - call: The request.
    ///   - secrets: The secrets that this request and earlier requests contain, which are redacted in JSON and
    ///     error responses; default: none.
    /// - Throws: The same errors as ``/AuthFlow/HTTPTransport/send(_:)``.
    public func send(_ call: TransportRequest, redacting secrets: [Secret] = []) async throws -> TransportResponse {
        self.secrets += secrets.filter { !self.secrets.contains($0) }
        return try await send(call, RequestContext(initiator: page, isTopLevelGET: false)).redacting(secrets)
    }

    private func send(_ call: TransportRequest, _ context: RequestContext) async throws -> TransportResponse {
        let endpoint = try Endpoint(call.url)
        var call = call
        let cookies = jar.field(for: endpoint, now: now()) {
            context.allows($0, to: endpoint) && sharedCookies?.maySend($0, to: endpoint) != false
        }
        if let cookies { call.head.headerFields[.cookie] = cookies }
        let response = try await transport.send(call)
        for field in response.head.headerFields[fields: .setCookie] {
            jar.store(field.value, from: endpoint, now: now())
        }
        return response
    }

    /// Publishes an event about a driver's action.
    /// - Parameter details: The details by name. They must not contain secrets.
    public func report(_ details: [String: String]) { reporter.report(.pageLoad, details: details) }

    /// Stores a cookie that an API has returned in its response body instead of in a `Set-Cookie` field.
    /// - Parameters:
    ///   - field: The cookie, in the syntax of `Set-Cookie`.
    ///   - endpoint: The API.
    public func setCookie(_ field: String, from endpoint: Endpoint) { jar.store(field, from: endpoint, now: now()) }

    /// Whether any cookie would be sent with a request.
    public func hasCookies(for endpoint: Endpoint) -> Bool { jar.field(for: endpoint, now: now()) != nil }

    /// Whether a cookie with this name would be sent with a request.
    public func hasCookie(named name: String, for endpoint: Endpoint) -> Bool {
        jar.field(for: endpoint, now: now()) { $0.name == name } != nil
    }

    /// The current cookies of the visit, including shared cookies.
    var cookies: [Cookie] { jar.cookies }

    /// The destination of a navigation.
    enum Destination: Sendable {
        /// A page.
        case page(HeadlessPage)
        /// The redirect URI, to which no request is sent.
        case redirect(String)
    }

    /// Navigates, and follows redirects until it reaches a page or, if there is one, the redirect URI.
    func navigate(_ navigation: HeadlessNavigation, until redirectURI: String?) async throws -> Destination {
        if navigation.typesCredentials { hasTypedCredentials = true }
        if navigation.typesUserName { userNameOrigins.insert(navigation.endpoint.origin) }
        secrets += navigation.secrets
        // A driver that already has the redirect URL navigates directly to it.
        if navigation.form == nil, Self.isAnswer(navigation.endpoint.url, redirectURI) {
            return .redirect(navigation.endpoint.url)
        }
        var endpoint = navigation.endpoint
        var form = navigation.form
        // A page from a public server must not cause requests to services on loopback or on a private network.
        if let page {
            try Self.require(page.mayReferTo(endpoint), endpoint, from: page)
            endpoint.limitReach(to: pageReach, unlessAt: page)
        }
        for _ in 0...Self.maximumRedirects {
            try Task.checkCancellation()
            let context = RequestContext(initiator: page, isTopLevelGET: form == nil)
            let response = try await send(call(endpoint, form), context)
            reporter.report(.pageLoad, details: ["url": endpoint.description, "status": "\(response.status)"])
            guard (300..<400).contains(response.status), let location = response.head.headerFields[.location] else {
                page = endpoint
                pageReach = response.reach
                return .page(
                    HeadlessPage(
                        endpoint: endpoint,
                        response: response,
                        hasTypedCredentials: hasTypedCredentials,
                        purpose: purpose,
                        hasTypedUserName: userNameOrigins.contains(endpoint.origin),
                        secrets: secrets
                    )
                )
            }
            if Self.isAnswer(location, redirectURI) { return .redirect(location) }
            let next = try Self.resolve(location, against: endpoint)
            if Self.isAnswer(next, redirectURI) { return .redirect(next) }
            var target = try Self.endpoint(next, name: "redirect")
            try Self.require(endpoint.mayReferTo(target), target, from: endpoint)
            target.limitReach(to: response.reach, unlessAt: endpoint)
            // RFC 9110 section 15.4: 307 and 308 repeat the request unchanged. Data entered at one site must not be
            // sent to another.
            if response.status == 307 || response.status == 308 {
                guard form == nil || target.origin == endpoint.origin else {
                    throw AuthError(
                        .userAgentFailed,
                        "\(endpoint) redirects the submitted form to \(target.origin). The form was not sent to that origin."
                    )
                }
            } else {
                form = nil
            }
            endpoint = target
        }
        throw AuthError(
            .userAgentFailed,
            "The browser was redirected more than \(Self.maximumRedirects) times in a row."
        )
    }

    /// The redirect without the secrets that were entered, which a server may repeat in the error parameters.
    func redacted(_ redirect: String) -> String {
        let parts = redirect.split(separator: "&", omittingEmptySubsequences: false).map { part -> String in
            let marks = ["error=", "error_description=", "error_uri=", "error_code=", "error_message="]
            guard let start = marks.compactMap({ part.firstRange(of: $0)?.upperBound }).min() else {
                return String(part)
            }
            var value = "\(part[start...])"
            // A plus sign is a space, or part of a secret that the server did not encode. The server may have encoded nothing.
            let decoders: [(String) -> String] = [
                { FormURLEncoding.displayed($0) }, { FormURLEncoding.displayed($0, plusIsSpace: false) }, { $0 },
            ]
            for decoder in decoders {
                let text = decoder(value)
                let clean = secrets.redacted(in: text)
                if clean != text { value = FormURLEncoding.encode(clean) }
            }
            return "\(part[..<start])\(value)"
        }
        return parts.joined(separator: "&")
    }

    private func call(_ endpoint: Endpoint, _ form: FormParameters?) -> TransportRequest {
        var fields: HTTPFields = [.accept: "text/html, application/xhtml+xml, */*;q=0.5"]
        guard let form else { return TransportRequest(.get, endpoint, headerFields: fields) }
        fields[.contentType] = "application/x-www-form-urlencoded"
        // The Fetch Standard, "append a request Origin header": the origin of the page that contains the form.
        fields[HTTPField.Name(known: "Origin")] = page?.origin ?? "null"
        return TransportRequest(
            .post,
            endpoint,
            headerFields: fields,
            body: Array(FormURLEncoding.encodeForm(form).utf8)
        )
    }

    private static func require(_ isAllowed: Bool, _ target: Endpoint, from source: Endpoint) throws(AuthError) {
        guard isAllowed else {
            throw AuthError(
                .userAgentFailed,
                "\(source) leads to \(target.origin), which it must not refer to: the address is more local than its own, or the connection would no longer be encrypted."
            )
        }
    }

    /// Whether a URL is the redirect URI with parameters.
    private static func isAnswer(_ url: String, _ redirectURI: String?) -> Bool {
        guard let redirectURI else { return false }
        // A URI contains only ASCII characters; in other text, a character that looks like a separator is not
        // necessarily a separator.
        guard url.utf8.allSatisfy({ $0 < 0x80 }) else { return false }
        let (target, uri) = (RedirectResponse.normalized(url), RedirectResponse.normalized(redirectURI))
        return target == uri || target.hasPrefix("\(uri)?") || target.hasPrefix("\(uri)#")
            || uri.contains("?") && target.hasPrefix("\(uri)&")
    }

    /// The URL that a page or a redirect refers to, without its fragment.
    /// - Throws: ``/AuthFlow/AuthError`` with `user_agent_failed` when the URL cannot be visited.
    static func endpoint(_ url: String, name: String) throws(AuthError) -> Endpoint {
        try AuthError.recoded(.userAgentFailed) { () throws(AuthError) in
            try Endpoint(String(url.prefix { $0 != "#" }), name: name)
        }
    }

    /// Resolves a reference in the page at `base`, or in its redirect (RFC 3986 section 5).
    package static func resolve(_ reference: String, against base: Endpoint) throws -> String {
        // The URL Standard, "basic URL parser": leading and trailing spaces and control characters are removed, as are tabs and line breaks anywhere.
        let removed: Set<Unicode.Scalar> = ["\t", "\r", "\n"]
        var scalars = reference.unicodeScalars.filter { !removed.contains($0) }.drop { $0 <= " " }
        while let last = scalars.last, last <= " " { scalars.removeLast() }
        let trimmed = String(String.UnicodeScalarView(scalars))
        guard
            let url = URL(
                string: URLReference.percentEncoded(trimmed),
                relativeTo: URL(string: URLReference.percentEncoded(base.url))
            )
        else { throw AuthError(.userAgentFailed, "\(base) leads to an invalid URL.") }
        return url.absoluteURL.absoluteString
    }
}
