import AuthFlowHTTP
import AuthFlowJSON

/// What a protected resource says about itself: which authorization servers it trusts, and what it wants (RFC 9728 section 2).
struct ProtectedResourceMetadata: Sendable, Hashable {
    /// `resource`: the identifier that tokens are asked for by, kept character by character.
    let resource: String

    /// `authorization_servers`: the issuers whose tokens it takes. Never empty.
    let authorizationServers: [String]

    /// `scopes_supported`; nil when it does not say.
    let scopes: [String]?

    /// `dpop_bound_access_tokens_required`: whether tokens have to be bound to a key (RFC 9449).
    let requiresDPoP: Bool

    /// Where the document was found.
    let location: Endpoint

    /// How its `resource` fits the address that was asked for.
    let fit: Fit

    /// Everything that the document says.
    let json: JSON

    /// How a document's `resource` fits an address.
    enum Fit: String, Sendable, Hashable {
        /// They are identical, as RFC 9728 section 3.3 demands.
        case identical
        /// It has the same origin, and its path is a prefix of the address's, at a segment. Strictly, RFC 9728 section 3.3 does
        /// not allow it, but servers with one document for several endpoints rely on it, and the origin is the same.
        case prefix
    }

    /// Reads a document.
    /// - Parameters:
    ///   - json: The document.
    ///   - address: The protected resource that was asked for.
    ///   - location: Where the document was found.
    /// - Throws: ``AuthError`` with `discovery_failed` when it may not be used for this address.
    init(_ json: JSON, of address: Endpoint, at location: Endpoint) throws(AuthError) {
        func unusable(_ reason: String) -> AuthError {
            AuthError(.discoveryFailed, "The resource metadata at \(location) cannot be used: \(reason).")
        }
        func strings(_ name: String) throws(AuthError) -> [String]? {
            guard let value = json[name], value != .null else { return nil }
            guard let strings = value.strings else { throw unusable("\"\(name)\" is not an array of strings") }
            return strings
        }
        guard let resource = json["resource"]?.string else { throw unusable("it has no \"resource\"") }
        // RFC 9728 section 3.3: "If these values are not identical, the data contained in the response MUST NOT be used." A prefix counts
        // only at the host's own well-known addresses, to which a tenant with a path of the host cannot write.
        guard let fit = Self.fit(of: resource, to: address),
            fit == .identical || Self.isHostsOwn(location, of: address, resource)
        else {
            throw unusable(
                "it is for the resource \"\(Redaction.url(resource))\", not for \(address). A token for another resource is not asked for"
            )
        }
        guard let servers = try strings("authorization_servers"), !servers.isEmpty else {
            throw unusable("it names no authorization server")
        }
        self.resource = resource
        self.authorizationServers = servers
        self.scopes = try strings("scopes_supported")
        self.requiresDPoP = json["dpop_bound_access_tokens_required"]?.bool ?? false
        self.location = location
        self.fit = fit
        self.json = json
    }

    /// Whether a document is at a well-known address of the host. Whole addresses are compared: dots and slashes that are encoded in a
    /// path mean what the server makes of them.
    private static func isHostsOwn(_ location: Endpoint, of address: Endpoint, _ resource: String) -> Bool {
        let named = try? Endpoint(resource, name: "resource")
        let places = [address.wellKnownMetadata, named?.wellKnownMetadata, address.wellKnownMetadataOfHost]
        return places.contains { $0?.isIdentical(to: location.url) == true }
    }

    /// How a resource identifier fits an address; nil when it does not.
    static func fit(of resource: String, to address: Endpoint) -> Fit? {
        guard let named = try? Endpoint(resource, name: "resource") else { return nil }
        if resource.isIdentical(to: address.url) { return .identical }
        // What a server makes of "." and ".." is its own affair, so no path with them is within another.
        guard named.origin == address.origin, !named.hasDotSegments, !address.hasDotSegments else { return nil }
        let (whole, part) = (address.path.droppingLastSlash, named.path.droppingLastSlash)
        if let query = named.query { return query == address.query && whole == part ? .identical : nil }
        if whole == part, address.query == nil { return .identical }
        // "/api" does not cover "/api123".
        return whole == part || whole.hasPrefix(part + "/") ? .prefix : nil
    }
}

extension Endpoint {
    /// Whether its path has a segment that means this folder or the one above.
    var hasDotSegments: Bool {
        path.split(separator: "/").contains { segment in
            let plain = segment.lowercased().replacing("%2e", with: ".")
            return plain == "." || plain == ".."
        }
    }

    /// RFC 9728 section 3.1: the well-known part is inserted "between the host component and the path and/or query components". Section
    /// 3: "any terminating slash (/) following the host component MUST be removed".
    var wellKnownMetadata: String {
        wellKnownMetadataOfHost + (path == "/" ? "" : path) + (query.map { "?\($0)" } ?? "")
    }

    /// The address for the host as a whole.
    var wellKnownMetadataOfHost: String { "\(scheme)://\(authority)/.well-known/oauth-protected-resource" }

    /// The address as a resource identifier (RFC 8707 section 2): scheme and host in lower case, and no slash for a bare origin.
    var resourceIdentifier: String {
        "\(scheme)://\(authority)" + (path == "/" ? "" : path) + (query.map { "?\($0)" } ?? "")
    }
}
