package import AuthFlow
package import AuthFlowEssentials

/// The cookies of one visit, according to RFC 6265.
///
/// On Linux, Foundation's cookie storage accepts foreign domains, ignores `Max-Age`, and sends cookies to hosts that
/// they do not belong to, so AuthFlow uses its own cookie jar on every system.
package struct CookieJar: Sendable {
    /// The maximum number of cookies; the oldest are evicted first. Section 6.1 recommends at least 3000, but a sign-in
    /// needs only a few.
    private static let capacity = 300

    /// The cookies, oldest first.
    package private(set) var cookies: [Cookie] = []

    /// Creates an empty jar.
    package init() {}

    /// Creates a jar with cookies from an earlier visit.
    init(_ cookies: [Cookie]) { self.cookies = cookies }

    /// Stores the cookie of a `Set-Cookie` field that an endpoint sent (section 5.3).
    package mutating func store(_ field: String, from endpoint: Endpoint, now: Date) {
        guard let cookie = Cookie(field, from: endpoint, now: now) else { return }
        let old = cookies.firstIndex { $0.name == cookie.name && $0.domain == cookie.domain && $0.path == cookie.path }
        if let end = cookie.expiresAt, end <= now {
            if let old { cookies.remove(at: old) }
            return
        }
        // Section 5.3, step 11.3: a replaced cookie keeps its creation time, which determines its place in the `Cookie` field.
        if let old {
            cookies[old] = cookie
            return
        }
        cookies.append(cookie)
        if cookies.count > Self.capacity { cookies.removeFirst() }
    }

    /// The `Cookie` field for a request (section 5.4): longer paths first, then older cookies; nil when no cookie matches.
    /// - Parameters:
    ///   - endpoint: The endpoint of the request.
    ///   - now: The current time.
    ///   - isAllowed: Returns whether a matching cookie may be sent.
    package func field(
        for endpoint: Endpoint,
        now: Date,
        where isAllowed: (Cookie) -> Bool = { _ in true }
    ) -> String? {
        let matching = cookies.enumerated().filter { _, cookie in
            cookie.matches(endpoint) && isAllowed(cookie) && cookie.expiresAt.map { $0 > now } != false
        }
        guard !matching.isEmpty else { return nil }
        let sorted = matching.sorted { ($1.element.path.count, $0.offset) < ($0.element.path.count, $1.offset) }
        return sorted.map { "\($0.element.name)=\($0.element.value.exposed)" }.joined(separator: "; ")
    }
}
