import AuthFlow
import Synchronization

/// The commands to suggest to the user, for the profile and the resource that this program has chosen.
enum SignInAdvice {
    private struct Chosen {
        /// The options that choose the profile; nil for a resource without a profile.
        var profile: [String]?
        /// The arguments that select the same profile or resource.
        var place: [String]
        var signIn: [String]
        /// Whether another user can sign in, in addition to the signed-in user.
        var addsAccount = true
    }

    private static let chosen = Mutex<Chosen?>(nil)

    /// The command that signs in; nil until a profile or resource is chosen.
    static var command: String? {
        chosen.withLock { $0 }.map { ShellWord.line(["authflow", "login"] + $0.place + $0.signIn) }
    }

    /// The sign-in command with an additional option; nil until a profile or resource is chosen.
    static func command(adding option: String) -> String? {
        command.map { $0.hasSuffix(" \(option)") ? $0 : "\($0) \(option)" }
    }

    /// The command that adds an account; nil until a profile is chosen, for a resource, or if a specific account was selected.
    static var addAccount: String? {
        chosen.withLock { $0?.addsAccount == true } ? command(adding: "--add-account") : nil
    }

    /// The command that signs in after an error, with the access that a resource requires, if any; nil if it would be too long, or nothing is chosen.
    static func command(after error: any Error) -> String? {
        guard let other = causes(of: error).compactMap({ $0 as? OtherSignInRequired }).first else {
            return command.flatMap { extended($0, for: error) }
        }
        // The other profile is in the same file. The option that names the profile is the last of these options.
        return chosen.withLock { $0?.profile }.map { options in
            let others = Array(options.prefix { !$0.hasPrefix("--profile") })
            return line("login", others + OptionWords.of("--profile", other.name))
        }
    }

    /// The error and its underlying errors.
    private static func causes(of error: any Error) -> some Sequence<any Error> {
        sequence(first: error) { ($0 as? AuthError)?.underlyingError }
    }

    /// Adds the options for the access that a resource requires to a command; nil if the options are too long.
    static func extended(_ command: String, for error: any Error) -> String? {
        guard let required = causes(of: error).compactMap({ $0 as? RequiredAccess }).first else { return command }
        // Uses "=", because a value may begin with "-". A hostile resource may require any number of scopes.
        let options = required.scopes.map { "--scope=\($0)" } + required.authentication.arguments
        guard !options.isEmpty else { return command }
        let words = ShellWord.line(options)
        return words.utf8.count <= 1000 ? "\(command) \(words)" : nil
    }

    /// The command that diagnoses problems of a profile; nil until a profile is chosen, and for a resource without a profile.
    static var doctor: String? { profileLine("doctor") }

    /// The command that tests a machine-to-machine client's token request.
    static var token: String { line("token", chosen.withLock { $0?.profile }) + " --refresh" }

    /// The command that shows the stored state.
    static var status: String { line("status", chosen.withLock { $0?.place }) }

    /// The command that removes data that can no longer be read.
    static var localLogout: String { line("logout", chosen.withLock { $0?.place }) + " --local" }

    /// The command that checks the store of a profile.
    static var storeCheck: String { line("store check", chosen.withLock { $0?.profile }) }

    /// The command that renames a damaged database; nil until a profile is chosen, and for a resource without a profile, whose store has
    /// no such command.
    static var storeReset: String? { profileLine("store reset") }

    private static func profileLine(_ command: String) -> String? {
        chosen.withLock { $0?.profile }.map { line(command, $0) }
    }

    private static func line(_ command: String, _ options: [String]?) -> String {
        ShellWord.line(["authflow"] + command.split(separator: " ").map(String.init) + (options ?? []))
    }

    /// - Parameters:
    ///   - profile: The options that choose the profile; nil for a resource without a profile.
    ///   - resource: The arguments that select a resource; default: none.
    ///   - signIn: The options of the sign-in.
    static func choose(_ profile: [String]?, resource: [String]? = nil, signIn: [String] = []) {
        let place = resource ?? profile ?? []
        chosen.withLock { $0 = Chosen(profile: profile, place: place, signIn: signIn, addsAccount: resource == nil) }
    }

    /// Records that the profile or the user has selected a specific account.
    static func recordAccountSelection() { chosen.withLock { $0?.addsAccount = false } }
}

extension RequiredAuthentication {
    /// The options of `authflow login`. They use "=", because a value may begin with "-".
    var arguments: [String] {
        acrValues.map { "--acr-values=\($0)" } + (maxAge.map { ["--max-age=\($0)"] } ?? [])
    }
}
