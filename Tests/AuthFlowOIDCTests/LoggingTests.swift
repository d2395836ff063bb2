import AuthFlow
import AuthFlowLog
import AuthFlowTesting
import ConformanceRows
import Expectations
import Logging
import Synchronization
import Testing

/// Collects the log lines.
private struct MemoryLogHandler: LogHandler {
    final class Lines: Sendable {
        let lines = Mutex<[(Logger.Level, String)]>([])
    }

    let kept: Lines
    var metadata: Logger.Metadata = [:]
    var logLevel = Logger.Level.trace

    subscript(metadataKey key: String) -> Logger.Metadata.Value? {
        get { metadata[key] }
        set { metadata[key] = newValue }
    }

    func log(event: LogEvent) {
        kept.lines.withLock { $0.append((event.level, "\(event.message) \(event.metadata ?? [:])")) }
    }
}

/// The log messages of a service.
@Suite struct LoggingTests {
    @Test func logsEventsWithoutSecrets() async throws {
        let kept = MemoryLogHandler.Lines()
        let logger = Logger(label: "test") { _ in MemoryLogHandler(kept: kept) }
        try await EmulatorEnvironment.with(.inProcess) { environment in
            let client = try environment.client(observer: FlowEvent.logger(logger))
            let tokens = try await client.signIn().credential.tokens
            environment.emulator.fault = .idToken(.wrongNonce)
            await expectError(.invalidIDToken) { try await client.signIn() }
            let lines = kept.lines.withLock { $0 }
            #expect(lines.contains { $0.0 == .debug && $0.1.contains("storing succeeded") })
            #expect(lines.contains { $0.0 == .warning && $0.1.contains("invalid_id_token") })
            #expect(lines.contains { $0.1.contains("Check that this machine's clock is correct") })
            #expect(!lines.contains { $0.1.contains(tokens.accessToken.exposed) || $0.1.contains("wonderland") })
        }
    }

    @Test(arguments: [true, false])
    func logsCancellationAtInfoAndOtherErrorsAtWarning(_ isCancelled: Bool) async throws {
        let kept = MemoryLogHandler.Lines()
        let logger = Logger(label: "test") { _ in MemoryLogHandler(kept: kept) }
        let environment = EmulatorEnvironment(try OIDCEmulator(issuer: "https://id.example.com"))
        let transport = ThrowingTransport(error: isCancelled ? CancellationError() : DatabaseIsDown())
        let client = try environment.client(transport: transport, observer: FlowEvent.logger(logger))
        await #expect(throws: (any Error).self) { try await client.signIn() }
        let lines = kept.lines.withLock { $0 }
        #expect(lines.contains { $0.0 == .warning && $0.1.contains("failed (unknown error)") } == !isCancelled)
        #expect(lines.contains { $0.0 == .info && $0.1.contains("discovery cancelled") } == isCancelled)
    }
}

private struct DatabaseIsDown: Error {}

/// An app's custom transport, which throws custom errors.
private struct ThrowingTransport: HTTPTransport {
    let error: any Error
    func send(_ call: TransportRequest) async throws -> TransportResponse { throw error }
}
