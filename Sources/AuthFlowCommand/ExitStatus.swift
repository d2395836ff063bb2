import ArgumentParser
import AuthFlow
import Synchronization

/// The commands to advise for the profile and the resource that this program has chosen.
enum SignInAdvice {
    private struct Chosen {
        var profile: [String]
        /// The words that choose the same profile or resource, and, for a sign-in, ask for the same.
        var place: [String]
        var signIn: [String]
    }

    private static let chosen = Mutex<Chosen?>(nil)

    /// The command that signs in; nil before anything was chosen.
    static var command: String? {
        chosen.withLock { $0 }.map { ShellWord.line(["authflow", "login"] + $0.place + $0.signIn) }
    }

    /// The command that finds faults.
    static var doctor: String { ShellWord.line(["authflow", "doctor"] + (chosen.withLock { $0?.profile } ?? [])) }

    /// The command that removes what cannot be read any more.
    static var localLogout: String {
        ShellWord.line(["authflow", "logout"] + (chosen.withLock { $0?.place } ?? []) + ["--local"])
    }

    /// The command that puts a damaged database aside.
    static var storeReset: String {
        ShellWord.line(["authflow", "store", "reset"] + (chosen.withLock { $0?.profile } ?? []))
    }

    /// - Parameters:
    ///   - profile: The options that choose the profile.
    ///   - address: The address of a resource; default: none.
    ///   - signIn: The options of the sign-in.
    static func choose(_ profile: [String], address: String? = nil, signIn: [String] = []) {
        let place = (address.map { [$0] } ?? []) + profile
        chosen.withLock { $0 = Chosen(profile: profile, place: place, signIn: signIn) }
    }
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
        case .storageFailed, .storeDamaged, .credentialUnusable, .leaseLost, .leaseBusy: storage
        default: failure
        }
    }

    /// The message for the user: never a type's name or a memory dump.
    static func message(for error: any Error) -> String {
        switch error {
        case let error as ConfigurationError: error.description
        case let error as AuthError where error.code == .credentialUnusable:
            "\(error.description) Run: \(SignInAdvice.localLogout)"
        case let error as AuthError where error.code == .storeDamaged:
            "\(error.description) Run: \(SignInAdvice.storeReset)"
        case let error as AuthError where error.code == .accountMismatch && SignInAdvice.command != nil:
            "\(error.description) Run: \(SignInAdvice.command ?? "") --add-account, or --replace-account."
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
