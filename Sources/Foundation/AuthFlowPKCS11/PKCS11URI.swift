package import AuthFlowHTTP

/// The URI of a key in a PKCS #11 token (RFC 7512): `pkcs11:token=Work;object=signing?module-path=/usr/lib/...`.
package struct PKCS11URI: Sendable, Hashable {
    /// The label of the token; nil for any.
    let token: String?
    /// The serial number of the token; nil for any.
    let serial: String?
    /// The model of the token; nil for any.
    let model: String?
    /// The manufacturer of the token; nil for any.
    let manufacturer: String?
    /// The label of the key; nil for any.
    let object: String?
    /// The identifier of the key; nil for any.
    let identifier: [UInt8]?
    /// The path or file name of the PKCS #11 module.
    let module: String

    /// The module that combines all modules registered on the system.
    private static let proxyModule = "p11-kit-proxy.so"

    private static let attributes = ["token", "serial", "model", "manufacturer", "object", "id", "type"]

    /// The type of a key, as in the URI's `type` attribute.
    package enum KeyType: String {
        case privateKey = "private"
        case secretKey = "secret-key"
    }

    /// Parses a URI.
    /// - Throws: ``AuthError`` with `invalid_configuration`.
    package init(_ text: String, type: KeyType = .privateKey) throws(AuthError) {
        func rejection(_ reason: String) -> AuthError {
            let kind = type == .privateKey ? "private" : "secret"
            return AuthError(.invalidConfiguration, "This is not the PKCS #11 URI of a \(kind) key: \(reason).")
        }
        guard text.utf8.starts(with: "pkcs11:".utf8) else { throw rejection("it does not begin with \"pkcs11:\"") }
        let parts = text.dropFirst(7).split(separator: "?", maxSplits: 1, omittingEmptySubsequences: false)
        var values: [String: [UInt8]] = [:]
        let attributes =
            parts[0].split(separator: ";").map { ($0, false) }
            + (parts.dropFirst().first ?? "").split(separator: "&").map { ($0, true) }
        for (attribute, isQuery) in attributes {
            let pair = attribute.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            let name = String(pair[0])
            // RFC 7512 section 2.4: with pin-value "the PIN ... may be exposed".
            guard !name.hasPrefix("pin-") else {
                throw rejection("a PIN must be configured separately, not in the URI")
            }
            let known = isQuery ? ["module-path"] : Self.attributes
            // Library and slot attributes are ignored: `module-path` selects the library (without it, every module that
            // is registered with p11-kit is searched), and a token is found in any slot.
            if !isQuery, name.hasPrefix("library-") || name.hasPrefix("slot-") { continue }
            guard known.contains(name) else {
                throw rejection("the attribute \"\(DisplayText.sanitized(name, limit: 30))\" is not supported")
            }
            // Sections 2.3 and 2.4: neither a path attribute nor a query attribute defined there may be repeated.
            guard pair.count == 2, let value = FormURLEncoding.percentDecodedBytes(pair[1]),
                values.updateValue(value, forKey: name) == nil
            else { throw rejection("\(name) is malformed, or occurs more than once") }
        }
        func string(_ name: String) throws(AuthError) -> String? {
            guard let bytes = values[name] else { return nil }
            guard let text = String(validating: bytes, as: UTF8.self), !text.isEmpty, !text.utf8.contains(0) else {
                throw rejection("\(name) is empty, not UTF-8, or contains a NUL character")
            }
            return text
        }
        self.token = try string("token")
        self.serial = try string("serial")
        self.model = try string("model")
        self.manufacturer = try string("manufacturer")
        self.object = try string("object")
        self.identifier = values["id"]
        let module = try string("module-path") ?? Self.proxyModule
        // A library loaded from the working directory would run with the privileges of this program.
        guard !module.contains("/") || module.hasPrefix("/") else { throw rejection("module-path is not absolute") }
        self.module = module
        guard try string("type") ?? type.rawValue == type.rawValue else {
            throw rejection("its type is not \"\(type.rawValue)\"")
        }
        guard object != nil || identifier != nil else { throw rejection("it has neither \"object\" nor \"id\"") }
    }
}
