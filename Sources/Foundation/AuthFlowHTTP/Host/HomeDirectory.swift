import AuthFlowEssentials

/// The user's home directory.
package enum HomeDirectory {
    /// `$HOME`; when it is not set to an absolute path, the home directory that the system knows.
    package static func path(environment: [String: String]) -> String {
        if let home = environment["HOME"], home.hasPrefix("/") { return home }
        return FileManager.default.homeDirectoryForCurrentUser.path
    }
}
