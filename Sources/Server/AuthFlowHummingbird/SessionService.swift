#if Hummingbird
public import AuthFlowServer
public import Logging
public import ServiceLifecycle

/// What a session server does while the application runs: it removes ended sessions, and before the process ends it waits until every
/// refresh under way is stored.
///
/// ```swift
/// var application = Application(router: router)
/// application.addServices(SessionService(server: server))
/// try await application.runService()
/// ```
public struct SessionService: Service {
    private let server: SessionServer
    private let patience: Duration
    private let logger: Logger

    /// Creates the service.
    /// - Parameters:
    ///   - server: The sessions.
    ///   - patience: How long the process waits at its end; default: ten seconds. Give the supervisor of the process longer.
    ///   - logger: Logs that refreshed tokens could not be stored.
    public init(
        server: SessionServer,
        patience: Duration = .seconds(10),
        logger: Logger = Logger(label: "AuthFlow")
    ) {
        self.server = server
        self.patience = patience
        self.logger = logger
    }

    /// Runs until the application is shut down.
    public func run() async throws {
        await cancelWhenGracefulShutdown { [server] in await server.removeEndedSessions() }
        // In a task of its own: one that is cancelled with the application would not wait.
        let drain = Task { [server, patience] in await server.drain(within: patience) }
        guard await !drain.value else { return }
        logger.critical(
            "Refreshed tokens were not written to the store before the process ended: their users may have to sign in again."
        )
    }
}
#endif
