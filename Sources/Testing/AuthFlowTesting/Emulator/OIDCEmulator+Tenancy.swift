import Synchronization

extension OIDCEmulator {
    /// The multi-tenancy settings of a provider with a separate issuer for each tenant's tokens.
    public struct Tenancy: Sendable {
        /// The issuer in the metadata: a template with a placeholder in braces for the tenant.
        public var template: String
        /// The claim that identifies the tenant.
        public var claim: String
        /// The users' tenant.
        public var tenant: String

        /// Creates a tenancy.
        public init(template: String, claim: String, tenant: String) {
            self.template = template
            self.claim = claim
            self.tenant = tenant
        }

        /// The issuer of the ID Tokens.
        var issuer: String {
            guard let open = template.firstIndex(of: "{"), let close = template.firstIndex(of: "}") else {
                return template
            }
            return template[..<open] + tenant + template[template.index(after: close)...]
        }
    }

    /// The multi-tenancy settings, if each tenant's ID Tokens have a separate issuer; nil (the default) if all tokens have the
    /// provider's issuer.
    public var tenancy: Tenancy? {
        get { state.withLock { $0.tenancy } }
        set { state.withLock { $0.tenancy = newValue } }
    }
}
