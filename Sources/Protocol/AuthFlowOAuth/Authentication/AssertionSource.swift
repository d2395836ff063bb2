public import AuthFlowEssentials
public import AuthFlowHTTP

/// Where the assertions of a workload come from: its platform, a program, a key of its own, or another sign-in.
///
/// It is asked whenever an assertion is needed, so that one that was replaced meanwhile is used.
public struct AssertionSource: Sendable {
    /// What an assertion is needed for.
    public struct Request: Sendable {
        /// The `client_id` of the client that sends it.
        public let clientID: String
        /// The issuer of the server that it is sent to.
        public let issuer: String
        /// The time, by the server's clock where that is known.
        public let time: Date
        /// A random identifier of this request.
        public let identifier: String
        /// The resources that the access token is for (RFC 8707).
        public let resources: [String]
        /// The scopes that it is for.
        public let scopes: [String]
        /// Sends requests.
        public let transport: any HTTPTransport
        /// Time, randomness and environment.
        public let host: HostServices
    }

    /// What it is called in messages.
    public let name: String

    /// What distinguishes it from other sources: a token for an assertion of the one is not handed out for the other.
    package let identity: String

    /// Whose assertions it gives at the moment, where that can change: the account of another sign-in.
    package let owner: (@Sendable () async throws -> String)?

    private let audience: String?
    private let make: @Sendable (Request) async throws -> Assertion

    /// Creates a source.
    /// - Parameters:
    ///   - name: What it is called in messages, such as a file's path.
    ///   - identity: What distinguishes it from other sources of this client, such as the subject of its assertions: a token that was
    ///     obtained by one source is not handed out for another. Default: the name.
    ///   - audience: The audience that its assertions must have; default: any, which the server checks.
    ///   - make: Obtains an assertion, for every use anew.
    public init(
        _ name: String,
        identity: String? = nil,
        audience: String? = nil,
        _ make: @escaping @Sendable (Request) async throws -> Assertion
    ) {
        self.init(name, identity: identity ?? name, owner: nil, audience: audience, make: make)
    }

    package init(
        _ name: String,
        identity: String,
        owner: (@Sendable () async throws -> String)?,
        audience: String? = nil,
        make: @escaping @Sendable (Request) async throws -> Assertion
    ) {
        self.name = name
        self.identity = identity
        self.owner = owner
        self.audience = audience
        self.make = make
    }

    /// Obtains an assertion that has not expired.
    /// - Throws: ``AuthError`` with `assertion_unusable`; what the source throws.
    public func assertion(for request: Request) async throws -> Assertion {
        let assertion = try await make(request)
        try assertion.check(audience: audience, at: request.time, from: name)
        return assertion
    }
}

extension AssertionSource: CustomStringConvertible, WithoutReflection {
    // swift-format-ignore: AllPublicDeclarationsHaveDocumentation
    public var description: String { name }
}
