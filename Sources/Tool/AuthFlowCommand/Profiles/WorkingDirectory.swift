import AuthFlow
import AuthFlowEssentials

/// The working directory of this process.
enum WorkingDirectory {
    /// The absolute path of a file.
    /// - Parameter path: The path, relative to the working directory or absolute.
    /// - Throws: ``AuthFlow/AuthError`` with `storage_failed` if the path is relative and the working directory was removed.
    static func absolute(_ path: String) throws(AuthError) -> String {
        guard !path.hasPrefix("/") else { return path }
        // This path is empty if the directory was removed, and the result would then be a path in the root directory.
        let directory = FileManager.default.currentDirectoryPath
        guard !directory.isEmpty else {
            throw AuthError(
                .storageFailed,
                "\(DisplayText.sanitized(path)) cannot be used: the working directory was removed, or cannot be determined."
            )
        }
        return directory == "/" ? "/\(path)" : "\(directory)/\(path)"
    }
}
