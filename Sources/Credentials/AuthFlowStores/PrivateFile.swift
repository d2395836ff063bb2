import AuthFlowEssentials
package import AuthFlowHTTP
import AuthFlowSystem

/// A file that only its owner can read, and that is replaced atomically.
///
/// The implementation uses POSIX calls because FoundationEssentials cannot reject a symbolic link, make a file
/// durable, or lock it.
package struct PrivateFile {
    package let path: String

    package init(_ path: String) {
        self.path = path
    }

    /// Creates a directory and its parents with mode 0700, durably, and rejects a directory that other users can write to.
    package static func createDirectory(_ directory: String) throws(AuthError) {
        // With a trailing slash, lstat(2) follows a symbolic link, and finds nothing if its target does not exist.
        var name = directory
        while name.count > 1, name.hasSuffix("/") { name.removeLast() }
        let new = missingDirectories(of: name)
        for path in new.reversed() { try PrivateFile(path).makeDirectory() }
        // A user may create files in a directory without being able to read it. Such a directory cannot be synced.
        for path in new { try PrivateFile(path).syncDirectory(ifReadable: true) }
        var status = stat()
        guard unsafe lstat(name, &status) == 0 else {
            throw PrivateFile(directory).failure("cannot be examined")
        }
        guard status.st_mode & S_IFMT != S_IFLNK else {
            throw AuthError(
                .storageFailed,
                "\(directory) is a symbolic link, so no credential is stored there. Configure the directory that it points to."
            )
        }
        guard status.st_mode & S_IFMT == S_IFDIR else {
            throw AuthError(.storageFailed, "The directory \(directory) cannot be created: a file has this name.")
        }
        guard status.st_uid == geteuid() else {
            throw AuthError(
                .storageFailed,
                "\(directory) is not a directory that belongs to this user, so no credential is stored there."
            )
        }
        guard !PrivateGroup.letsOthersWrite(status) else {
            // A directory with the sticky bit, such as root's /tmp, is shared on purpose: without access to it, other users' programs would fail.
            let remedy =
                status.st_mode & S_ISVTX != 0
                ? "Configure a directory that only you can write to." : "Run: chmod 700 \(ShellWord.path(directory))"
            throw AuthError(
                .storageFailed,
                "Other users can write to \(directory), so no credential is stored there. \(remedy)"
            )
        }
    }

    /// The directories of a path that do not exist, the last one first.
    static func missingDirectories(
        of path: String,
        exists: (String) -> Bool = { PrivateFile($0).exists }
    ) -> [String] {
        var missing: [String] = []
        var path = path
        while !exists(path) {
            missing.append(path)
            let parent = FilePath.directory(of: path)
            // A relative path ends at ".", which this user may not be able to examine.
            guard parent != path else { break }
            path = parent
        }
        return missing
    }

    /// Creates a directory at this path with mode 0700, unless another process has just created it.
    ///
    /// FileManager creates a directory with the permissions of the umask, and restricts them in a second step. In between, another user could
    /// open the directory, and later hold its lock; and if the process is killed or the second step fails, the directory remains accessible.
    private func makeDirectory() throws(AuthError) {
        guard unsafe mkdir(path, 0o700) == 0 else {
            if errno == EEXIST { return }
            throw failure("cannot be created")
        }
        // With some umask values, the owner could not use the directory.
        var status = stat()
        guard unsafe lstat(path, &status) == 0, status.st_mode & 0o700 != 0o700 else { return }
        unsafe chmod(path, 0o700)
    }

    /// The content of the file; nil when the file does not exist.
    /// - Parameter isKey: Whether this is a key file, which a sign-out does not remove; default: no.
    package func contents(maximumSize: Int, isKey: Bool = false) throws(AuthError) -> [UInt8]? {
        // O_NOFOLLOW: a symbolic link that an attacker put here could cause another file to be read, or later overwritten. A key file is never
        // overwritten, and may be a symbolic link: Kubernetes mounts secrets as symbolic links.
        let link = isKey ? 0 : O_NOFOLLOW
        let descriptor = unsafe open(path, O_RDONLY | link | O_CLOEXEC | O_NONBLOCK)
        guard descriptor >= 0 else {
            if errno == ENOENT { return nil }
            throw failure("cannot be read")
        }
        defer { close(descriptor) }
        var status = stat()
        guard unsafe fstat(descriptor, &status) == 0 else { throw failure("cannot be examined") }
        try requirePrivate(status, isCredential: !isKey, isKey: isKey)
        guard status.st_size <= maximumSize else {
            let size = "\(path) is larger than \(maximumSize) bytes, so it is not a"
            guard !isKey else { throw AuthError(.storageFailed, "\(size) key file.") }
            throw AuthError(
                .credentialUnusable,
                "\(size) credential. Sign out locally, which removes it, and sign in again."
            )
        }
        var bytes: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 16 * 1024)
        while bytes.count <= maximumSize {
            let count = SystemCall.read(from: descriptor, into: &buffer)
            guard count >= 0 else { throw failure("cannot be read") }
            if count == 0 { break }
            bytes += buffer[..<count]
        }
        return bytes
    }

    /// - Parameters:
    ///   - isCredential: Whether the file is a credential, which a sign-out removes.
    ///   - isKey: Whether the file may belong to root, as a mounted secret does.
    private func requirePrivate(_ status: stat, isCredential: Bool, isKey: Bool = false) throws(AuthError) {
        let isOwn = isKey ? KeyFileAccess.isOwnerTrusted(status) : status.st_uid == geteuid()
        guard status.st_mode & S_IFMT == S_IFREG, isOwn else {
            let owner = isKey ? "this user or root" : "this user"
            throw AuthError(.storageFailed, "\(path) is not a regular file owned by \(owner), so it is not trusted.")
        }
        guard isKey ? KeyFileAccess.isPrivate(status) : status.st_mode & 0o077 == 0 else {
            let command = "run: chmod 600 \(ShellWord.path(path))"
            let remedy =
                isCredential
                ? "Sign out locally, which removes it, and sign in again; or, if you are sure that it is not, \(command)"
                : isKey && status.st_uid != geteuid()
                    ? KeyFileAccess.advice(status, path) : "If you are sure that it is not, \(command)"
            throw AuthError(
                .storageFailed,
                "Other users can access \(path), so its content may be compromised. \(remedy)"
            )
        }
    }

    /// Rejects a file that does not belong to this user, or that other users can access.
    package func requirePrivate() throws(AuthError) {
        var status = stat()
        guard unsafe lstat(path, &status) == 0 else { throw failure("cannot be examined") }
        try requirePrivate(status, isCredential: false)
    }

    /// The identity of the file at the path; nil when no file exists there.
    package var identity: FileIdentity? {
        var status = stat()
        guard unsafe lstat(path, &status) == 0 else { return nil }
        // On Apple platforms, the ID of a device is signed.
        return FileIdentity(device: UInt64(truncatingIfNeeded: status.st_dev), number: UInt64(status.st_ino))
    }

    /// Replaces the file. When this method returns, the new bytes survive a power failure. When it throws, the old
    /// bytes are unchanged, or the new bytes may not survive a power failure.
    package func replace(with bytes: [UInt8]) throws(AuthError) {
        try? removeLeftovers()
        try replace(with: bytes, in: TemporaryFile(for: self))
    }

    /// Replaces the file like ``replace(with:)``, but preserves its group and permissions, except the write permissions of the group and of others,
    /// because a service may read it under another account.
    package func replacePreservingAccess(with bytes: [UInt8]) throws(AuthError) {
        try? removeLeftovers()
        let temporary = try TemporaryFile(for: self)
        // Set before the file is renamed, because a program may read it at any time.
        temporary.adoptAccess()
        try replace(with: bytes, in: temporary)
    }

    /// Replaces the file with a temporary file, in which space for the new bytes may already be reserved.
    func replace(with bytes: [UInt8], in temporary: TemporaryFile) throws(AuthError) {
        try temporary.write(bytes)
        guard unsafe rename(temporary.path, path) == 0 else { throw failure("cannot be replaced") }
        try syncDirectory()
    }

    /// Reserves space for a later replacement of this file.
    func reserve(_ size: Int) throws(AuthError) -> TemporaryFile {
        let temporary = try TemporaryFile(for: self)
        try temporary.reserve(size)
        return temporary
    }

    /// Writes the file if it does not exist, or if the existing file begins with the same marker. Any other file is
    /// left unchanged, because a configuration may contain any path.
    /// - Parameters:
    ///   - bytes: The content, which must begin with the marker.
    ///   - mark: The prefix of files that this method may overwrite.
    /// - Throws: ``AuthError`` with `storage_failed`.
    package func write(_ bytes: [UInt8], markedBy mark: [UInt8]) throws(AuthError) {
        guard bytes.starts(with: mark) else {
            throw AuthError(.storageFailed, "The content for \(path) does not begin with the expected marker.")
        }
        if try create(with: bytes) { return }
        guard begins(with: mark) else {
            throw AuthError(
                .storageFailed,
                "\(path) already exists and was not written by AuthFlow, so it is left unchanged."
            )
        }
        try replace(with: bytes)
    }

    /// Whether this is a regular file, owned by this user, that begins with the given bytes.
    private func begins(with mark: [UInt8]) -> Bool {
        let descriptor = unsafe open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK)
        guard descriptor >= 0 else { return false }
        defer { close(descriptor) }
        var status = stat()
        guard unsafe fstat(descriptor, &status) == 0, status.st_mode & S_IFMT == S_IFREG, status.st_uid == geteuid()
        else { return false }
        var bytes = [UInt8](repeating: 0, count: mark.count)
        let count = unsafe bytes.withUnsafeMutableBytes { unsafe read(descriptor, $0.baseAddress, $0.count) }
        return count == mark.count && bytes == mark
    }

    /// Creates the file durably, unless it already exists.
    /// - Returns: Whether it was created.
    package func create(with bytes: [UInt8]) throws(AuthError) -> Bool {
        // The file is first written completely under a temporary name, so that no reader sees partial content.
        try? removeLeftovers()
        let temporary = try TemporaryFile(for: self)
        try temporary.write(bytes)
        guard unsafe link(temporary.path, path) == 0 else {
            if errno == EEXIST { return false }
            throw failure("cannot be created")
        }
        try syncDirectory()
        return true
    }

    /// Removes the temporary files of processes that were killed while they were replacing the file. Their names
    /// contain the ID of the process that created them.
    /// - Parameter isLocked: Whether no other process can be replacing the file, so that every temporary file can be removed. Otherwise, only the
    ///   files of processes that no longer exist are removed; in a container, the ID of a killed process is soon reused.
    /// - Throws: ``AuthError`` with `storage_failed` when the directory cannot be read, or a file cannot be removed.
    func removeLeftovers(isLocked: Bool = false) throws(AuthError) {
        let directory = FilePath.directory(of: path)
        let prefix = path[(path.lastIndex(of: "/") ?? path.startIndex)...].drop { $0 == "/" } + "."
        let names: [String]
        do { names = try FileManager.default.contentsOfDirectory(atPath: directory) } catch {
            throw AuthError(.storageFailed, "\(directory) cannot be read.", underlyingError: error)
        }
        var error: AuthError?
        for name in names {
            guard name.hasPrefix(prefix), name.hasSuffix(".tmp"),
                let process = Int32(name.dropFirst(prefix.count).prefix { $0 != "." }),
                isLocked || process > 0 && kill(process, 0) != 0 && errno == ESRCH
            else { continue }
            guard unsafe unlink("\(directory)/\(name)") == 0 || errno == ENOENT else {
                error = error ?? PrivateFile("\(directory)/\(name)").failure("cannot be removed")
                continue
            }
        }
        if let error { throw error }
    }

    /// Whether anything exists at this path.
    package var exists: Bool { identity != nil }

    /// Removes the file, if there is one.
    package func remove() throws(AuthError) {
        guard unsafe unlink(path) == 0 else {
            if errno == ENOENT {
                guard PrivateFile(FilePath.directory(of: path)).exists else { return }
                return try syncDirectory()
            }
            throw failure("cannot be removed")
        }
        try syncDirectory()
    }

    /// The creation, renaming or removal of a file is durable only after its directory has been synced.
    /// - Parameter ifReadable: Whether a directory that this user cannot read is left unsynced; default: no.
    private func syncDirectory(ifReadable: Bool = false) throws(AuthError) {
        let descriptor = unsafe open(FilePath.directory(of: path), O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        guard descriptor >= 0 else {
            if ifReadable, errno == EACCES || errno == EPERM { return }
            throw failure("cannot be synced to disk")
        }
        defer { close(descriptor) }
        guard SystemCall.synchronize(descriptor) else { throw failure("cannot be synced to disk") }
    }

    func failure(_ what: String) -> AuthError {
        // With O_NOFOLLOW, open() fails with ELOOP if the path is a symbolic link.
        let reason = errno == ELOOP ? "it is a symbolic link" : unsafe String(cString: strerror(errno))
        return AuthError(.storageFailed, "\(path) \(what): \(reason).")
    }
}

/// The identity of a file, which distinguishes it from a file that replaced it.
package struct FileIdentity: Sendable, Hashable {
    let device: UInt64
    let number: UInt64
}
