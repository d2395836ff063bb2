import AuthFlow
import AuthFlowLog
import AuthFlowTesting
import ConformanceRows
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

@Suite struct LoggingTests {
    @Test func logsEventsWithoutSecrets() async throws {
        let kept = MemoryLogHandler.Lines()
        let logger = Logger(label: "test") { _ in MemoryLogHandler(kept: kept) }
        try await EmulatorScene.with(.inProcess) { scene in
            let client = try scene.client(observer: FlowEvent.logger(logger))
            let tokens = try await client.signIn().credential.tokens
            scene.emulator.fault = .idToken(.wrongNonce)
            await #expect(throws: AuthError.self) { try await client.signIn() }
            let lines = kept.lines.withLock { $0 }
            #expect(lines.contains { $0.0 == .debug && $0.1.contains("storing succeeded") })
            #expect(lines.contains { $0.0 == .warning && $0.1.contains("invalid_id_token") })
            #expect(!lines.contains { $0.1.contains(tokens.accessToken.exposed) || $0.1.contains("wonderland") })
        }
    }
}
