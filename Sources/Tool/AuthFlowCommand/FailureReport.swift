import ArgumentParser
import AuthFlow

/// A failure as JSON on standard output, for a program that has requested JSON. The message for the user is still
/// written to standard error.
struct FailureReport {
    private let json: JSON

    /// The commands whose standard output, or whose arguments after the options, belong to another program.
    private static let others = ["curl", "mcp", "credential", "exec"]

    /// - Returns: nil when no JSON was requested, a result has been printed, or standard output is for another program.
    init?(_ error: any Error, arguments: [String] = CommandLine.arguments) {
        let own = ProgramName.arguments(arguments)
        let isFormat = zip(own, own.dropFirst()).contains { $0 == "--format" && $1 == "json" }
        let isOthers = Self.others.contains(own.first ?? "") && own.prefix(2) != ["mcp", "status"]
        guard !Terminal.hasResult, !isOthers else { return nil }
        guard own.contains("--json") || own.contains("--format=json") || isFormat else { return nil }
        if let error = error as? AuthError {
            self.json = .object(error.members)
            return
        }
        let code =
            switch error {
            case is CancellationError: "cancelled"
            case is AccountNotSignedIn: AuthError.Code.loginRequired.rawValue
            case is CommandLineError, is MisspelledCommand, is ConfigurationError:
                AuthError.Code.invalidConfiguration.rawValue
            default: "failed"
            }
        let message =
            switch error {
            // Omits the usage text, which is printed to standard error.
            case let error as CommandLineError: AuthFlowCommand.message(for: error.error)
            case let error as MisspelledCommand: error.description
            default: ExitStatus.message(for: error)
            }
        self.json = ["error": .string(code), "message": .string(message)]
    }

    func print() { try? Terminal.result(json) }
}
