public import AuthFlowHTTP

/// The application's location for request objects that the server fetches (RFC 9101 section 5.2).
public struct RequestObjectReference: Sendable {
    let publish: @Sendable (_ requestObject: Secret) async throws -> String
    let mayBeUnsigned: Bool

    /// Creates a location.
    /// - Parameter publish: Makes a request object, a JWT, available to the server until the user returns, and returns its `https`
    ///   URL, which must be registered if the server requires that. The URL must not be guessable from other URLs.
    public init(publish: @escaping @Sendable (_ requestObject: Secret) async throws -> String) {
        self.init(publish, mayBeUnsigned: false)
    }

    /// A location for unsigned request objects, which are authenticated only by the client's URL from which the server
    /// fetches them.
    /// Use it for servers that have no key for verifying the client's signatures (OIDC Core section 6.1, `alg` `none`).
    public static func publishingUnsigned(
        _ publish: @escaping @Sendable (_ requestObject: Secret) async throws -> String
    ) -> RequestObjectReference {
        RequestObjectReference(publish, mayBeUnsigned: true)
    }

    private init(_ publish: @escaping @Sendable (Secret) async throws -> String, mayBeUnsigned: Bool) {
        self.publish = publish
        self.mayBeUnsigned = mayBeUnsigned
    }
}
