#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

/// Where the files of the user are.
package enum HomeDirectory {
    /// `$HOME`, or what the system knows of the user when that is not set.
    package static func path(environment: [String: String]) -> String {
        environment["HOME"] ?? FileManager.default.homeDirectoryForCurrentUser.path
    }
}
