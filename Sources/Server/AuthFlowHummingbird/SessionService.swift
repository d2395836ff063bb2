#if Hummingbird
public import AuthFlowServer
public import Logging
public import ServiceLifecycle

/// The background service of a session server: it removes expired sessions, and at shutdown it waits until the
/// results of all refreshes in progress are stored, or until a time limit is reached.
///
/// `Application.runService(sessions:)` runs it. With a custom service group, add the service to the application and set
/// `maximumGracefulShutdownDuration`: by default, a graceful shutdown waits indefinitely for clients that do not read.
public struct SessionService: Service {
    private let server: SessionServer
    private let shutdownTimeout: Duration
    private let logger: Logger

    /// Creates the service.
    /// - Parameters:
    ///   - server: The session server.
    ///   - shutdownTimeout: The maximum time to wait at shutdown; default: ten seconds. The process supervisor's shutdown timeout
    ///     must be longer.
    ///   - logger: Logs a failure to store refreshed tokens.
    public init(
        server: SessionServer,
        shutdownTimeout: Duration = .seconds(10),
        logger: Logger = Logger(label: "AuthFlow")
    ) {
        self.server = server
        self.shutdownTimeout = shutdownTimeout
        self.logger = logger
    }

    /// Runs until the application is shut down.
    public func run() async throws {
        await cancelWhenGracefulShutdown { [server] in await server.removeEndedSessions() }
        // This runs in a separate task, because a task that is cancelled together with the application would not wait.
        let drain = Task { [server, shutdownTimeout] in await server.drain(within: shutdownTimeout) }
        guard await !drain.value else { return }
        logger.critical(
            "Refreshed tokens were not written to the store before the process exited: the affected users may have to sign in again."
        )
    }
}
#endif
