public import AuthFlowEssentials
public import AuthFlowHTTP

/// The source of a workload's assertions: its platform, a program, its own key, or another sign-in.
///
/// It is called whenever an assertion is needed, so that an outdated assertion is never used.
public struct AssertionSource: Sendable {
    /// The request that needs an assertion.
    public struct Request: Sendable {
        /// The `client_id` of the client that sends the request.
        public let clientID: String
        /// The issuer of the server that receives the request.
        public let issuer: String
        /// The current time, according to the server's clock if its offset is known.
        public let time: Date
        /// A random identifier for this request.
        public let identifier: String
        /// The target resources of the access token (RFC 8707).
        public let resources: [String]
        /// The scopes of the access token.
        public let scopes: [String]
        /// Sends requests.
        public let transport: any HTTPTransport
        /// The clock, random number generator and environment.
        public let host: HostServices
    }

    /// The name of the source in messages.
    package let name: String

    /// The identity that distinguishes this source from other sources: a token obtained with one source's assertion is
    /// never returned for another source.
    package let identity: String

    /// Returns the current owner of the source's assertions, such as the account of another sign-in; nil when the owner cannot
    /// change.
    package var owner: (@Sendable () async throws -> String)?

    private let audience: String?
    private let make: @Sendable (Request) async throws -> Assertion

    /// Creates a source.
    /// - Parameters:
    ///   - name: The name of the source in messages, such as a file path.
    ///   - identity: The identity that distinguishes the source from other sources of this client, such as the subject of its assertions: a
    ///     token that was obtained through one source is not returned for another. Default: the name.
    ///   - audience: The audience that its assertions must have; default: the server's issuer. A server that receives an
    ///     assertion intended for another server could present the assertion to that server.
    ///   - make: Obtains an assertion. It is called for each use.
    public init(
        _ name: String,
        identity: String? = nil,
        audience: String? = nil,
        _ make: @escaping @Sendable (Request) async throws -> Assertion
    ) {
        self.name = name
        self.identity = identity ?? name
        self.audience = audience
        self.make = make
    }

    /// Obtains an assertion that has not expired.
    /// - Throws: ``AuthError`` with `assertion_unusable`, or any error thrown by the source.
    package func assertion(for request: Request) async throws -> Assertion {
        let assertion = try await make(request)
        try assertion.check(audience: audience ?? request.issuer, at: request.time, from: name)
        return assertion
    }
}

extension AssertionSource: CustomStringConvertible, NonReflectable {
    public var description: String { name }
}
