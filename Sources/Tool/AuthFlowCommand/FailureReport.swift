import ArgumentParser
import AuthFlow

/// A failure as JSON on standard output, for a program that has requested JSON. The message for the user is still
/// written to standard error.
struct FailureReport {
    private let json: JSON

    /// The commands whose standard output, or whose arguments after the options, belong to another program.
    private static let others = ["curl", "mcp", "credential", "exec"]

    /// - Returns: nil when JSON was not requested, or when the command has already printed a result.
    init?(_ error: any Error, _ status: ExitCode, arguments: [String] = CommandLine.arguments) {
        let own = ProgramName.arguments(arguments)
        let isFormat = zip(own, own.dropFirst()).contains { $0 == "--format" && $1 == "json" }
        let isOthers = Self.others.contains(own.first ?? "") && own.prefix(2) != ["mcp", "status"]
        guard !Terminal.hasResult, !isOthers else { return nil }
        guard own.contains("--json") || own.contains("--format=json") || isFormat, !(error is HelperAnswered),
            status != ExitStatus.signedOutHereOnly
        else { return nil }
        self.json = .object(Self.members(error))
    }

    /// The members that describe an error: its code, the sentence for the user, and the command that signs in, if a sign-in is required.
    static func members(_ error: any Error) -> [String: JSON] {
        let code =
            switch error {
            case let error as AuthError: error.code.rawValue
            case is CancellationError: "cancelled"
            case is AccountIsUnknown: AuthError.Code.loginRequired.rawValue
            case is CommandLineError, is MisspelledCommand, is ConfigurationError:
                AuthError.Code.invalidConfiguration.rawValue
            default: "failed"
            }
        let message =
            switch error {
            case is CancellationError: "Cancelled."
            // Without the usage text, which is printed to standard error.
            case let error as CommandLineError: AuthFlowCommand.message(for: error.error)
            case let error as MisspelledCommand: error.description
            default: ExitStatus.message(for: error)
            }
        var members: [String: JSON] = ["error": .string(code), "message": .string(message)]
        if code == AuthError.Code.loginRequired.rawValue, !(error is AccountIsUnknown) {
            members["command"] = SignInAdvice.command(after: error).map(JSON.string)
        }
        return members
    }

    func print() { try? Terminal.result(json) }
}
