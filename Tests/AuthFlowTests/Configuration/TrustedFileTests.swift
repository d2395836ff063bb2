import AuthFlow
import Foundation
import Testing

@testable import AuthFlowConfiguration

/// Files that another user could have written or replaced.
@Suite struct TrustedFileTests {
    /// A change to the mode of a path in the directory that `withFolder(_:)` creates, and the path of the file to read.
    struct Change: CustomTestStringConvertible {
        let testDescription: String
        /// The path that is made world-writable; nil for none.
        var path: String?
        var mode = 0o777
        var readPath = "shared/folder/file"
        let isTrusted: Bool
    }

    static let changes = [
        Change(testDescription: "a private file", isTrusted: true),
        Change(testDescription: "a link to a private directory", readPath: "shared/link/file", isTrusted: true),
        Change(testDescription: "a detour", readPath: "shared/folder/../link/./file", isTrusted: true),
        Change(testDescription: "a writable file", path: "shared/folder/file", isTrusted: false),
        Change(testDescription: "a writable directory", path: "shared/folder", isTrusted: false),
        Change(testDescription: "a writable ancestor", path: "shared", isTrusted: false),
        Change(
            testDescription: "a writable ancestor with the sticky bit",
            path: "shared",
            mode: 0o1777,
            isTrusted: true
        ),
        Change(
            testDescription: "a link to a file below a writable directory",
            path: "links",
            readPath: "shared/last",
            isTrusted: false
        ),
        Change(
            testDescription: "a path through a writable directory",
            path: "links",
            readPath: "links/../shared/folder/file",
            isTrusted: false
        ),
        // Others could replace the link.
        Change(
            testDescription: "a link in a writable directory",
            path: "links",
            readPath: "links/link/file",
            isTrusted: false
        ),
        Change(
            testDescription: "a link through a writable directory",
            path: "links",
            readPath: "shared/far/file",
            isTrusted: false
        ),
    ]

    @Test(arguments: changes) func aFileThatOthersCouldHaveWrittenIsRejected(_ change: Change) throws {
        try withFolder { folder in
            if let path = change.path {
                let attributes: [FileAttributeKey: Any] = [.posixPermissions: change.mode]
                try FileManager.default.setAttributes(attributes, ofItemAtPath: "\(folder)/\(path)")
            }
            let file = TrustedFile("\(folder)/\(change.readPath)", kind: "secret file")
            do {
                #expect(try file.contents(maximumSize: 100) == Array("content".utf8))
                #expect(change.isTrusted)
            } catch {
                #expect(!change.isTrusted && "\(error)".contains("the secret file cannot be trusted"), "\(error)")
            }
        }
    }

    /// A change to the owner or the group of a path in the same directory.
    struct Ownership: CustomTestStringConvertible {
        let testDescription: String
        /// The path whose owner or group is changed.
        let path: String
        var isGroup = false
        /// The path whose mode is changed; nil for none.
        var changedPath: String?
        var mode = 0o1777
        var readPath = "shared/folder/file"
        var checksOwners = true
        /// Part of the message; nil if the file is trusted.
        let words: String?
    }

    private static let otherUser: UInt32 = 12_345

    static let ownerships = [
        Ownership(
            testDescription: "a file",
            path: "shared/folder/file",
            words: "file belongs to another user, so the secret file cannot be trusted"
        ),
        Ownership(
            testDescription: "a directory",
            path: "shared/folder",
            words: "folder belongs to another user, so the secret file cannot be trusted"
        ),
        Ownership(
            testDescription: "an ancestor",
            path: "shared",
            words: "shared belongs to another user, who can replace the file"
        ),
        Ownership(
            testDescription: "a link to the file",
            path: "shared/last",
            readPath: "shared/last",
            words: "last belongs to another user, so the secret file cannot be trusted"
        ),
        Ownership(
            testDescription: "a link to the directory",
            path: "shared/link",
            readPath: "shared/link/file",
            words: "link belongs to another user, who can replace the file"
        ),
        Ownership(
            testDescription: "a file that a group can write",
            path: "shared/folder/file",
            isGroup: true,
            changedPath: "shared/folder/file",
            mode: 0o660,
            words: "Other users can write to"
        ),
        Ownership(
            testDescription: "a directory that a group can write",
            path: "shared/folder",
            isGroup: true,
            changedPath: "shared/folder",
            mode: 0o770,
            words: "Other users can write to"
        ),
        // As in a container, where the owner may be a user of the host.
        Ownership(
            testDescription: "a file that another program provides",
            path: "shared/folder/file",
            checksOwners: false,
            words: nil
        ),
        Ownership(
            testDescription: "a directory that another program provides",
            path: "shared",
            checksOwners: false,
            words: nil
        ),
        Ownership(
            testDescription: "a file that any user could have created where another program provides files",
            path: "shared/folder/file",
            changedPath: "shared/folder",
            checksOwners: false,
            words: "file belongs to another user, so the secret file cannot be trusted"
        ),
    ]

    @Test(.enabled(if: geteuid() == 0, "Only root can give a file to another user."), arguments: ownerships)
    func aFileThatAnotherUserOwnsOrCouldReplaceIsRejected(_ ownership: Ownership) throws {
        try withFolder { folder in
            let (owner, group): (uid_t, gid_t) = ownership.isGroup ? (0, Self.otherUser) : (Self.otherUser, 0)
            try #require(unsafe lchown("\(folder)/\(ownership.path)", owner, group) == 0)
            if let path = ownership.changedPath {
                let attributes: [FileAttributeKey: Any] = [.posixPermissions: ownership.mode]
                try FileManager.default.setAttributes(attributes, ofItemAtPath: "\(folder)/\(path)")
            }
            let path = "\(folder)/\(ownership.readPath)"
            let file = TrustedFile(path, kind: "secret file", checksOwners: ownership.checksOwners)
            do {
                #expect(try file.contents(maximumSize: 100) == Array("content".utf8))
                #expect(ownership.words == nil)
            } catch let error as AuthError {
                #expect(error.code == .invalidConfiguration)
                #expect(ownership.words.map { error.message.contains($0) } == true, "\(error)")
                // After chown under sudo, the user could not read the file, because root would own it.
                #expect(!error.message.contains("chown"), "\(error)")
            }
        }
    }

    private func withFolder(_ body: (String) throws -> Void) throws {
        let folder = NSTemporaryDirectory() + "authflow-trust-\(UUID().uuidString)"
        defer { try? FileManager.default.removeItem(atPath: folder) }
        for directory in ["", "shared", "shared/folder", "links", "links/inner"] {
            try FileManager.default.createDirectory(
                atPath: "\(folder)/\(directory)",
                withIntermediateDirectories: false,
                attributes: [.posixPermissions: 0o700]
            )
        }
        for file in ["shared/folder/file", "links/inner/file"] {
            let content = Data("content".utf8)
            let attributes: [FileAttributeKey: Any] = [.posixPermissions: 0o600]
            #expect(
                FileManager.default.createFile(atPath: "\(folder)/\(file)", contents: content, attributes: attributes)
            )
        }
        for (link, target) in [
            ("shared/link", "folder"), ("links/link", "\(folder)/shared/folder"), ("shared/far", "../links/link"),
            ("shared/last", "../links/inner/file"),
        ] {
            try FileManager.default.createSymbolicLink(atPath: "\(folder)/\(link)", withDestinationPath: target)
        }
        try body(folder)
    }
}
