public import AuthFlowHTTP

/// A place of the application's own from which the server fetches request objects (RFC 9101 section 5.2).
public struct RequestObjectReference: Sendable {
    let publish: @Sendable (_ requestObject: Secret) async throws -> String
    let mayBeUnsigned: Bool

    /// Creates a place.
    /// - Parameter publish: Makes a request object, a JWT, available to the server until the user has come back, and returns its
    ///   `https` address, which has to be registered where the server demands that. The address must not be guessed from another's.
    public init(publish: @escaping @Sendable (_ requestObject: Secret) async throws -> String) {
        self.init(publish, mayBeUnsigned: false)
    }

    /// A place for request objects that are not signed: that the server gets them from the client's address is then all
    /// that shows whose they are. For servers that know no signing key of the client (OIDC Core section 6.1, `alg` `none`).
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
