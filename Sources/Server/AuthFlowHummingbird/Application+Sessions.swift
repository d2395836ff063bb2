#if Hummingbird
public import AuthFlowServer
public import Hummingbird
import ServiceLifecycle
import UnixSignals

extension Application {
    /// Runs the application together with a ``SessionService`` until SIGTERM or SIGINT.
    ///
    /// ```swift
    /// let application = Application(router: router)
    /// try await application.runService(sessions: server)
    /// ```
    ///
    /// Use it instead of `runService()`, which waits indefinitely for the responses in progress: a client that stops
    /// reading would prevent the process from exiting, and the supervisor would kill it before refreshed tokens are stored.
    /// - Parameters:
    ///   - server: The session server.
    ///   - shutdownTimeout: The time for which requests in progress may continue after the signal; default: five seconds. After that, their
    ///     connections are closed, and every service of the application stops immediately, so run any service that a custom store depends on
    ///     outside the application. The session service may wait for another ten seconds, so the supervisor's stop timeout must be longer
    ///     than the sum of both times.
    /// - Throws: The error that prevented the application from starting, such as an address that is already in use.
    public func runService(sessions server: SessionServer, shutdownTimeout: Duration = .seconds(5)) async throws {
        var application = self
        // Services stop in reverse order: first the requests, then the refreshes.
        application.addServices(SessionService(server: server, logger: logger))
        var configuration = ServiceGroupConfiguration(
            services: [application],
            gracefulShutdownSignals: [.sigterm, .sigint],
            logger: logger
        )
        configuration.maximumGracefulShutdownDuration = shutdownTimeout
        try await ServiceGroup(configuration: configuration).run()
    }
}
#endif
