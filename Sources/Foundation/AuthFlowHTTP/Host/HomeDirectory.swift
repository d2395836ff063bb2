import AuthFlowEssentials

#if canImport(Glibc)
import Glibc
#endif

/// The user's home directory.
package enum HomeDirectory {
    /// `$HOME`; when it is unset, empty or relative, the home directory in the system's user database.
    package static func path(environment: [String: String]) -> String {
        if let home = environment["HOME"], home.hasPrefix("/") { return home }
        #if canImport(Glibc)
        // Foundation takes an empty HOME for a path.
        var entry = unsafe passwd()
        var found: UnsafeMutablePointer<passwd>? = nil
        var buffer = [CChar](repeating: 0, count: 16 * 1024)
        if unsafe getpwuid_r(geteuid(), &entry, &buffer, buffer.count, &found) == 0, unsafe found != nil,
            let home = unsafe entry.pw_dir.map({ unsafe String(cString: $0) }), home.hasPrefix("/")
        {
            return home
        }
        #endif
        return FileManager.default.homeDirectoryForCurrentUser.path
    }
}
