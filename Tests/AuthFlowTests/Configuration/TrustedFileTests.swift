import AuthFlow
import Foundation
import Testing

@testable import AuthFlowConfiguration

/// Files that another user could have written or replaced.
@Suite struct TrustedFileTests {
    /// A change to a directory with `shared/folder/file`, and a link to `folder` in `shared`.
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
        if let path = change.path {
            try FileManager.default.setAttributes([.posixPermissions: change.mode], ofItemAtPath: "\(folder)/\(path)")
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
