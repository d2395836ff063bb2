import AuthFlowEssentials
import AuthFlowSystem

/// The user's home directory.
package enum HomeDirectory {
    /// `$HOME`; when it is unset, empty or relative, the home directory in the system's user database.
    package static func path(environment: [String: String]) -> String {
        if let home = environment["HOME"], home.hasPrefix("/") { return home }
        #if canImport(Glibc)
        // Foundation would use an empty HOME as the path.
        if let home = inUserDatabase() { return home }
        #endif
        #if canImport(Darwin)
        // FileManager.homeDirectoryForCurrentUser exists only on macOS.
        return NSHomeDirectory()
        #else
        return FileManager.default.homeDirectoryForCurrentUser.path
        #endif
    }

    /// A base directory: the value of a variable such as `XDG_DATA_HOME`, or else a directory in the home directory. XDG Base Directory
    /// Specification: a relative path is invalid and ignored.
    package static func base(_ variable: String, _ usual: String, _ environment: [String: String]) -> String {
        if let directory = environment[variable], directory.hasPrefix("/") { return directory }
        return "\(path(environment: environment))/\(usual)"
    }

    #if canImport(Glibc)
    /// The home directory in the system's user database; nil when the user is not listed there.
    private static func inUserDatabase() -> String? {
        for size in [4096, 64 * 1024, 1024 * 1024] {
            var entry = unsafe passwd()
            var found: UnsafeMutablePointer<passwd>? = nil
            var buffer = [CChar](repeating: 0, count: size)
            // The entry contains pointers into the buffer.
            let (status, home) = unsafe buffer.withUnsafeMutableBufferPointer { buffer -> (Int32, String?) in
                guard let start = buffer.baseAddress else { return (ERANGE, nil) }
                let status = unsafe getpwuid_r(geteuid(), &entry, start, buffer.count, &found)
                guard status == 0, unsafe found != nil, let home = unsafe entry.pw_dir else { return (status, nil) }
                return unsafe (status, String(cString: home))
            }
            if status != ERANGE { return home.flatMap { $0.hasPrefix("/") ? $0 : nil } }
        }
        return nil
    }
    #endif
}
