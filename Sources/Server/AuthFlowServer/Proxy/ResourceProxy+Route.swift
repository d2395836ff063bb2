public import AuthFlow

extension ResourceProxy {
    /// A path prefix of the application, and the API to which requests with this prefix are forwarded.
    public struct Route: Sendable {
        let prefix: String
        let target: Endpoint
        let methods: Set<HTTPRequest.Method>
        let resource: String?
        let provider: String?
        let forwardedFields: Set<String>
        let returnedFields: Set<String>
        let maximumRequestSize: Int
        let maximumResponseSize: Int
        let streamsRequests: Bool
        let streamsResponses: Bool
        let maximumStreamDuration: Duration

        /// The header fields that belong to one connection, to the session, or to the proxy itself.
        private static let ownFields: Set<String> = [
            "connection", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade", "host", "content-length",
            "content-encoding", "authorization", "cookie", "set-cookie", "dpop", "forwarded", "via",
        ]
        private static let ownPrefixes = ["sec-", "proxy-", "x-forwarded-", "access-control-"]

        /// Creates a route.
        /// - Parameters:
        ///   - prefix: The path prefix of the requests. It must start and end with a slash.
        ///   - target: The API's URL, which replaces the prefix. It must end with a slash.
        ///   - methods: The methods to forward; default: GET and HEAD.
        ///   - resource: The resource for which to request the access token (RFC 8707); default: the resource of the
        ///     session's token.
        ///   - provider: The name of the provider whose access tokens the API accepts. A request with another
        ///     provider's session is rejected (403). If there are several providers, a route must specify one;
        ///     default: the only provider.
        ///   - maximumRequestSize: The maximum size of a request body, in bytes, whether streamed or not; default: 1
        ///     MiB. A larger request is rejected (413).
        ///   - maximumResponseSize: The maximum size of a response body, in bytes; default: 1 MiB. With
        ///     `streamsResponses`, it is the size of the buffer for a slow browser: when the buffer is full,
        ///     backpressure is applied to the API on Linux; on other platforms, the response fails.
        ///   - streamsRequests: Whether request bodies, such as large uploads, are forwarded as they arrive by
        ///     ``ResourceProxy/streamedResponse(to:upload:)``; default: no, request bodies are buffered.
        ///   - streamsResponses: Whether responses, such as event streams and large downloads, are returned as they
        ///     arrive by ``ResourceProxy/streamedResponse(to:body:)``; default: no.
        ///   - maximumStreamDuration: The maximum duration of a streamed request and of a streamed response, after
        ///     which the stream is aborted; default: 15 minutes. A stream outlives its session and its access token by
        ///     no more than this duration.
        ///   - forwardedFields: Header fields to forward in addition to the default fields, such as `X-Request-ID`;
        ///     default: none.
        ///   - returnedFields: Header fields to return in addition to the default fields; default: none.
        /// - Throws: ``/AuthFlow/AuthError`` with `invalid_configuration`.
        public init(
            _ prefix: String,
            to target: Endpoint,
            methods: Set<HTTPRequest.Method> = [.get, .head],
            resource: String? = nil,
            provider: String? = nil,
            maximumRequestSize: Int = 1024 * 1024,
            maximumResponseSize: Int = 1024 * 1024,
            streamsRequests: Bool = false,
            streamsResponses: Bool = false,
            maximumStreamDuration: Duration = .seconds(900),
            forwardedFields: Set<HTTPField.Name> = [],
            returnedFields: Set<HTTPField.Name> = []
        ) throws(AuthError) {
            guard prefix.hasPrefix("/"), prefix.hasSuffix("/"), target.path.hasSuffix("/"), target.query == nil else {
                throw AuthError(
                    .invalidConfiguration,
                    "A route's prefix must start and end with a slash; the API's URL must end with a slash and have no query."
                )
            }
            self.prefix = prefix
            self.target = target
            self.methods = methods
            let names = forwardedFields.union(returnedFields).map(\.canonicalName)
            let own = names.first { name in
                Self.ownFields.contains(name) || Self.ownPrefixes.contains(where: name.hasPrefix)
            }
            if let own {
                throw AuthError(
                    .invalidConfiguration,
                    "The field \(own) cannot be listed: the proxy controls it, or it is a hop-by-hop field."
                )
            }
            self.resource = resource
            self.provider = provider
            self.maximumRequestSize = maximumRequestSize
            self.maximumResponseSize = maximumResponseSize
            self.streamsRequests = streamsRequests
            self.streamsResponses = streamsResponses
            self.maximumStreamDuration = maximumStreamDuration
            self.forwardedFields = Set(forwardedFields.map(\.canonicalName))
            self.returnedFields = Set(returnedFields.map(\.canonicalName))
        }
    }
}
