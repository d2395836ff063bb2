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
