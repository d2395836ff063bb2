package import AuthFlowSystem

/// The file permissions of a key file.
package enum KeyFileAccess {
    /// Whether the file belongs to this user or to root.
    package static func isOwnerTrusted(_ status: stat) -> Bool { status.st_uid == geteuid() || status.st_uid == 0 }

    /// Whether no other user can access the file. Root can make its file readable by an unprivileged program only through the file's group;
    /// Kubernetes does so for mounted secrets (`fsGroup`).
    package static func isPrivate(_ status: stat) -> Bool {
        guard status.st_mode & 0o007 == 0 else { return false }
        let isFromRoot = status.st_uid == 0 && geteuid() != 0 && status.st_mode & 0o030 == 0
        return status.st_mode & 0o070 == 0 || isFromRoot || PrivateGroup.isUserPrivate(status.st_gid)
    }

    /// The advice, as a sentence without its period, for a file that is not private. Only the owner of a file can change its mode (chmod(2)).
    package static func advice(_ status: stat, _ path: String) -> String {
        let file = ShellWord.path(path)
        guard status.st_uid != geteuid() else { return "Run: chmod 600 \(file)" }
        // This program reads a file of root through its group.
        return
            "It belongs to root: copy the key to a file that only you can access (mode 600), or have root run: chmod o-rwx,g-wx \(file)"
    }
}
