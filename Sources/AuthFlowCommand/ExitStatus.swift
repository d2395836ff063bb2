import ArgumentParser
import AuthFlow
import Synchronization

/// The commands to advise for the profile that this program has chosen.
enum SignInAdvice {
    private static let words = Mutex<[String]?>(nil)

    /// The command that signs in; nil before a profile was chosen.
    static var command: String? { words.withLock { $0 }.map { ShellWord.line(["authflow", "login"] + $0) } }

    /// The command that finds faults.
    static var doctor: String { ShellWord.line(["authflow", "doctor"] + (words.withLock { $0 } ?? [])) }

    /// - Parameter words: The options that choose the profile.
    static func choose(_ words: [String]) { self.words.withLock { $0 = words } }
}

/// The documented exit statuses.
enum ExitStatus {
    static let success = ExitCode(0)
    static let failure = ExitCode(1)
    static let usage = ExitCode(2)
    static let loginRequired = ExitCode(4)
    static let denied = ExitCode(5)
    static let timeout = ExitCode(6)
    static let network = ExitCode(7)
    static let storage = ExitCode(8)
    /// A sign-out that removed the credential, but left tokens or a session at the provider.
    static let signedOutHereOnly = ExitCode(9)
    static let cancelled = ExitCode(130)

    /// The status for an error.
    static func of(_ error: any Error) -> ExitCode {
        switch error {
        case is CancellationError: cancelled
        case is ConfigurationError: usage
        case let code as ExitCode: code
        case is HelperAnswered: failure
        case let error as AuthError: of(error.code)
        // Help is not an error; everything else that the parser throws is a usage error.
        case let error as CommandLineError: AuthFlowCommand.exitCode(for: error.error).isSuccess ? success : usage
        case is MisspelledCommand: usage
        default: AuthFlowCommand.exitCode(for: error).isSuccess ? success : failure
        }
    }

    private static func of(_ code: AuthError.Code) -> ExitCode {
        switch code {
        case .invalidConfiguration: usage
        case .loginRequired, .accessTokenRejected, .noUserAgent: loginRequired
        case .accessDenied: denied
        case .timedOut: timeout
        case .networkFailed, .discoveryFailed, .issuerMismatch, .temporarilyUnavailable: network
        case .storageFailed, .credentialUnusable, .leaseLost, .leaseBusy: storage
        default: failure
        }
    }

    /// The message for the user: never a type's name or a memory dump.
    static func message(for error: any Error) -> String {
        switch error {
        case let error as ConfigurationError: error.description
        case let error as AuthError where error.code == .credentialUnusable:
            "\(error.description) Run: authflow logout --local"
        // A helper runs where its user does not know which profile it was for.
        case let error as AuthError where error.code == .loginRequired && SignInAdvice.command != nil:
            "\(error.description) Run: \(SignInAdvice.command ?? "")"
        case let error as AuthError: error.description
        case let error as CommandLineError: AuthFlowCommand.fullMessage(for: error.error)
        case let error as MisspelledCommand: "Error: \(error.description)"
        // A command without a subcommand throws its help.
        default: AuthFlowCommand.fullMessage(for: error)
        }
    }
}
