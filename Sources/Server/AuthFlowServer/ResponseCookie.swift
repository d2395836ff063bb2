import AuthFlow

/// A cookie that a response sets. RFC 10017 section 6.1.3.2: it is `Secure` (over plain HTTP on loopback, only with `SameSite=None`) and
/// `HttpOnly`, with the path `/` and without a domain.
struct ResponseCookie: Sendable {
    enum SameSite: String, Sendable {
        case strict = "Strict"
        case lax = "Lax"
        case none = "None"
    }

    let name: String
    let value: String
    let sameSite: SameSite
    let isSecure: Bool
    /// The maximum age; nil for a session cookie, which the browser removes when it closes.
    var maximumAge: Duration?

    var field: String {
        var field = "\(name)=\(value); Path=/; HttpOnly; SameSite=\(sameSite.rawValue)"
        if isSecure { field += "; Secure" }
        if let maximumAge { field += "; Max-Age=\(maximumAge.components.seconds)" }
        return field
    }

    /// An expired cookie that replaces this one, so that the browser removes it.
    var removal: ResponseCookie {
        ResponseCookie(name: name, value: "", sameSite: sameSite, isSecure: isSecure, maximumAge: .zero)
    }
}

extension TransportResponse {
    /// Returns the response with an additional cookie.
    func setting(_ cookie: ResponseCookie) -> TransportResponse {
        var response = self
        response.head.headerFields.append(HTTPField(name: .setCookie, value: cookie.field))
        return response
    }
}
