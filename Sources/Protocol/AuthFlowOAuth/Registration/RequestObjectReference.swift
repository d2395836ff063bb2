public import AuthFlowHTTP

/// The application's location for request objects that the server fetches (RFC 9101 section 5.2).
public struct RequestObjectReference: Sendable {
    let publish: @Sendable (_ requestObject: Secret) async throws -> String
    private(set) var mayBeUnsigned = false

    /// Creates a location.
    /// - Parameter publish: Makes a request object, a JWT, available to the server until the user returns, and returns its `https`
    ///   URL, which must be registered if the server requires that. The URL must not be guessable from other URLs.
    public init(publish: @escaping @Sendable (_ requestObject: Secret) async throws -> String) {
        self.publish = publish
    }

    /// A location for unsigned request objects, which are authenticated only by the client's URL from which the server
    /// fetches them.
    /// Use it for servers that have no key for verifying the client's signatures (OIDC Core section 6.1, `alg` `none`).
    public static func publishingUnsigned(
        _ publish: @escaping @Sendable (_ requestObject: Secret) async throws -> String
    ) -> RequestObjectReference {
        var reference = RequestObjectReference(publish: publish)
        reference.mayBeUnsigned = true
        return reference
    }
}
