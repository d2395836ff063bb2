public import AuthFlow
import AuthFlowEssentials
import AuthFlowSystem
import Synchronization

/// Accepts redirects that the user pastes at the terminal while a user agent waits for a redirect: from a browser on another
/// machine, or from a browser in which the last page did not load.
///
/// ```swift
/// let redirects = TerminalRedirects()
/// let client = try makeClient(observer: redirects.observer)
/// let signIn = try await redirects.accepting(for: client) { try await client.signIn() }
/// ```
///
/// The pasted text is passed to ``/AuthFlow/AuthClient/resume(with:)-(String)``, and is validated like any redirect.
public final class TerminalRedirects: Sendable {
    /// A message for the user.
    public enum Notice: Sendable, Hashable {
        /// A redirect may be pasted now.
        case ready
        /// The pasted text is not the expected redirect.
        case refused
        /// The line has the maximum length of a terminal line, so it may have been truncated.
        case tooLong
    }

    /// The maximum length of a terminal's lines (`termios(3)`: 4096 with the newline).
    private static let longestLine = 4095

    private let isEnabled: Bool
    private let notify: @Sendable (Notice) -> Void

    private struct State {
        /// Whether a URL has been shown, and the client waits for the response.
        var isWaiting = false
        /// Receives each change of ``isWaiting``.
        var changes: AsyncStream<Bool>.Continuation?
    }

    private let state = Mutex(State())

    /// Creates a reader.
    /// - Parameters:
    ///   - isEnabled: Whether there is a terminal to read; default: detected.
    ///   - notify: Shows a message to the user; default: in English, on standard error.
    public init(
        isEnabled: Bool = LaunchEnvironment.current().hasTerminal,
        notify: (@Sendable (Notice) -> Void)? = nil
    ) {
        self.isEnabled = isEnabled
        self.notify = notify ?? Self.writeNotice
    }

    /// The observer to pass to the client, or to call from the client's own observer. It tracks when a URL is shown and
    /// when the wait for the response ends.
    public var observer: @Sendable (FlowEvent) -> Void {
        { [self] event in
            guard event.step == .userAgentVisit || event.step == .endSession else { return }
            switch event.progress {
            case .note where event.url != nil: change(isWaiting: true)
            case .succeeded, .failed, .cancelled: change(isWaiting: false)
            default: break
            }
        }
    }

    private func change(isWaiting: Bool) {
        state.withLock { state in
            state.isWaiting = isWaiting
            state.changes?.yield(isWaiting)
        }
    }

    /// Runs `body`, and meanwhile passes pasted redirects to a client. Only one call at a time reads the terminal.
    /// - Throws: Any error that `body` throws.
    public func accepting<Return: Sendable>(
        for client: AuthClient,
        _ body: () async throws -> Return
    ) async throws -> Return {
        try await accepting(by: { client.resume(with: $0) }, body)
    }

    /// Like ``accepting(for:_:)``, for another kind of client.
    /// - Parameters:
    ///   - resume: Passes a URL to the client, and returns whether the client was waiting for it.
    ///   - body: The sign-in.
    public func accepting<Return: Sendable>(
        by resume: @escaping @Sendable (String) -> Bool,
        _ body: () async throws -> Return
    ) async throws -> Return {
        guard isEnabled else { return try await body() }
        return try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { await self.read(resume) }
            defer { group.cancelAll() }
            return try await body()
        }
    }

    /// Reads from the terminal only while a redirect is expected, because other code may read it at other times.
    private func read(_ resume: @escaping @Sendable (String) -> Bool) async {
        var reading: Task<Void, Never>?
        let (waitingStates, changes) = AsyncStream<Bool>.makeStream()
        state.withLock { state in
            changes.yield(state.isWaiting)
            state.changes = changes
        }
        for await isWaiting in waitingStates {
            reading?.cancel()
            await reading?.value
            reading = isWaiting ? Task { await self.readLines(resume) } : nil
        }
        reading?.cancel()
        await reading?.value
    }

    private func readLines(_ resume: @escaping @Sendable (String) -> Bool) async {
        _ = await TerminalLine.reading { [self] in readLines(isCancelled: $0, deliver: resume) }
    }

    private func readLines(isCancelled: () -> Bool, deliver: (String) -> Bool) {
        let terminal = unsafe open("/dev/tty", O_RDWR | O_NOCTTY | O_CLOEXEC)
        guard terminal >= 0 else { return }
        defer { close(terminal) }
        notify(.ready)
        let line = TerminalLine(terminal: terminal, maximumSize: 2 * Self.longestLine)
        while let text = try? line.read(waitsInBackground: true, isCancelled: isCancelled) {
            let url = Self.address(in: text)
            guard !url.isEmpty, !deliver(url) else { continue }
            notify(text.utf8.count >= Self.longestLine ? .tooLong : .refused)
        }
    }

    /// A pasted line without surrounding spaces, quotes and angle brackets.
    static func address(in text: String) -> String {
        let dropped = Set(" \t\r\"'<>".unicodeScalars)
        var scalars = text.unicodeScalars.drop { dropped.contains($0) }
        while let last = scalars.last, dropped.contains(last) { scalars.removeLast() }
        return String(scalars)
    }

    /// Shows the message on standard error.
    private static func writeNotice(_ notice: Notice) {
        let text =
            switch notice {
            case .ready:
                "If your browser is on another machine, or its last page does not load, paste that page's URL here."
            case .refused:
                "That is not the URL that this sign-in is waiting for. Paste the complete URL of the last page."
            case .tooLong:
                "A terminal truncates lines after 4095 characters, and this URL may have been longer. Sign in with a browser that can reach this machine."
            }
        TerminalDevicePresenter.writeToStandardError(text)
    }
}
