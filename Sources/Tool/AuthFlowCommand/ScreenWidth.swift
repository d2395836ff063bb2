import AuthFlowHTTP
import Foundation

/// The width of the terminal, for the help.
enum ScreenWidth {
    /// The argument parser stops the process if its indentation does not fit.
    private static let narrowest = 40

    /// Removes a variable `COLUMNS` that the help cannot be formatted for.
    static func requireUsable() {
        guard let columns = ToolEnvironment.host.environment["COLUMNS"], Int(columns).map({ $0 < narrowest }) ?? false
        else { return }
        unsafe unsetenv("COLUMNS")
    }
}
