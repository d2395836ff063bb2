import AuthFlowEssentials
import AuthFlowHTTP
import AuthFlowSystem

/// A file whose text is trusted, because only this user or root could have written it.
struct TrustedFile {
    let path: String

    /// The kind of file, for messages.
    private let kind: String

    init(_ path: String, kind: String = "configuration file") {
        self.path = path
        self.kind = kind
    }

    /// Reads the file.
    /// - Throws: ``AuthError`` with `invalid_configuration`; the message contains a command to fix wrong permissions.
    func contents(maximumSize: Int) throws(AuthError) -> [UInt8] {
        // Non-blocking, because opening a FIFO at this path would otherwise block.
        let descriptor = unsafe open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
        guard descriptor >= 0 else {
            let reason = errno
            let directory = FileManager.default.currentDirectoryPath
            let shown = path.hasPrefix("/") ? path : directory == "/" ? "/\(path)" : "\(directory)/\(path)"
            throw reason == ENOENT
                ? refusal("There is no \(kind) at \(shown).")
                : refusal("The \(kind) \(shown) cannot be read: \(unsafe String(cString: strerror(reason))).")
        }
        defer { close(descriptor) }
        var status = stat()
        guard unsafe fstat(descriptor, &status) == 0, status.st_mode & S_IFMT == S_IFREG else {
            throw refusal("\(path) is not a regular file.")
        }
        try requireTrustedOwner(status, path)
        // A symbolic link can be replaced by users with write access to its directory, and its target by users with write
        // access to the target's directory.
        var link = stat()
        if unsafe lstat(path, &link) == 0, link.st_mode & S_IFMT == S_IFLNK {
            guard link.st_uid == geteuid() || link.st_uid == 0 else { throw foreign(path) }
        }
        for directory in [FilePath.directory(of: path), FilePath.directory(of: resolved)] {
            var status = stat()
            guard unsafe stat(directory, &status) == 0 else { throw refusal("\(directory) cannot be examined.") }
            // With the sticky bit, as in /tmp, only root and the owners of the file and the directory can replace it.
            if status.st_mode & S_ISVTX == 0 { try requireTrustedOwner(status, directory) }
        }
        try requireProtectedAncestors()
        guard let bytes = BoundedFile.contents(of: descriptor, maximumSize: maximumSize) else {
            throw refusal("\(path) cannot be read, or is larger than \(maximumSize) bytes.")
        }
        return bytes
    }

    /// Requires that no other user can replace this directory tree through write access to an ancestor directory.
    private func requireProtectedAncestors() throws(AuthError) {
        var directory = FilePath.directory(of: resolved)
        while directory != "/", directory != "." {
            directory = FilePath.directory(of: directory)
            var status = stat()
            guard unsafe stat(directory, &status) == 0 else { throw refusal("\(directory) cannot be examined.") }
            guard status.st_mode & 0o002 == 0 || status.st_mode & S_ISVTX != 0 else { throw writable(directory) }
        }
    }

    private func requireTrustedOwner(_ status: stat, _ path: String) throws(AuthError) {
        guard status.st_uid == geteuid() || status.st_uid == 0 else { throw foreign(path) }
        let isGroupAccessible = status.st_mode & 0o020 != 0 && !PrivateGroup.isUserPrivate(status.st_gid)
        guard status.st_mode & 0o002 == 0, !isGroupAccessible else {
            throw writable(path)
        }
    }

    private func writable(_ path: String) -> AuthError {
        refusal(
            "Other users can write to \(DisplayText.sanitized(path)), so the configuration cannot be trusted. Check its contents, then run: chmod go-w \(ShellWord.path(path))"
        )
    }

    private func foreign(_ path: String) -> AuthError {
        refusal(
            "\(DisplayText.sanitized(path)) belongs to another user, so the configuration cannot be trusted. Check its contents, then copy it, or run: chown \(geteuid()) \(ShellWord.path(path))"
        )
    }

    private func refusal(_ message: String) -> AuthError { AuthError(.invalidConfiguration, message) }

    private var resolved: String {
        guard let found = unsafe realpath(path, nil) else { return path }
        defer { unsafe free(found) }
        return unsafe String(cString: found)
    }
}
