import AuthFlow
import AuthFlowTesting
import Expectations
import Foundation
import Synchronization
import Testing

@testable import AuthFlowTerminal

@Suite struct TerminalTests {
    /// The lines that a presenter writes for a code from the emulator.
    private func lines(showsQRCode: Bool) async throws -> [String] {
        let time = VirtualTime()
        let emulator = try OIDCEmulator(issuer: "https://id.example.com", now: { time.now })
        let lines = Mutex<[String]>([])
        let client = AuthClient(
            client: OAuthClient(
                server: AuthorizationServer(
                    Fixed(
                        metadata: ProviderMetadata(
                            issuer: emulator.issuer,
                            tokenEndpoint: Endpoint("https://id.example.com/token"),
                            deviceAuthorizationEndpoint: Endpoint("https://id.example.com/device_authorization")
                        )
                    ),
                    transport: InProcessTransport(emulator),
                    host: time.host
                ),
                registration: try ClientRegistration(clientID: "authflow-demo")
            ),
            methods: [
                .device(
                    TerminalDevicePresenter(showsQRCode: showsQRCode, isColored: true) { text in
                        lines.withLock { $0.append(text) }
                    }
                )
            ]
        )
        emulator.devicePollResponses = [.error("access_denied")]
        await expectError(.accessDenied) { try await client.signIn() }
        return lines.withLock { $0 }
    }

    @Test func showsTheVerificationURIAndTheUserCode() async throws {
        let text = try await lines(showsQRCode: false).joined(separator: "\n")
        #expect(text.contains("\nhttps://id.example.com/device\n"))
        #expect(text.contains("enter this code:  "))
        #expect(text.contains("?user_code="))
        // If standard error is not a terminal, the timeout is five minutes, because the user might not see the code.
        #expect(text.contains("5 min") || text.contains("10 min"))
        #expect(!text.contains("\u{1B}"))
    }

    @Test(.enabled(if: QRCode("x") != nil, "libqrencode is not installed"))
    func drawsAQRCode() async throws {
        let text = try await lines(showsQRCode: true).joined(separator: "\n")
        #expect(text.contains("\u{1B}[38;5;16;48;5;231m"))
        let code = try #require(QRCode("https://id.example.com/device?user_code=ABCD-EFGH"))
        let width = code.rows.count
        #expect(code.rows.allSatisfy { $0.count == width })
        // ISO/IEC 18004: a finder pattern in three corners, with concentric dark, light and dark squares, 7, 5 and 3
        // modules wide.
        let finder = ["#######", "#.....#", "#.###.#", "#.###.#", "#.###.#", "#.....#", "#######"]
        for (x, y) in [(0, 0), (width - 7, 0), (0, width - 7)] {
            let corner = (0..<7).map { row in
                String((0..<7).map { code.rows[y + row][x + $0] ? "#" : "." })
            }
            #expect(corner == finder)
        }
        let drawn = code.terminalText().split(separator: "\n")
        #expect(drawn.count == (width + 8 + 1) / 2)
    }

    @Test func readsLinesUntilTheTerminalIsClosed() throws {
        let pipe = Pipe()
        defer { try? pipe.fileHandleForReading.close() }
        let line = TerminalLine(terminal: pipe.fileHandleForReading.fileDescriptor, maximumSize: 4)
        try pipe.fileHandleForWriting.write(contentsOf: Data("abc\nabcd".utf8))
        try pipe.fileHandleForWriting.close()
        #expect(try line.read(isCancelled: { false }) == "abc")
        for message in ["The line is too long.", "The terminal was closed."] {
            let error = #expect(throws: AuthError.self) { try line.read(isCancelled: { false }) }
            #expect(error?.code == .userAgentFailed)
            #expect(error?.message == message)
        }
    }

    #if os(Linux)
    /// A handled signal interrupts poll(2), even if the handler does nothing.
    @Test func aSignalDoesNotEndTheWaitForALineOfANonblockingTerminal() throws {
        let pipe = Pipe()
        defer { try? pipe.fileHandleForReading.close() }
        let terminal = pipe.fileHandleForReading.fileDescriptor
        #expect(fcntl(terminal, F_SETFL, O_NONBLOCK) == 0)
        signal(SIGUSR2) { _ in }
        let isOver = Mutex(false)
        let (reader, hasStopped) = (pthread_self(), DispatchSemaphore(value: 0))
        Thread.detachNewThread {
            while !isOver.withLock({ $0 }) {
                pthread_kill(reader, SIGUSR2)
                // Without a pause, the reader might do nothing but handle signals.
                for _ in 0..<1000 { sched_yield() }
            }
            hasStopped.signal()
        }
        defer {
            isOver.withLock { $0 = true }
            hasStopped.wait()
        }
        let checks = Mutex(0)
        let line = TerminalLine(terminal: terminal, maximumSize: 4)
        #expect(throws: CancellationError.self) {
            try line.read {
                checks.withLock { count in
                    count += 1
                    return count > 20
                }
            }
        }
    }

    /// A pipe holds 64 KiB, so that several writes are needed.
    @Test("Text is written completely to a terminal that another program has made non-blocking")
    func writesAllTextToANonblockingTerminal() throws {
        var ends: [Int32] = [-1, -1]
        try #require(unsafe pipe(&ends) == 0)
        let output = ends[1]
        let input = FileHandle(fileDescriptor: ends[0], closeOnDealloc: true)
        try #require(fcntl(output, F_SETFL, O_NONBLOCK) == 0)
        let text = String(repeating: "x", count: 1024 * 1024)
        Thread.detachNewThread {
            TerminalPrompt.write(text, to: output)
            close(output)
        }
        #expect(try input.readToEnd()?.count == text.utf8.count)
    }
    #endif

    private static let hasTerminal = FileHandle(forUpdatingAtPath: "/dev/tty") != nil

    @Test(.enabled(if: !hasTerminal, "The test requires that there is no terminal."))
    func neitherAsksForNorShowsASecretWithoutATerminal() async throws {
        let asked = await #expect(throws: AuthError.self) { try await TerminalPrompt.ask("Password", isSecret: true) }
        #expect(asked?.code == .userAgentFailed)
        #expect(asked?.message.contains("no terminal for the prompt \"Password\"") == true, "\(asked?.message ?? "")")
        let shown = await #expect(throws: AuthError.self) { try await TerminalPrompt.show("key", isSecret: true) }
        #expect(shown?.code == .userAgentFailed)
        #expect(shown?.message.contains("no terminal on which to show it") == true, "\(shown?.message ?? "")")
    }

    @Test func drawsNoQRCodeForTextThatIsTooLong() {
        #expect(QRCode(String(repeating: "x", count: 5000)) == nil)
    }
}

private struct Fixed: ProviderAdapter {
    var issuer: String { metadata.issuer }
    let metadata: ProviderMetadata
    func metadata(in context: ServerContext) -> ProviderMetadata { metadata }
}
