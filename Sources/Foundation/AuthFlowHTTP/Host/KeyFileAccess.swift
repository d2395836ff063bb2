package import AuthFlowSystem

/// The access rights to a file with a key.
package enum KeyFileAccess {
    /// Whether the file belongs to this user or root.
    package static func isOwnerTrusted(_ status: stat) -> Bool { status.st_uid == geteuid() || status.st_uid == 0 }

    /// Whether other users cannot access the file. Root can give a program without root privileges access only through a group, as Kubernetes
    /// does for a secret that it mounts in a container (`fsGroup`).
    package static func isPrivate(_ status: stat) -> Bool {
        guard status.st_mode & 0o007 == 0 else { return false }
        let isFromRoot = status.st_uid == 0 && geteuid() != 0 && status.st_mode & 0o030 == 0
        return status.st_mode & 0o070 == 0 || isFromRoot || PrivateGroup.isUserPrivate(status.st_gid)
    }
}
