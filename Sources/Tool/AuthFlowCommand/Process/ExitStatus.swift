import ArgumentParser
import AuthFlow

/// An error of the tool itself, with an exit status and a message for the user.
protocol CommandFailure: Error {
    var status: ExitCode { get }
    var message: String { get }
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
    /// A sign-out after which tokens or a session may remain at the provider.
    static let signedOutLocallyOnly = ExitCode(9)
    static let cancelled = ExitCode(130)

    /// The status for an error.
    static func of(_ error: any Error) -> ExitCode {
        switch error {
        case is CancellationError: cancelled
        case is ConfigurationError, is ValidationError: usage
        case let code as ExitCode: code
        case let error as AuthError: of(error.code)
        case let error as any CommandFailure: error.status
        default: failure
        }
    }

    private static func of(_ code: AuthError.Code) -> ExitCode {
        switch code {
        case .invalidConfiguration: usage
        case .loginRequired, .accessTokenRejected, .noUserAgent: loginRequired
        case .accessDenied: denied
        case .timedOut: timeout
        case .networkFailed, .discoveryFailed, .issuerMismatch, .temporarilyUnavailable: network
        case .storageFailed, .storeDamaged, .credentialUnusable, .leaseLost, .leaseBusy, .outcomeUnknown: storage
        default: failure
        }
    }

    /// The message for the user: never a type name or a debug description.
    static func message(for error: any Error) -> String {
        switch error {
        case is CancellationError: "Cancelled."
        case let error as ConfigurationError: error.description
        case let error as AuthError where error.code == .credentialUnusable:
            "\(error.description) To discard the credentials of all accounts without revoking their tokens, run: \(SignInAdvice.localLogout)"
        case let error as AuthError where error.code == .storeDamaged:
            error.description + (SignInAdvice.storeReset.map { " Run: \($0)" } ?? "")
        case let error as AuthError where error.underlyingError is UnknownUser:
            error.description + (SignInAdvice.command(adding: "--replace-account").map { " Run: \($0)" } ?? "")
        case let error as AuthError where error.code == .accountMismatch:
            error.description + (SignInAdvice.addAccount.map { " Run: \($0), or use --replace-account." } ?? "")
        // The user of a helper does not know which profile handled the request.
        case let error as AuthError where error.code == .loginRequired:
            error.description + (SignInAdvice.command(after: error).map { " Run: \($0)" } ?? "")
        case let error as ValidationError: error.message
        case let error as AuthError: error.description
        case let error as any CommandFailure: error.message
        default: ErrorText.fullMessage(for: error)
        }
    }
}

extension AuthError {
    /// The error as members of a JSON object: its code, the message for the user, and the command that signs in, if a sign-in is required.
    var members: [String: JSON] {
        var members: [String: JSON] = [
            "error": .string(code.rawValue), "message": .string(ExitStatus.message(for: self)),
        ]
        if code == .loginRequired { members["command"] = SignInAdvice.command(after: self).map(JSON.string) }
        return members
    }
}

/// Lets the parser describe system errors.
private struct ErrorText: ParsableArguments {}
