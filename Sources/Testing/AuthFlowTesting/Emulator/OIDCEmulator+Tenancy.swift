import Synchronization

extension OIDCEmulator {
    /// Users of several tenants sign in at one server, whose tokens name an issuer for each.
    public struct Tenancy: Sendable {
        /// What the metadata has in place of the issuer, with the tenant in braces.
        public var template: String
        /// The claim that names the tenant.
        public var claim: String
        /// The tenant of the users.
        public var tenant: String

        /// Creates a tenancy.
        public init(template: String, claim: String, tenant: String) {
            self.template = template
            self.claim = claim
            self.tenant = tenant
        }

        /// The issuer that tokens name.
        var issuer: String {
            guard let open = template.firstIndex(of: "{"), let close = template.firstIndex(of: "}") else {
                return template
            }
            return template[..<open] + tenant + template[template.index(after: close)...]
        }
    }

    /// Whether tokens name an issuer for each tenant; default: nil, and all name the issuer.
    public var tenancy: Tenancy? {
        get { state.withLock { $0.tenancy } }
        set { state.withLock { $0.tenancy = newValue } }
    }
}
