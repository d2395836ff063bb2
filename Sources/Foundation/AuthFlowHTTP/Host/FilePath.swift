/// Paths of files.
package enum FilePath {
    /// The directory of a file: "/" for "/name", and "." for a name without a directory.
    package static func directory(of path: String) -> String {
        guard let slash = path.lastIndex(of: "/") else { return "." }
        return slash == path.startIndex ? "/" : String(path.prefix(upTo: slash))
    }
}
