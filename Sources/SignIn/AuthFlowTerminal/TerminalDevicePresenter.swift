public import AuthFlow
import AuthFlowEssentials
import AuthFlowSystem

/// Shows the user code of a device authorization in a terminal, with a QR code if possible.
///
/// Writes to standard error by default, because standard output is for results. If standard error is not a terminal, the wait
/// for the user is at most five minutes.
public struct TerminalDevicePresenter: Sendable {
    /// The maximum time to wait for a user who may not see the code, because standard error is not a terminal.
    private static let nonTerminalTimeout = Duration.seconds(300)

    public let maximumWait: Duration?

    private let showsQRCode: Bool
    private let isColored: Bool
    private let write: @Sendable (_ text: String) -> Void

    /// Creates a presenter.
    /// - Parameters:
    ///   - showsQRCode: Whether to draw a QR code; default: true if standard error is a terminal and `TERM` is not
    ///     `dumb`. The QR code is omitted if libqrencode is not installed or the terminal has too few columns.
    ///   - isColored: Whether the QR code sets its own colors; default: true unless `NO_COLOR` is set
    ///     (https://no-color.org).
    ///   - write: Writes the lines; default: to standard error.
    public init(
        showsQRCode: Bool? = nil,
        isColored: Bool? = nil,
        write: (@Sendable (_ text: String) -> Void)? = nil
    ) {
        let hasTerminal = isatty(STDERR_FILENO) == 1
        self.maximumWait = hasTerminal ? nil : Self.nonTerminalTimeout
        let environment = HostServices.system.environment
        self.showsQRCode = showsQRCode ?? (hasTerminal && environment["TERM"] != "dumb")
        self.isColored = isColored ?? (environment["NO_COLOR"]?.isEmpty != false)
        self.write = write ?? Self.writeToStandardError
    }

    /// The number of columns of the terminal; unlimited when standard error is not a terminal.
    private static var columns: Int {
        var size = winsize()
        guard unsafe ioctl(STDERR_FILENO, UInt(TIOCGWINSZ), &size) == 0, size.ws_col > 0 else { return .max }
        return Int(size.ws_col)
    }

    /// Writes lines to standard error.
    static func writeToStandardError(_ text: String) {
        _ = SystemCall.write(Array("\(text)\n".utf8), to: STDERR_FILENO)
    }
}

extension TerminalDevicePresenter: DevicePresenter {
    public func present<Return: Sendable>(
        _ authorization: DeviceAuthorization,
        while body: nonisolated(nonsending) () async throws -> Return
    ) async throws -> Return {
        let minutes = max(1, Int(authorization.lifetime.components.seconds / 60))
        write(
            """
            To sign in, open this URL on any device:

            \(authorization.verificationURI.url)

            and enter this code:  \(authorization.userCode)

            """
        )
        if let complete = authorization.verificationURIComplete {
            write("Or open this URL, and check that it shows the same code:\n\n\(complete.url)\n")
        }
        let link = authorization.verificationURIComplete ?? authorization.verificationURI
        if showsQRCode, let code = QRCode(link.url), code.width <= Self.columns {
            write(code.terminalText(isColored: isColored))
        }
        write("Waiting for you to finish, for at most \(minutes) min (Ctrl-C to stop).")
        return try await body()
    }
}
