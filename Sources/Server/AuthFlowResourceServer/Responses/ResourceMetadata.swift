import AuthFlowHTTP

/// The protected resource metadata of an API (RFC 9728), from which clients discover its issuers, given only its URL.
enum ResourceMetadata {
    /// Section 3.1: the well-known path is inserted between the host and the path of the resource.
    static func path(of resource: Endpoint) -> String {
        "/.well-known/oauth-protected-resource" + (resource.path == "/" ? "" : resource.path)
    }

    static func address(of resource: Endpoint) -> String { resource.origin + path(of: resource) }
}
