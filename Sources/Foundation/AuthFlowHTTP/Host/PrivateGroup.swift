package import AuthFlowSystem

/// The user private group: many systems create one for each user, with the user's name.
package enum PrivateGroup {
    /// Whether the permissions of a file or directory let other users write to it. This user's private group has no other members.
    package static func letsOthersWrite(_ status: stat) -> Bool {
        status.st_mode & 0o002 != 0 || status.st_mode & 0o020 != 0 && !isUserPrivate(status.st_gid)
    }

    /// Whether a group is this user's private group, whose entry in the group database lists no other members. A user whose primary group
    /// is this group would not be listed.
    package static func isUserPrivate(_ group: gid_t) -> Bool {
        var user = unsafe passwd()
        var found: UnsafeMutablePointer<passwd>?
        var buffer = [CChar](repeating: 0, count: 16 * 1024)
        guard unsafe getpwuid_r(geteuid(), &user, &buffer, buffer.count, &found) == 0, unsafe found != nil else {
            return false
        }
        let username = unsafe String(cString: user.pw_name)
        guard unsafe user.pw_gid == group else { return false }
        var entry = unsafe SwiftGroup()
        var foundGroup: UnsafeMutablePointer<SwiftGroup>?
        var groupBuffer = [CChar](repeating: 0, count: 16 * 1024)
        guard unsafe getgrgid_r(group, &entry, &groupBuffer, groupBuffer.count, &foundGroup) == 0,
            unsafe foundGroup != nil, unsafe String(cString: entry.gr_name) == username
        else { return false }
        var next = unsafe entry.gr_mem
        while let member = unsafe next?.pointee {
            guard unsafe String(cString: member) == username else { return false }
            unsafe next = next?.advanced(by: 1)
        }
        return true
    }

    private typealias SwiftGroup = group
}
