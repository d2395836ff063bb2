import AuthFlow
import AuthFlowLoopback

/// Serves an emulator on a port of the loopback interface.
public enum EmulatorServer {
    /// Starts a server, runs `body`, and stops the server.
    /// - Parameters:
    ///   - port: The port; nil for any free port.
    ///   - makeEmulator: Creates the emulator for the given origin.
    ///   - body: The work to do while the server runs.
    /// - Throws: ``/AuthFlow/AuthError`` with `port_busy` or `user_agent_failed` when the server cannot be opened; any error that the closures throw.
    public static func run<Emulator: ProviderEmulator, Return: Sendable>(
        port: Int? = nil,
        _ makeEmulator: (_ origin: String) throws -> Emulator,
        _ body: (Emulator) async throws -> Return
    ) async throws -> Return {
        var emulator: Emulator?
        return try await LoopbackServer.run(host: "127.0.0.1", port: port) { port in
            let made = try makeEmulator("http://127.0.0.1:\(port)")
            emulator = made
            return { request, body in await made.handle(request, body: body) }
        } _: { _ in
            guard let emulator else { throw AuthError(.userAgentFailed, "The emulator did not start.") }
            return try await body(emulator)
        }
    }
}
