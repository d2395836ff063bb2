package import AuthFlowEssentials
public import AuthFlowHTTP
public import AuthFlowJOSE
import AuthFlowJSON
public import AuthFlowTransport
import HTTPTypes
import Synchronization

/// The state of one issuer: its metadata, its keys, its DPoP nonces, and its clock offset.
///
/// Create one instance for each issuer and share it: any number of clients, users and tasks can use it concurrently.
/// The metadata is fetched once for all of them, and so are the keys.
///
/// ```swift
/// let server = AuthorizationServer(issuer: "https://id.example.com")
/// let idToken = try await server.verify(text, audience: "my-client")
/// ```
public final class AuthorizationServer: Sendable {
    /// The source of the metadata.
    package let source: any MetadataSource

    /// The clock, random number generator and environment.
    package let host: HostServices

    package let keys: KeySource
    package let dpopNonces = DPoPNonces()
    package let usedStates = UsedStates()
    package let transport: any HTTPTransport
    private let cache: MetadataCache
    private let offset = Mutex<TimeInterval?>(nil)

    /// Creates a server. No request is sent until one is needed.
    /// - Parameters:
    ///   - source: The source of the metadata, such as the provider's adapter.
    ///   - transport: Sends all requests to this server's endpoints; default: the system's.
    ///   - host: The clock, random number generator and environment; default: the system's.
    public init(
        _ source: any MetadataSource,
        transport: any HTTPTransport = SystemTransport(),
        host: HostServices = .system
    ) {
        self.source = source
        self.transport = transport
        self.host = host
        self.keys = KeySource(now: host.now)
        self.cache = MetadataCache(now: host.now)
    }

    /// The issuer, which is compared code point by code point.
    public var issuer: String { source.issuer }

    /// The server's metadata: cached for as long as `Cache-Control` allows, within bounds.
    /// - Throws: ``AuthError`` with `discovery_failed`, `issuer_mismatch`, `invalid_configuration` when the issuer is not a usable URL,
    ///   `temporarily_unavailable`, or a network error. A failure is cached and
    ///   rethrown for a short time without another request.
    public func metadata() async throws -> ProviderMetadata {
        try await cache.metadata { [self] in try await discover() }
    }

    /// The gauges `authflow_keys_fetch_failed` and, once keys have been fetched, `authflow_keys_age_seconds`.
    package var gauges: [FlowGauge] {
        [FlowGauge("authflow_keys_fetch_failed", keys.lastFetchFailed ? 1 : 0)]
            + (keys.age.map { [FlowGauge("authflow_keys_age_seconds", $0)] } ?? [])
    }

    /// The metadata to use when no key matches a signature, or the keys cannot be fetched: refetched, unless it was fetched very recently. Only
    /// this caller waits for it, because a forged signature must not delay others.
    package func refetchedMetadata() async throws -> ProviderMetadata {
        try await cache.metadata(forcesRefetch: true) { [self] in try await discover() }
    }

    /// The metadata for a program that must not block, such as an API server: the old document is used while a new one
    /// is being fetched.
    package func metadataWhileRevalidating() async throws -> ProviderMetadata {
        try await cache.metadata(waits: false) { [self] in try await discover() }
    }

    /// The metadata, supplemented when it lacks an endpoint: a provider's RFC 8414 document may have members that its
    /// OpenID Connect document lacks.
    package func metadata(with endpoint: EndpointPath) async throws -> ProviderMetadata {
        let metadata = try await metadata()
        guard metadata[keyPath: endpoint] == nil, metadata.document == .ofIssuer else { return metadata }
        do {
            return try await cache.supplemented { [self] in
                try await Discovery(issuer: issuer, context: context).supplement(metadata)
            }
        } catch is AuthError {
            // The endpoint remains unavailable for now.
            return metadata
        }
    }

    private func discover() async throws -> ProviderMetadata {
        let metadata = try await source.metadata(in: context)
        // RFC 8414 section 3.3: "The issuer value returned MUST be identical to the authorization server's issuer identifier".
        guard metadata.issuer.isIdentical(to: issuer) else {
            throw AuthError(.issuerMismatch, "The metadata of \"\(issuer)\" has the issuer \"\(metadata.issuer)\".")
        }
        return metadata
    }

    private var context: ServerContext {
        ServerContext(issuer: issuer, host: host) { [self] in try await send($0) }
    }

    /// The most recently fetched metadata; nil before the first fetch.
    package var knownMetadata: ProviderMetadata? { cache.known }

    /// Marks the metadata as stale after one of its endpoints turned out not to exist, so that the next use fetches it
    /// again.
    package func markMetadataStale() { cache.expire() }

    /// Sends a request with limits on time and size, without following redirects.
    package func send(_ request: TransportRequest) async throws -> TransportResponse {
        try await ExchangeLimits.send(request, by: transport, clock: host.clock)
    }

    /// Like ``send(_:)``, but returns as soon as the response headers have arrived. The timeout applies to the headers.
    package func stream(_ request: TransportRequest, body: UploadBody? = nil) async throws -> ResponseStream {
        let response =
            if let body { try await transport.stream(request, body: body) } else { try await transport.stream(request) }
        do {
            try ExchangeLimits.rejectRedirect(response.head, to: request)
        } catch {
            response.body.cancel()
            throw error
        }
        return response
    }

    /// The number of seconds by which this machine's clock is ahead of the server's; nil until a response has included the
    /// server's time.
    package var clockOffset: TimeInterval? { offset.withLock { $0 } }

    /// Records the server's time from a response, and returns the number of seconds by which this machine's clock is ahead.
    package func updateClockOffset(from response: TransportResponse) -> TimeInterval? {
        let difference = response.clockOffset(at: host.now())
        if let difference { offset.withLock { $0 = difference } }
        return difference
    }

    /// The correction for this machine's clock, in seconds.
    package var clockCorrection: TimeInterval { TransportResponse.clockCorrection(for: clockOffset) }

    /// The time according to the server's clock.
    package var time: Date { host.now() - clockCorrection }
}

extension AuthorizationServer: CustomStringConvertible, NonReflectable {
    /// The issuer.
    public var description: String { issuer }
}

/// The metadata document at one of the issuer's well-known URLs.
struct DiscoveredMetadata: MetadataSource {
    let issuer: String
    let tokenIssuer: TokenIssuerTemplate?

    func metadata(in context: ServerContext) async throws -> ProviderMetadata {
        try await context.discover(tokenIssuer: tokenIssuer)
    }
}

extension AuthorizationServer {
    /// Creates a server that implements OpenID Connect, or OAuth 2.0 with a metadata document.
    /// - Parameters:
    ///   - issuer: The issuer, exactly as in the provider's metadata.
    ///   - tokenIssuer: The template for the issuers in tokens, if each tenant has its own issuer; default: the issuer.
    ///     The metadata may then contain the template instead of the issuer.
    ///   - transport: Sends every request to this server; default: the system's.
    ///   - host: The clock, random number generator and environment; default: the system's.
    public convenience init(
        issuer: String,
        tokenIssuer: TokenIssuerTemplate? = nil,
        transport: any HTTPTransport = SystemTransport(),
        host: HostServices = .system
    ) {
        self.init(DiscoveredMetadata(issuer: issuer, tokenIssuer: tokenIssuer), transport: transport, host: host)
    }
}

/// The `state` values whose authorization responses were accepted, so that none is accepted twice in this process.
package final class UsedStates: Sendable {
    /// The maximum number of stored values; the oldest are removed first. A code is valid for only a few minutes.
    private static let limit = 8192

    private let states = Mutex<(recent: Set<Secret>, earlier: Set<Secret>)>(([], []))

    /// Marks a state as used.
    /// - Returns: false when it was already used.
    package func use(_ state: Secret) -> Bool {
        states.withLock { states in
            guard !states.earlier.contains(state), states.recent.insert(state).inserted else { return false }
            if states.recent.count >= Self.limit / 2 { states = ([], states.recent) }
            return true
        }
    }
}
