package import AuthFlow
package import AuthFlowEssentials

/// A cookie as a browser stores it (RFC 6265 section 5.3).
package struct Cookie: Sendable, Hashable {
    /// The name.
    package let name: String
    /// The value. For a signed-in session, the value is a bearer credential.
    package let value: Secret
    /// The host or domain that the cookie belongs to, in lower case.
    package let domain: String
    /// Whether this is a host-only cookie, which is not sent to subdomains.
    package let isHostOnly: Bool
    /// The path.
    package let path: String
    /// Whether the cookie is sent only over `https`, or to loopback.
    package let isSecure: Bool
    /// The expiry; nil for a session cookie.
    package let expiresAt: Date?
    /// The origin that set the cookie.
    package let origin: String
    /// The `SameSite` attribute, which restricts the cross-site requests that include the cookie.
    package let sameSite: SameSite

    /// `SameSite` (RFC 6265bis section 5.6.7).
    package enum SameSite: String, Sendable, Hashable {
        /// Not sent with cross-site requests.
        case strict
        /// Sent with cross-site requests only if they are top-level navigations with the method GET. The default.
        case lax
        /// Sent with all requests.
        case none
    }
}

extension Cookie {
    /// Parses a `Set-Cookie` field (RFC 6265 section 5.2) from an endpoint's response.
    /// - Returns: The cookie; nil when it must be ignored, because it is malformed, breaks a rule for secure cookies, or the endpoint
    ///   must not set cookies
    ///   for its domain.
    init?(_ field: String, from endpoint: Endpoint, now: Date) {
        let parts = field.unicodeScalars.split(separator: ";", omittingEmptySubsequences: false)
        guard let pair = parts.first, let equals = pair.firstIndex(of: "=") else { return nil }
        let name = Self.trimmed(pair[..<equals])
        guard !name.isEmpty,
            !field.unicodeScalars.contains(where: { $0.value < 0x20 && $0.value != 9 || $0.value == 0x7F })
        else { return nil }

        var domain: String?
        var path: String?
        var expiry: Date?
        var maximumAge: Double?
        var isSecure = false
        var sameSite = SameSite.lax
        for attribute in parts.dropFirst() {
            let halves = attribute.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            let value = halves.count > 1 ? Self.trimmed(halves[1]) : ""
            switch Self.trimmed(halves[0]).lowercased() {
            case "domain" where !value.isEmpty:
                domain = (value.hasPrefix(".") ? String(value.dropFirst()) : value).lowercased()
            case "path": path = value.hasPrefix("/") ? value : nil
            case "expires": expiry = CookieDate.parse(value) ?? expiry
            case "max-age": maximumAge = Self.maximumAge(value) ?? maximumAge
            case "secure": isSecure = true
            case "samesite": sameSite = SameSite(rawValue: value.lowercased()) ?? .lax
            default: break
            }
        }

        if let domain {
            // Section 5.3 step 5 lets a user agent reject cookies for public suffixes. Without the Public Suffix List, a domain other
            // than the host itself must contain a dot and be a parent domain of the host; an IP address has no parent.
            let covers = endpoint.host == domain || endpoint.host.hasSuffix(".\(domain)") && domain.contains(".")
            let isAddress = endpoint.host.hasPrefix("[") || endpoint.host.allSatisfy { $0.isNumber || $0 == "." }
            guard covers, !isAddress || endpoint.host == domain else { return nil }
        }
        // RFC 6265bis section 5.7: an insecure origin cannot set a secure cookie; the prefixes of section 4.1.3 are
        // enforced.
        if isSecure && !Self.isSecure(endpoint) { return nil }
        // Section 5.7: a cookie with SameSite=None but without Secure must be ignored. Here, it is stored as Lax.
        if sameSite == .none, !isSecure { sameSite = .lax }
        if name.hasPrefix("__Secure-") && !isSecure { return nil }
        if name.hasPrefix("__Host-"), !isSecure || domain != nil || path != "/" { return nil }

        self.name = name
        self.value = Secret(Self.trimmed(pair[pair.index(after: equals)...]))
        self.domain = domain ?? endpoint.host
        self.isHostOnly = domain == nil
        self.path = path ?? Self.defaultPath(of: endpoint)
        self.isSecure = isSecure
        self.origin = endpoint.origin
        self.sameSite = sameSite
        // Section 5.3 step 3: Max-Age takes precedence.
        self.expiresAt = maximumAge.map { $0 <= 0 ? .distantPast : now.addingTimeInterval($0) } ?? expiry
    }

    /// Whether the cookie is sent with a request (section 5.4).
    func matches(_ endpoint: Endpoint) -> Bool {
        let hostFits = endpoint.host == domain || !isHostOnly && endpoint.host.hasSuffix(".\(domain)")
        let requestPath = endpoint.path.isEmpty ? "/" : endpoint.path
        // Section 5.1.4: /am matches /am and /am/x, but not /amx.
        let pathFits =
            requestPath == path
            || requestPath.hasPrefix(path) && (path.hasSuffix("/") || requestPath.dropFirst(path.count).first == "/")
        return hostFits && pathFits && (!isSecure || Self.isSecure(endpoint))
    }

    /// Whether secure cookies are sent to an endpoint. Browsers treat loopback origins as potentially trustworthy
    /// (Secure Contexts section 3.1), and development providers rely on that.
    private static func isSecure(_ endpoint: Endpoint) -> Bool {
        endpoint.scheme == "https" || Endpoint.isLoopback(host: endpoint.host)
    }

    /// Section 5.1.4, the default-path.
    private static func defaultPath(of endpoint: Endpoint) -> String {
        guard let slash = endpoint.path.lastIndex(of: "/"), slash > endpoint.path.startIndex else { return "/" }
        return String(endpoint.path[..<slash])
    }

    /// Section 5.2.2, the Max-Age attribute: digits, with an optional minus sign. RFC 6265bis section 5.5 limits the age to 400 days.
    private static func maximumAge(_ text: String) -> Double? {
        let digits = text.utf8.drop { $0 == UInt8(ascii: "-") }
        guard !digits.isEmpty, text.utf8.count - digits.count <= 1, digits.allSatisfy(\.isDigit) else { return nil }
        return Double(text).map { min($0, 400 * 86_400) }
    }

    private static func trimmed(_ text: Substring.UnicodeScalarView) -> String { String(text).trimmingSpaces() }
}

/// The context of a request, on which the cookie rules depend (RFC 6265bis section 5.2).
struct RequestContext: Sendable {
    /// The page that initiated the request; nil for a typed URL.
    let initiator: Endpoint?
    /// Whether the request is a top-level navigation with the method GET.
    let isTopLevelGET: Bool

    /// Whether a cookie may be sent with a request to an endpoint.
    func allows(_ cookie: Cookie, to endpoint: Endpoint) -> Bool {
        guard let initiator, !Self.isSameSite(initiator, endpoint) else { return true }
        switch cookie.sameSite {
        case .strict: return false
        case .lax: return isTopLevelGET
        case .none: return true
        }
    }

    /// Whether two endpoints are same-site: the same scheme and the same registrable domain. Without the Public Suffix
    /// List, a public suffix is assumed to have one label, or two that are as short as `co.uk` or `com.au`.
    static func isSameSite(_ left: Endpoint, _ right: Endpoint) -> Bool {
        left.scheme == right.scheme && site(left.host) == site(right.host)
    }

    private static func site(_ host: String) -> String {
        let labels = host.split(separator: ".")
        guard !host.hasPrefix("["), labels.count > 2, labels.last?.allSatisfy(\.isNumber) == false else { return host }
        let isShort = labels[labels.count - 1].count == 2 && labels[labels.count - 2].count <= 3
        return labels.suffix(isShort ? 3 : 2).joined(separator: ".")
    }
}

/// Parses cookie dates (RFC 6265 section 5.1.1), which come in many formats.
enum CookieDate {
    private static let months = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]

    /// Parses a date with its parts in any order; nil when a part is missing or invalid.
    static func parse(_ text: String) -> Date? {
        var time: (Int, Int, Int)?
        var day: Int?
        var month: Int?
        var year: Int?
        let tokens = text.split { !($0.isASCII && ($0.isLetter || $0.isNumber || $0 == ":")) }
        for token in tokens {
            if time == nil, let value = Self.clock(token) {
                time = value
            } else if day == nil, let value = Self.number(token, digits: 1...2) {
                day = value
            } else if month == nil, let index = months.firstIndex(of: token.prefix(3).lowercased()) {
                month = index + 1
            } else if year == nil, let value = Self.number(token, digits: 2...4) {
                year = value
            }
        }
        guard let time, let day, let month, var year else { return nil }
        if (70...99).contains(year) { year += 1900 } else if (0...69).contains(year) { year += 2000 }
        guard time.2 <= 59 else { return nil }
        return HTTPDate.date(year: year, month: month, day: day, hour: time.0, minute: time.1, second: time.2)
    }

    /// A time such as `8:49:37`. As in the other parts, anything after the last digit is ignored.
    private static func clock(_ token: Substring) -> (Int, Int, Int)? {
        let parts = token.split(separator: ":", omittingEmptySubsequences: false)
        guard parts.count >= 3, parts[..<2].allSatisfy({ $0.utf8.allSatisfy(\.isDigit) }),
            let hour = number(parts[0], digits: 1...2), let minute = number(parts[1], digits: 1...2),
            let second = number(parts[2], digits: 1...2)
        else { return nil }
        return (hour, minute, second)
    }

    /// The number at the beginning of a part; nil if it does not have this many digits.
    private static func number(_ text: Substring, digits count: ClosedRange<Int>) -> Int? {
        let digits = text.prefix { $0.isASCII && $0.isNumber }
        return count.contains(digits.count) ? Int(digits) : nil
    }
}
