import HTTPTypes
import Synchronization

/// What every flow works with: one provider, one client, one way to the network, and what was learnt about the provider.
final class Engine: Sendable {
    let provider: any ProviderAdapter
    let settings: ClientSettings
    let host: HostServices
    let keys: KeySource
    let transport: any HTTPTransport
    let shared: SharedCredentialStore?
    let dpopNonces = DPoPNonces()
    let visits = WaitingVisits()
    /// What has to come to its end when the tasks that wait for it are cancelled.
    let unfinished: UnfinishedWork
    private let known = Mutex(Known())

    /// What is known about the provider.
    private struct Known {
        var metadata: ProviderMetadata?
        var supplement = Supplement.none
    }

    /// What became of the search for a second metadata document.
    private enum Supplement {
        case none
        case running(SharedTask<ProviderMetadata>)
        case finished
    }

    init(
        provider: any ProviderAdapter,
        settings: ClientSettings,
        transport: any HTTPTransport,
        host: HostServices,
        shared: SharedCredentialStore? = nil
    ) {
        self.provider = provider
        self.settings = settings
        self.transport = transport
        self.host = host
        self.shared = shared
        self.keys = KeySource(now: host.now)
        self.unfinished = UnfinishedWork()
    }

    /// What adapters are lent.
    var context: ProviderContext { ProviderContext(engine: self) }

    /// What the standards call an error of this provider's.
    func standardName(of error: ProviderError?) -> String? {
        error.map { provider.standardErrorNames[$0.error] ?? $0.error }
    }

    /// The provider's metadata, found once in the life of the client.
    func metadata() async throws -> ProviderMetadata {
        if let known = known.withLock({ $0.metadata }) { return known }
        let found = try await provider.metadata(in: context)
        // Another task may have found more meanwhile.
        return known.withLock { known in
            let result = known.metadata ?? found
            known.metadata = result
            return result
        }
    }

    /// The metadata with what a second document adds, which is looked for once in the life of the client. A search that fails for
    /// a moment's reason counts for nothing; one caller's cancellation ends no other's wait.
    /// - Parameter search: Returns the metadata to use from now on; throws when nothing has been learnt.
    func supplementedMetadata(
        _ search: @escaping @Sendable () async throws -> ProviderMetadata
    ) async throws -> ProviderMetadata {
        let task = known.withLock { known -> SharedTask<ProviderMetadata>? in
            switch known.supplement {
            case .finished: return nil
            case .running(let task): return task
            case .none:
                let task = SharedTask { [self] in
                    do {
                        let found = try await search()
                        self.known.withLock {
                            $0.metadata = found
                            $0.supplement = .finished
                        }
                        return found
                    } catch {
                        self.known.withLock { $0.supplement = .none }
                        throw error
                    }
                }
                known.supplement = .running(task)
                return task
            }
        }
        guard let task else { return try await metadata() }
        return try await task.value()
    }

    /// Sends a back-channel request as a form (RFC 6749 section 3.2: "The client MUST use the HTTP "POST" method").
    /// - Parameters:
    ///   - request: The request.
    ///   - scopes: Those that are granted when neither the request nor the response names any.
    ///   - key: The key that the tokens it asks for are, or are to be, bound to.
    func send(_ request: ProviderRequest, scopes: [String], key: DPoPKey? = nil) async throws -> ProviderResponse {
        var request = request
        request.headerFields[.accept] = "application/json"
        settings.authentication.authenticate(&request, clientID: settings.clientID)
        try await provider.prepare(&request, in: context)
        let scopes = request.scopes ?? scopes
        // The adapter may read how the client proves who it is, and not change it.
        settings.authentication.authenticate(&request, clientID: settings.clientID)
        request.headerFields[.contentType] = "application/x-www-form-urlencoded"
        let body = FormURLEncoding.encodeForm(try request.allParameters())
        let call = TransportRequest(
            .post,
            request.endpoint,
            headerFields: request.headerFields,
            body: Array(body.utf8)
        )
        let response = try await send(call, provenBy: key)
        try response.requireAvailable(from: request.endpoint.host, now: host.now())
        return ProviderResponse(purpose: request.purpose, endpoint: request.endpoint, http: response, scopes: scopes)
    }
}
