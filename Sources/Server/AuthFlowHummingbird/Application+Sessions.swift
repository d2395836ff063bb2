#if Hummingbird
public import AuthFlowServer
public import Hummingbird
import ServiceLifecycle
import UnixSignals

extension ApplicationProtocol {
    /// Runs the application together with a ``SessionService`` until SIGTERM or SIGINT.
    ///
    /// ```swift
    /// let application = Application(router: router)
    /// try await application.runService(sessions: server)
    /// ```
    ///
    /// Use it instead of `runService()`, which waits without limit for the responses in progress: a client that stops
    /// reading would prevent the process from exiting, and the supervisor would kill it before refreshed tokens are stored.
    /// - Parameters:
    ///   - server: The session server.
    ///   - patience: How long requests in progress may continue after the signal; default: five seconds. Then their
    ///     connections are closed. The session service may wait for another ten seconds, so the supervisor's stop
    ///     timeout must be longer than the sum.
    /// - Throws: The error that prevented the application from starting, such as an address that is in use.
    public func runService(sessions server: SessionServer, patience: Duration = .seconds(5)) async throws {
        var configuration = ServiceGroupConfiguration(
            // The group stops its services in reverse order: no request is in progress when the refreshes are awaited.
            services: [SessionService(server: server, logger: logger), self],
            gracefulShutdownSignals: [.sigterm, .sigint],
            logger: logger
        )
        configuration.maximumGracefulShutdownDuration = patience
        try await ServiceGroup(configuration: configuration).run()
    }
}
#endif
