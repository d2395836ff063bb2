package import AuthFlowOAuth

/// The metadata of a protected resource: the authorization servers that it trusts, and its requirements (RFC 9728 section 2).
struct ProtectedResourceMetadata: Sendable, Hashable {
    /// `resource`: the identifier in token requests, exactly as written.
    let resource: String

    /// `authorization_servers`: the issuers whose tokens the resource accepts; empty when absent.
    let authorizationServers: [String]

    /// `scopes_supported`; nil when absent.
    let scopes: [String]?

    /// `dpop_bound_access_tokens_required`: whether tokens must be bound to a key (RFC 9449).
    let requiresDPoP: Bool

    /// `bearer_methods_supported`: the methods of sending a bearer token, of which only `header` is used here; empty when the resource accepts no bearer
    /// tokens; nil when absent.
    let bearerMethods: [String]?

    /// The URL of the document.
    let location: Endpoint

    /// The match between `resource` and the URL of the protected resource.
    let fit: Fit

    /// The complete document.
    let json: JSON

    /// The match between a document's `resource` and a URL.
    enum Fit: String, Sendable, Hashable {
        /// The two are identical, as RFC 9728 section 3.3 requires, apart from a trailing slash.
        case identical
        /// `resource` has the same origin, and its path is a prefix of the URL's path, at a segment boundary. RFC 9728 section 3.3 does not
        /// strictly allow this, but servers with one document for several endpoints rely on it, and the origin is the same.
        case prefix
    }

    /// Parses and validates a document.
    /// - Parameters:
    ///   - json: The document.
    ///   - address: The URL of the protected resource.
    ///   - location: The URL of the document.
    /// - Throws: ``AuthError`` with `discovery_failed` when the document must not be used for this resource.
    init(_ json: JSON, of address: Endpoint, at location: Endpoint) throws(AuthError) {
        func unusable(_ reason: String) -> AuthError {
            AuthError(.discoveryFailed, "The protected resource metadata at \(location) cannot be used: \(reason).")
        }
        guard let resource = json["resource"]?.string else { throw unusable("it has no \"resource\"") }
        // RFC 9728 section 3.3: "If these values are not identical, the data contained in the response MUST NOT be used." A prefix is
        // accepted only at the host's own well-known URLs, to which a tenant with a path on the host cannot write.
        guard let fit = Self.fit(of: resource, to: address),
            fit == .identical || Self.isHostMetadata(location, of: address, resource)
        else {
            throw unusable(
                "it is for the resource \"\(Redaction.url(resource))\", not for \(address). No token is requested for a different resource"
            )
        }
        self.resource = resource
        // RFC 9728 section 2: OPTIONAL; a resource might not be able to list every authorization server.
        let servers = json["authorization_servers"] ?? .null
        guard let authorizationServers = servers == .null ? [] : servers.strings else {
            throw unusable("\"authorization_servers\" is not an array of strings")
        }
        self.authorizationServers = authorizationServers
        // No check depends on the list, so a value of another type counts as absent. A scope that RFC 6749 section 3.3 does not allow cannot be
        // requested.
        self.scopes = json["scopes_supported"]?.strings?.filter(ClientRegistration.Values.isScopeToken)
        self.requiresDPoP = json["dpop_bound_access_tokens_required"]?.bool ?? false
        self.bearerMethods = json["bearer_methods_supported"]?.strings
        self.location = location
        self.fit = fit
        self.json = json
    }

    /// Whether a document is at a well-known URL of the host. Complete URLs are compared, because the meaning of
    /// percent-encoded dots and slashes in a path depends on the server.
    private static func isHostMetadata(_ location: Endpoint, of address: Endpoint, _ resource: String) -> Bool {
        let named = try? Endpoint(resource, name: "resource")
        let urls = [address.wellKnownMetadata, named?.wellKnownMetadata, address.wellKnownMetadataOfHost]
        return urls.contains { $0?.isIdentical(to: location.url) == true }
    }

    /// The match between a resource identifier and a URL; nil when they do not match.
    static func fit(of resource: String, to address: Endpoint) -> Fit? {
        guard let named = try? Endpoint(resource, name: "resource") else { return nil }
        if resource.isIdentical(to: address.url) { return .identical }
        // The meaning of "." and ".." depends on the server, so a path with such segments is never within another path.
        guard named.origin == address.origin, !named.hasDotSegments, !address.hasDotSegments else { return nil }
        let (whole, part) = (address.path.droppingTrailingSlash, named.path.droppingTrailingSlash)
        if let query = named.query { return query == address.query && whole == part ? .identical : nil }
        if whole == part, address.query == nil { return .identical }
        // "/api" does not cover "/api123".
        return whole == part || whole.hasPrefix(part + "/") ? .prefix : nil
    }
}

extension Endpoint {
    /// Whether a server could find a dot segment (RFC 3986 section 3.3) in the path: some servers decode a path repeatedly, treat an
    /// encoded slash or a backslash as a slash, or remove parameters (`..;v=1`) from a segment.
    package var hasDotSegments: Bool { possibleSegments.contains { $0 == "." || $0 == ".." } }

    /// Whether a server could treat the path of a request as this path or as a path below it.
    package func mayCover(_ target: Endpoint) -> Bool {
        // Some servers ignore case.
        func segments(_ endpoint: Endpoint) -> [String] { endpoint.possibleSegments.map { $0.lowercased() } }
        return origin == target.origin && segments(target).starts(with: segments(self))
    }

    /// The segments of the path as a server could parse them. Empty segments are omitted.
    package var possibleSegments: [String] {
        var plain: [UInt8] = []
        for byte in path.utf8 {
            plain.append(byte)
            // The decoded octet may be the end of another percent-encoding.
            while plain.count > 2, plain[plain.count - 3] == UInt8(ascii: "%"),
                let high = FormURLEncoding.hexValue(plain[plain.count - 2]),
                let low = FormURLEncoding.hexValue(plain[plain.count - 1])
            {
                plain.replaceSubrange((plain.count - 3)..., with: CollectionOfOne(high << 4 | low))
            }
        }
        return plain.split { $0 == UInt8(ascii: "/") || $0 == UInt8(ascii: "\\") }.compactMap { segment in
            // A decoded path may be parsed again: a query or a fragment ends it, and URL parsers remove tabs and line breaks.
            let name = segment.prefix { !";?#\0".utf8.contains($0) }.filter { $0 > 0x20 }
            return name.isEmpty ? nil : String(decoding: name, as: UTF8.self)
        }
    }

    /// RFC 9728 section 3.1: the well-known URI path suffix is inserted "between the host component and the path and/or
    /// query components", and before that, "any terminating slash (/) following the host component MUST be removed".
    var wellKnownMetadata: String {
        wellKnownMetadataOfHost + (path == "/" ? "" : path) + (query.map { "?\($0)" } ?? "")
    }

    /// The well-known metadata URL of the host as a whole.
    var wellKnownMetadataOfHost: String { "\(scheme)://\(authority)/.well-known/oauth-protected-resource" }

    /// The URL as a resource identifier (RFC 8707 section 2): scheme and host in lower case, and no slash for a bare origin.
    var resourceIdentifier: String {
        "\(scheme)://\(authority)" + (path == "/" ? "" : path) + (query.map { "?\($0)" } ?? "")
    }
}
