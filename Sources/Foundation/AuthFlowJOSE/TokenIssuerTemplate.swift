public import AuthFlowHTTP
package import AuthFlowJSON

/// The rule for the issuers in the ID Tokens of a multi-tenant server, which uses a different issuer for each tenant.
///
/// In OpenID Connect a server has exactly one issuer (Core section 3.1.3.7, item 2: "MUST exactly match"). Multi-tenant
/// servers publish a template in their metadata instead; replacing its placeholder with a token's tenant yields the
/// issuer of that token.
public struct TokenIssuerTemplate: Sendable, Hashable {
    /// The issuer with a placeholder for the tenant in braces, exactly as in the metadata:
    /// `https://login.example.com/{tenantid}/v2.0`.
    package let text: String

    /// The claim that identifies the tenant.
    package let claim: String

    /// The tenants whose users are accepted; nil for any.
    package let tenants: Set<String>?

    private let parts: (before: String, after: String)

    /// Creates a rule.
    /// - Parameters:
    ///   - text: The issuer with a placeholder for the tenant in braces.
    ///   - claim: The claim that identifies the tenant.
    ///   - tenants: The tenants whose users are accepted; default: any. Users of any tenant can then sign in to the program,
    ///     and claims such as `email` are under the control of that tenant's administrator.
    /// - Throws: ``AuthError`` with `invalid_configuration` when the text is not an issuer with exactly one
    ///   placeholder in its path.
    public init(_ text: String, claim: String, tenants: [String]? = nil) throws(AuthError) {
        let open = text.split(separator: "{", omittingEmptySubsequences: false)
        let close = open.count == 2 ? open[1].split(separator: "}", omittingEmptySubsequences: false) : []
        guard close.count == 2, !claim.isEmpty, let example = try? Endpoint("\(open[0])tenant\(close[1])"),
            // The tenant must not be able to choose the host.
            String(open[0]).hasPrefix("\(example.origin)/")
        else {
            throw AuthError(
                .invalidConfiguration,
                "\"\(DisplayText.sanitized(text, limit: 200))\" is not an issuer with a {tenant} in its path."
            )
        }
        self.text = text
        self.claim = claim
        self.tenants = tenants.map { Set($0) }
        self.parts = (String(open[0]), String(close[1]))
    }

    /// The issuer that a token with these claims must have; nil when its tenant is not valid or not accepted.
    package func issuer(for claims: JSON) -> String? {
        guard let tenant = claims[claim]?.string, !tenant.isEmpty, tenant.utf8.count <= 64,
            tenant.utf8.allSatisfy({ $0.isLetterOrDigit || $0 == UInt8(ascii: "-") }), tenants?.contains(tenant) ?? true
        else { return nil }
        return parts.before + tenant + parts.after
    }

    /// Whether an issuer may belong to one of the accepted tenants.
    package func covers(_ issuer: String) -> Bool {
        guard issuer.hasPrefix(parts.before), issuer.hasSuffix(parts.after),
            issuer.utf8.count > parts.before.utf8.count + parts.after.utf8.count
        else { return false }
        let tenant = issuer.dropFirst(parts.before.count).dropLast(parts.after.count)
        return tenants?.contains(String(tenant)) ?? !tenant.contains("/")
    }

    /// Whether an issuer may belong to accepted tenants of both templates.
    package func overlaps(_ other: Self) -> Bool {
        guard parts == other.parts else { return false }
        guard let tenants, let others = other.tenants else { return true }
        return !tenants.isDisjoint(with: others)
    }

    public static func == (left: Self, right: Self) -> Bool {
        left.text.isIdentical(to: right.text) && left.claim == right.claim && left.tenants == right.tenants
    }

    public func hash(into hasher: inout Hasher) { hasher.combine(text) }
}
