import AuthFlowSystem

/// Paths of files.
package enum FilePath {
    /// The directory of a file: "/" for "/name", and "." for a name without a directory.
    package static func directory(of path: String) -> String {
        guard let slash = path.lastIndex(of: "/") else { return "." }
        return slash == path.startIndex ? "/" : String(path.prefix(upTo: slash))
    }

    /// The absolute path with all symbolic links resolved; nil when the file cannot be found.
    package static func resolved(_ path: String) -> String? {
        guard let found = unsafe realpath(path, nil) else { return nil }
        defer { unsafe free(found) }
        return unsafe String(cString: found)
    }
}
