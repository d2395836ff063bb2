import AuthFlowHTTP
import AuthFlowSystem

/// The width of the terminal, for formatting the help.
enum ScreenWidth {
    /// The argument parser crashes the process if the width is too small for its indentation.
    private static let narrowest = 40

    /// Replaces a width for which the help cannot be formatted: the value of `COLUMNS`, or the terminal's width.
    static func requireUsable() {
        var size = winsize()
        let hasSize = unsafe ioctl(STDOUT_FILENO, UInt(TIOCGWINSZ), &size) == 0 && size.ws_col > 0
        let columns =
            ToolEnvironment.host.environment["COLUMNS"].flatMap { Int($0) } ?? (hasSize ? Int(size.ws_col) : nil)
        if let columns, columns < narrowest { unsafe setenv("COLUMNS", "\(narrowest)", 1) }
    }
}
