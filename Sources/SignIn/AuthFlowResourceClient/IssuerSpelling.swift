import AuthFlowHTTP
import AuthFlowJSON

/// The two spellings of an issuer without a path: with and without a trailing slash. RFC 8414 section 3.1 removes a terminating slash from the URL of the
/// metadata, so both have the same metadata URL, but the metadata contains only one spelling. Many resources list the other spelling.
enum IssuerSpelling {
    /// The other spelling; nil for an issuer with a path.
    static func other(_ issuer: String) -> String? {
        guard let endpoint = try? Endpoint(issuer: issuer) else { return nil }
        switch endpoint.path {
        case "": return issuer + "/"
        case "/": return String(issuer.dropLast())
        default: return nil
        }
    }

    /// Whether two issuers are the same, in either spelling.
    static func areEqual(_ left: String, _ right: String) -> Bool {
        left.isIdentical(to: right) || other(left)?.isIdentical(to: right) == true
    }
}
