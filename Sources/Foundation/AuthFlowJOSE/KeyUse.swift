import AuthFlowJSON

extension JSON {
    /// A member of a JWK; nil when it is absent, or null or an empty list, which some servers send for absent values.
    func keyMember(_ name: String) -> JSON? {
        guard let value = self[name], value != .null, value != [] else { return nil }
        return value
    }

    /// Whether a JWK may be used for a purpose (RFC 7517 sections 4.2 and 4.3).
    /// - Parameters:
    ///   - use: `use`: `sig` or `enc`.
    ///   - operations: `key_ops`, one of which the key must list.
    func isKey(for use: String, _ operations: Set<String>) -> Bool {
        guard keyMember("use").map({ $0 == .string(use) }) ?? true else { return false }
        return keyMember("key_ops").map { !Set($0.strings ?? []).isDisjoint(with: operations) } ?? true
    }
}
