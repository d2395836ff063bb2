import Foundation

/// A file that only its owner may read, and that is replaced whole or not at all.
///
/// The calls are POSIX's own because Foundation can neither refuse a symbolic link, nor make a file durable, nor lock.
package struct PrivateFile {
    let path: String

    package init(_ path: String) {
        self.path = path
    }

    /// Creates a directory, and those above it, with mode 0700; and refuses one that others may write to.
    static func createDirectory(_ directory: String) throws(AuthError) {
        do {
            try FileManager.default.createDirectory(
                atPath: directory,
                withIntermediateDirectories: true,
                attributes: [.posixPermissions: 0o700]
            )
        } catch {
            throw AuthError(.storageFailed, "The directory \(directory) cannot be created.", underlyingError: error)
        }
        var status = stat()
        guard unsafe lstat(directory, &status) == 0 else { throw PrivateFile(directory).failure("cannot be examined") }
        guard status.st_mode & S_IFMT == S_IFDIR, status.st_uid == geteuid(), status.st_mode & 0o022 == 0 else {
            throw AuthError(
                .storageFailed,
                "Others can write to \(directory), so no credential is kept there. Run: chmod 700 '\(directory)'"
            )
        }
    }

    /// Reads the file; nil when there is none.
    func contents(maximumSize: Int) throws(AuthError) -> [UInt8]? {
        // O_NOFOLLOW: a link that somebody put here could make this read, or later overwrite, another file.
        let descriptor = unsafe open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK)
        guard descriptor >= 0 else {
            if errno == ENOENT { return nil }
            throw failure("cannot be read")
        }
        defer { close(descriptor) }
        var status = stat()
        guard unsafe fstat(descriptor, &status) == 0 else { throw failure("cannot be examined") }
        guard status.st_mode & S_IFMT == S_IFREG, status.st_uid == geteuid() else {
            throw AuthError(.storageFailed, "\(path) is not a plain file of this user's, so it is not trusted.")
        }
        guard status.st_mode & 0o077 == 0 else {
            throw AuthError(
                .storageFailed,
                "Others can read \(path), so its tokens may be known to them. Sign in again, or if you are sure, run: chmod 600 '\(path)'"
            )
        }
        guard status.st_size <= maximumSize else {
            throw AuthError(.storageFailed, "\(path) is larger than \(maximumSize) bytes, so it is not a credential.")
        }
        var bytes: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 16 * 1024)
        while bytes.count <= maximumSize {
            let count = unsafe buffer.withUnsafeMutableBytes { unsafe read(descriptor, $0.baseAddress, $0.count) }
            if count < 0 {
                if errno == EINTR { continue }
                throw failure("cannot be read")
            }
            if count == 0 { break }
            bytes += buffer[..<count]
        }
        return bytes
    }

    /// Replaces the file. When this returns the bytes survive a power cut; when it throws the old ones are still there.
    package func replace(with bytes: [UInt8]) throws(AuthError) {
        removeLeftovers()
        let temporary = "\(path).\(getpid()).\(Base64URL.encode(HostServices.systemRandomBytes(9))).tmp"
        let descriptor = unsafe open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { throw failure("cannot be written") }
        do throws(AuthError) {
            try writeAll(bytes, to: descriptor)
            guard fsync(descriptor) == 0 else { throw failure("cannot be made durable") }
        } catch {
            close(descriptor)
            unsafe unlink(temporary)
            throw error
        }
        guard close(descriptor) == 0, unsafe rename(temporary, path) == 0 else {
            let error = failure("cannot be replaced")
            unsafe unlink(temporary)
            throw error
        }
        try makeDirectoryDurable()
    }

    /// Creates the file, durably, unless there is one.
    /// - Returns: Whether it was created.
    func create(with bytes: [UInt8]) throws(AuthError) -> Bool {
        // Written whole under another name first: whoever sees the file sees all of it.
        let temporary = PrivateFile("\(path).\(getpid()).\(Base64URL.encode(HostServices.systemRandomBytes(9))).new")
        try temporary.replace(with: bytes)
        defer { unsafe unlink(temporary.path) }
        guard unsafe link(temporary.path, path) == 0 else {
            if errno == EEXIST { return false }
            throw failure("cannot be created")
        }
        try makeDirectoryDurable()
        return true
    }

    /// Removes what processes have left beside the file that ended while they replaced it. Each has its number in the name.
    private func removeLeftovers() {
        let slash = path.lastIndex(of: "/") ?? path.startIndex
        let directory = path.prefix(upTo: slash)
        let prefix = path[slash...].drop { $0 == "/" } + "."
        for name in (try? FileManager.default.contentsOfDirectory(atPath: String(directory))) ?? [] {
            guard name.hasPrefix(prefix), name.hasSuffix(".tmp"),
                let process = Int32(name.dropFirst(prefix.count).prefix { $0 != "." }),
                process > 0, kill(process, 0) != 0, errno == ESRCH
            else { continue }
            unsafe unlink("\(directory)/\(name)")
        }
    }

    /// Removes the file, if there is one.
    func remove() throws(AuthError) {
        guard unsafe unlink(path) == 0 else {
            if errno == ENOENT { return }
            throw failure("cannot be removed")
        }
        try makeDirectoryDurable()
    }

    /// Opens the file as a lock.
    func openLock() throws(AuthError) -> FileLock {
        let descriptor = unsafe open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { throw failure("cannot be opened") }
        return FileLock(descriptor: descriptor, path: path)
    }

    private func writeAll(_ bytes: [UInt8], to descriptor: Int32) throws(AuthError) {
        var rest = bytes[...]
        while !rest.isEmpty {
            let count = unsafe rest.withUnsafeBytes { unsafe write(descriptor, $0.baseAddress, $0.count) }
            if count < 0 {
                if errno == EINTR { continue }
                throw failure("cannot be written")
            }
            rest = rest.dropFirst(count)
        }
    }

    /// A rename or a removal is durable once the directory is (fsync(2)).
    private func makeDirectoryDurable() throws(AuthError) {
        let directory = path.prefix(upTo: path.lastIndex(of: "/") ?? path.startIndex)
        let descriptor = unsafe open(directory.isEmpty ? "/" : String(directory), O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        guard descriptor >= 0 else { throw failure("cannot be made durable") }
        defer { close(descriptor) }
        guard fsync(descriptor) == 0 else { throw failure("cannot be made durable") }
    }

    fileprivate func failure(_ what: String) -> AuthError {
        let reason = unsafe String(cString: strerror(errno))
        return AuthError(.storageFailed, "\(path) \(what): \(reason).")
    }
}

/// A kernel lock on a file (flock(2)): it ends with the process that holds it, however that ends.
struct FileLock {
    fileprivate let descriptor: Int32
    fileprivate let path: String

    /// Takes the lock unless somebody else has it.
    func acquire() throws(AuthError) -> Bool {
        if flock(descriptor, LOCK_EX | LOCK_NB) == 0 {
            // For whoever waits in vain. The kernel keeps the lock; this is a note on it.
            let note = Array("\(getpid())\n".utf8)
            ftruncate(descriptor, 0)
            _ = unsafe note.withUnsafeBytes { unsafe pwrite(descriptor, $0.baseAddress, $0.count, 0) }
            return true
        }
        guard errno == EWOULDBLOCK || errno == EINTR else { throw PrivateFile(path).failure("cannot be locked") }
        return false
    }

    /// The process that has the lock, as it says itself; nil when it says nothing.
    var holder: Int32? {
        var buffer = [UInt8](repeating: 0, count: 16)
        let count = unsafe buffer.withUnsafeMutableBytes { unsafe pread(descriptor, $0.baseAddress, $0.count, 0) }
        guard count > 0 else { return nil }
        return Int32(String(decoding: buffer[..<count].prefix { $0 != UInt8(ascii: "\n") }, as: UTF8.self))
    }

    /// Gives the lock up.
    func release() {
        close(descriptor)
    }
}
