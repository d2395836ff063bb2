import AuthFlow
import Synchronization

/// The commands to suggest to the user, for the profile and the resource that this program has chosen.
enum SignInAdvice {
    private struct Chosen {
        var profile: [String]
        /// The arguments that select the same profile or resource and, for a sign-in, request the same access.
        var place: [String]
        var signIn: [String]
    }

    private static let chosen = Mutex<Chosen?>(nil)

    /// The command that signs in; nil before a profile or resource was chosen.
    static var command: String? {
        chosen.withLock { $0 }.map { ShellWord.line(["authflow", "login"] + $0.place + $0.signIn) }
    }

    /// The command that signs in after an error: with the scopes that a resource requires, if there are any; nil if they are too long.
    static func command(after error: any Error) -> String? {
        let scopes = ((error as? AuthError)?.underlyingError as? MissingScopes)?.scopes ?? []
        guard let command, !scopes.isEmpty else { return command }
        // With "=", because a scope may begin with "-". A hostile resource can name any number of scopes.
        let words = ShellWord.line(scopes.map { "--scope=\($0)" })
        return words.utf8.count <= 1000 ? "\(command) \(words)" : nil
    }

    /// The command that diagnoses problems.
    static var doctor: String { ShellWord.line(["authflow", "doctor"] + (chosen.withLock { $0?.profile } ?? [])) }

    /// The command that removes data that can no longer be read.
    static var localLogout: String {
        ShellWord.line(["authflow", "logout"] + (chosen.withLock { $0?.place } ?? []) + ["--local"])
    }

    /// The command that renames a damaged database.
    static var storeReset: String {
        ShellWord.line(["authflow", "store", "reset"] + (chosen.withLock { $0?.profile } ?? []))
    }

    /// - Parameters:
    ///   - profile: The options that choose the profile.
    ///   - address: The URL of a resource; default: none.
    ///   - signIn: The options of the sign-in.
    static func choose(_ profile: [String], address: String? = nil, signIn: [String] = []) {
        let place = (address.map { [$0] } ?? []) + profile
        chosen.withLock { $0 = Chosen(profile: profile, place: place, signIn: signIn) }
    }
}
