#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

/// The user's home directory.
package enum HomeDirectory {
    /// `$HOME`; when it is not set, the home directory that the system knows.
    package static func path(environment: [String: String]) -> String {
        environment["HOME"] ?? FileManager.default.homeDirectoryForCurrentUser.path
    }
}
