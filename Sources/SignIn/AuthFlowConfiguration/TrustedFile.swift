import AuthFlowEssentials
import AuthFlowHTTP
import AuthFlowSystem

/// A file whose text is trusted, because only this user or root (or, without the check of the owners, the file's owner) could have written it.
struct TrustedFile {
    let path: String

    /// The kind of file, for messages.
    private let kind: String
    private let checksOwners: Bool

    /// The content that cannot be trusted, for messages.
    private var subject: String { kind == "configuration file" ? "configuration" : kind }

    /// - Parameter checksOwners: Whether the file and the directories must belong to this user or root; false for a file that another program
    ///   provides, as in a container, where the owner may be a user of the host or of the image.
    init(_ path: String, kind: String = "configuration file", checksOwners: Bool = true) {
        self.path = path
        self.kind = kind
        self.checksOwners = checksOwners
    }

    /// Reads the file.
    /// - Throws: ``AuthError`` with `invalid_configuration`; the message contains a command to fix wrong permissions.
    func contents(maximumSize: Int) throws(AuthError) -> [UInt8] {
        // Non-blocking, because opening a FIFO at this path would otherwise block.
        let descriptor = unsafe open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
        guard descriptor >= 0 else {
            let reason = errno
            let directory = FileManager.default.currentDirectoryPath
            // Empty if the working directory was removed.
            let isComplete = path.hasPrefix("/") || directory.isEmpty
            let shown = isComplete ? path : directory == "/" ? "/\(path)" : "\(directory)/\(path)"
            throw reason == ENOENT
                ? refusal("There is no \(kind) at \(shown).")
                : refusal("The \(kind) \(shown) cannot be read: \(unsafe String(cString: strerror(reason))).")
        }
        defer { close(descriptor) }
        var status = stat()
        guard unsafe fstat(descriptor, &status) == 0 else { throw failure(path) }
        guard status.st_mode & S_IFMT == S_IFREG else { throw refusal("\(path) is not a regular file.") }
        try requireTrustedOwner(status, path)
        try requireKnownCreator(status)
        // A symbolic link can be replaced by users with write access to its directory, and its target by users with write
        // access to the target's directory.
        var link = stat()
        if unsafe lstat(path, &link) == 0, link.st_mode & S_IFMT == S_IFLNK {
            guard isOwn(link.st_uid) else { throw foreign(path) }
        }
        for directory in [FilePath.directory(of: path), FilePath.directory(of: resolved)] {
            var status = stat()
            guard unsafe stat(directory, &status) == 0 else { throw failure(directory) }
            // With the sticky bit, as in /tmp, only root and the owners of the file and the directory can replace it.
            if status.st_mode & S_ISVTX == 0 { try requireTrustedOwner(status, directory) }
        }
        try requireProtectedAncestors(of: path)
        guard let bytes = BoundedFile.contents(of: descriptor, maximumSize: maximumSize) else {
            throw refusal("\(path) cannot be read, or is larger than \(maximumSize) bytes.")
        }
        return bytes
    }

    /// Requires that no untrusted user can replace a directory or a symbolic link in the path of the file.
    private func requireProtectedAncestors(of path: String) throws(AuthError) {
        let start = path.hasPrefix("/") ? "" : FileManager.default.currentDirectoryPath
        var rest = "\(start)/\(path)".split(separator: "/").filter { $0 != "." }[...]
        var (directory, links) = ("/", 0)
        while let name = rest.popFirst() {
            try requireProtected(directory)
            if name == ".." {
                directory = FilePath.directory(of: directory)
                continue
            }
            let next = directory == "/" ? "/\(name)" : "\(directory)/\(name)"
            var status = stat()
            guard unsafe lstat(next, &status) == 0 else { throw failure(next) }
            guard status.st_mode & S_IFMT == S_IFLNK else {
                directory = next
                continue
            }
            guard isTrusted(status.st_uid) else { throw replaceable(by: next) }
            links += 1
            guard links <= 40, let target = try? FileManager.default.destinationOfSymbolicLink(atPath: next) else {
                throw refusal("\(next) cannot be examined.")
            }
            rest = target.split(separator: "/").filter { $0 != "." } + rest
            if target.hasPrefix("/") { directory = "/" }
        }
    }

    /// Requires that an ancestor directory belongs to a trusted user, and is not world-writable unless it has the sticky bit. It may be
    /// group-writable, as `/usr/local` is on Debian.
    private func requireProtected(_ directory: String) throws(AuthError) {
        var status = stat()
        guard unsafe stat(directory, &status) == 0 else { throw failure(directory) }
        // The owner of an ancestor of the home directory could also replace the programs that this user's shell runs.
        let isOfHome = "\(Self.home)/".hasPrefix(directory == "/" ? "/" : "\(directory)/")
        guard !checksOwners || isTrusted(status.st_uid) || isOfHome else { throw replaceable(by: directory) }
        guard status.st_mode & 0o002 == 0 || status.st_mode & S_ISVTX != 0 else { throw writable(status, directory) }
    }

    private static let home: String = {
        // The environment is not used, because another user's shell may have set it.
        let path = HomeDirectory.path(environment: [:])
        return FilePath.resolved(path) ?? path
    }()

    /// Whether the owner of a directory or a symbolic link is this user or root. In a user namespace, the ID of an unmapped user, such as root, is
    /// the overflow ID (user_namespaces(7)).
    private func isTrusted(_ owner: uid_t) -> Bool { isOwn(owner) || owner == Self.overflowID }

    private func isOwn(_ owner: uid_t) -> Bool { owner == geteuid() || owner == 0 }

    /// The overflow ID in a user namespace; nil in the initial user namespace, in which every user ID is mapped.
    private static let overflowID: uid_t? = {
        func words(_ path: String) -> [Substring] {
            let bytes = BoundedFile.contents(atPath: path, maximumSize: 4096) ?? []
            return String(decoding: bytes, as: UTF8.self).split { $0 == " " || $0 == "\n" }
        }
        let isInitial = words("/proc/self/uid_map") == ["0", "0", "4294967295"]
        return isInitial ? nil : words("/proc/sys/kernel/overflowuid").first.flatMap { uid_t($0) }
    }()

    /// Rejects a file that any user could have created in a directory such as `/tmp`.
    private func requireKnownCreator(_ file: stat) throws(AuthError) {
        var directory = stat()
        guard unsafe stat(FilePath.directory(of: resolved), &directory) == 0 else { throw failure(path) }
        guard directory.st_mode & 0o002 == 0 || isOwn(file.st_uid) || file.st_uid == directory.st_uid else {
            throw foreign(path)
        }
    }

    private func requireTrustedOwner(_ status: stat, _ path: String) throws(AuthError) {
        guard !checksOwners || isOwn(status.st_uid) else { throw foreign(path) }
        guard !PrivateGroup.letsOthersWrite(status) else { throw writable(status, path) }
    }

    private func writable(_ status: stat, _ path: String) -> AuthError {
        // Only the owner and root can change the mode (chmod(2)).
        let actor = status.st_uid == geteuid() || geteuid() == 0 ? "run" : "have its owner run"
        return refusal(
            "Other users can write to \(DisplayText.sanitized(path)), so the \(subject) cannot be trusted. Check its contents, then \(actor): chmod go-w \(ShellWord.path(path))"
        )
    }

    private func foreign(_ path: String) -> AuthError {
        // Under sudo, the file usually belongs to the user who ran sudo, who could not read it if root owned it.
        let alternative =
            geteuid() == 0
            ? "or, if it is yours, run this program without sudo."
            : "or run: chown \(geteuid()) \(ShellWord.path(path))"
        return refusal(
            "\(DisplayText.sanitized(path)) belongs to another user, so the \(subject) cannot be trusted. Check its contents, then copy it, \(alternative)"
        )
    }

    private func replaceable(by path: String) -> AuthError {
        refusal(
            "\(DisplayText.sanitized(path)) belongs to another user, who can replace the file, so the \(subject) cannot be trusted. Copy the file to a directory that you own."
        )
    }

    /// The error after a system call for a path has failed.
    private func failure(_ path: String) -> AuthError {
        let reason = unsafe String(cString: strerror(errno))
        return refusal("\(DisplayText.sanitized(path)) cannot be examined: \(reason).")
    }

    private func refusal(_ message: String) -> AuthError { AuthError(.invalidConfiguration, message) }

    private var resolved: String { FilePath.resolved(path) ?? path }
}
