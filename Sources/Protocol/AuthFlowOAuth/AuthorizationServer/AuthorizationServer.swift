import AuthFlowEssentials
public import AuthFlowHTTP
import AuthFlowJOSE
import AuthFlowJSON
public import AuthFlowTransport
import HTTPTypes
import Synchronization

/// What is known about one issuer: its metadata and keys, the DPoP nonces it asks for, and how far its clock is away.
///
/// Make one for each issuer and share it: any number of clients, users and tasks may use it at once. However many wait, one
/// request fetches the metadata and one the keys.
///
/// ```swift
/// let server = AuthorizationServer(issuer: "https://id.example.com")
/// let idToken = try await server.verify(text, audience: "my-client")
/// ```
public final class AuthorizationServer: Sendable {
    /// The adapter, which knows where the provider departs from the standards.
    public let adapter: any ProviderAdapter

    /// Time, randomness and environment.
    public let host: HostServices

    let keys: KeySource
    let dpopNonces = DPoPNonces()
    let usedStates = UsedStates()
    package let transport: any HTTPTransport
    private let cache: MetadataCache
    private let offset = Mutex<TimeInterval?>(nil)

    /// Creates a server. Nothing is requested before it is needed.
    /// - Parameters:
    ///   - adapter: The adapter of the provider.
    ///   - transport: Sends every request that is about this server; default: the system's.
    ///   - host: Time, randomness and environment; default: the system's.
    public init(
        _ adapter: any ProviderAdapter,
        transport: any HTTPTransport = SystemTransport(),
        host: HostServices = .system
    ) {
        self.adapter = adapter
        self.transport = transport
        self.host = host
        self.keys = KeySource(now: host.now)
        self.cache = MetadataCache(now: host.now)
    }

    /// The issuer, compared code point by code point wherever it appears.
    public var issuer: String { adapter.issuer }

    /// The server's metadata: cached for as long as `Cache-Control` says, within bounds.
    /// - Throws: ``AuthError`` with `discovery_failed`, `issuer_mismatch`, or a code of the network's. A failure is repeated
    ///   for a moment without a request.
    public func metadata() async throws -> ProviderMetadata {
        try await cache.metadata { [self] in try await discover() }
    }

    /// `authflow_keys_fetch_failed`, and once keys were fetched `authflow_keys_age_seconds`.
    package var gauges: [FlowGauge] {
        [FlowGauge("authflow_keys_fetch_failed", keys.lastFetchFailed ? 1 : 0)]
            + (keys.age.map { [FlowGauge("authflow_keys_age_seconds", $0)] } ?? [])
    }

    /// The metadata, and the old one while it is fetched again: for a program that has no time to wait, as an API.
    package func metadataWithoutWaiting() async throws -> ProviderMetadata {
        try await cache.metadata(waits: false) { [self] in try await discover() }
    }

    /// The metadata, supplemented when it lacks an endpoint: a provider may describe in its RFC 8414 document what the one of
    /// OpenID Connect lacks.
    package func metadata(with endpoint: EndpointPath) async throws -> ProviderMetadata {
        let metadata = try await metadata()
        guard metadata[keyPath: endpoint] == nil, metadata.document == .ofIssuer else { return metadata }
        do {
            return try await cache.supplemented { [self] in
                try await Discovery(issuer: issuer, context: context).supplement(metadata)
            }
        } catch is AuthError {
            // What is missing stays missing for now.
            return metadata
        }
    }

    private func discover() async throws -> ProviderMetadata {
        let metadata = try await adapter.metadata(in: context)
        // RFC 8414 section 3.3: "The issuer value returned MUST be identical to the authorization server's issuer identifier".
        guard metadata.issuer.isIdentical(to: issuer) else {
            throw AuthError(.issuerMismatch, "The metadata of \"\(issuer)\" names the issuer \"\(metadata.issuer)\".")
        }
        return metadata
    }

    private var context: ServerContext {
        ServerContext(issuer: issuer, host: host) { [self] in try await send($0) }
    }

    /// The metadata that was fetched last, for messages; nil before.
    var knownMetadata: ProviderMetadata? { cache.known }

    /// Has the metadata fetched again at the next use, after an endpoint in it turned out not to exist.
    func doubtMetadata() { cache.expire() }

    /// Sends a request, bounded in time and size, following no redirect.
    package func send(_ request: TransportRequest) async throws -> TransportResponse {
        try await ExchangeLimits.send(request, by: transport, clock: host.clock)
    }

    /// As ``send(_:)``, and returns as soon as the head of the response has arrived. The timeout is for the head.
    func stream(_ request: TransportRequest) async throws -> ResponseStream {
        let response = try await transport.stream(request)
        do {
            try ExchangeLimits.refuseRedirect(response.head, to: request)
        } catch {
            response.body.cancel()
            throw error
        }
        return response
    }

    /// How far this machine's clock is ahead of the server's, in seconds; nil until a response has said the server's time.
    var clockOffset: TimeInterval? { offset.withLock { $0 } }

    /// Learns the server's time from a response, and returns how far this machine's clock is ahead of it.
    func learnClock(from response: TransportResponse) -> TimeInterval? {
        guard let date = response.date else { return nil }
        let difference = host.now().timeIntervalSince(date)
        offset.withLock { $0 = difference }
        return difference
    }

    /// How much this machine's clock is corrected by, in seconds. `Date` has whole seconds, so a small difference says nothing, and
    /// a day or more is a fault of the server's.
    var clockCorrection: TimeInterval {
        guard let offset = clockOffset, 5...86_400 ~= abs(offset) else { return 0 }
        return offset
    }

    /// The time by the server's clock.
    var time: Date { host.now() - clockCorrection }
}

extension AuthorizationServer: CustomStringConvertible, WithoutReflection {
    /// The issuer.
    public var description: String { issuer }
}

/// The `state` values whose authorization responses were accepted, so that none is accepted twice in this process.
final class UsedStates: Sendable {
    /// The most that are remembered; the oldest are forgotten first. A code is good for minutes.
    private static let limit = 8192

    private let states = Mutex<(recent: Set<Secret>, earlier: Set<Secret>)>(([], []))

    /// Uses a state up.
    /// - Returns: false when it was used before.
    func use(_ state: Secret) -> Bool {
        states.withLock { states in
            guard !states.earlier.contains(state), states.recent.insert(state).inserted else { return false }
            if states.recent.count >= Self.limit / 2 { states = ([], states.recent) }
            return true
        }
    }
}
