import AuthFlow
import Foundation
import Testing

@testable import AuthFlowStores

@Suite struct PrivateFileTests {
    private let mark = Array("mark".utf8)

    private func withDirectory(_ body: (String) throws -> Void) throws {
        let directory = NSTemporaryDirectory() + "authflow-\(UUID().uuidString)"
        try PrivateFile.createDirectory(directory)
        defer { try? FileManager.default.removeItem(atPath: directory) }
        try body(directory)
    }

    /// Expects that each operation fails, with a message that contains the given words.
    private func expectFailures(_ operations: [(words: String, run: () throws -> Void)]) {
        for operation in operations {
            let error = #expect(throws: AuthError.self, "\(operation.words)") { try operation.run() }
            #expect(error?.code == .storageFailed)
            #expect(error?.message.contains(operation.words) == true, "\(error?.message ?? "")")
        }
    }

    /// A process ID is written to a lock file, which would overwrite another file.
    @Test(arguments: [
        ("a symbolic link", "it is a symbolic link"), ("a hard link", "is not a lock file of this user"),
        ("a pipe", "is not a lock file of this user"),
    ])
    func aFileThatIsNotALockIsLeftUnchanged(_ kind: String, _ words: String) throws {
        try withDirectory { directory in
            let (other, path) = ("\(directory)/other", "\(directory)/key.lock")
            #expect(try PrivateFile(other).create(with: mark))
            switch kind {
            case "a symbolic link": try FileManager.default.createSymbolicLink(atPath: path, withDestinationPath: other)
            case "a hard link": try FileManager.default.linkItem(atPath: other, toPath: path)
            default: try #require(unsafe mkfifo(path, 0o600) == 0)
            }
            expectFailures([(words, { _ = try PrivateFile(path).openLock().acquire() })])
            #expect(try PrivateFile(other).contents(maximumSize: 10) == mark)
        }
    }

    /// A service may read the file under another account.
    @Test func aReplacementPreservesTheGroupAndThePermissionsExceptGroupAndOtherWriteAccess() throws {
        try withDirectory { directory in
            let file = PrivateFile("\(directory)/file")
            #expect(try file.create(with: [1]))
            if geteuid() == 0 { try #require(unsafe chown(file.path, 0, 65_534) == 0) }
            try #require(unsafe chmod(file.path, 0o664) == 0)
            try file.replacePreservingAccess(with: mark)
            var status = stat()
            try #require(unsafe stat(file.path, &status) == 0)
            #expect(status.st_mode & 0o777 == 0o644)
            if geteuid() == 0 { #expect(status.st_gid == 65_534) }
            #expect(FileManager.default.contents(atPath: file.path) == Data(mark))
        }
    }

    @Test(.enabled(if: geteuid() == 0, "Only root can give a file to another user."))
    func filesAndDirectoriesOfAnotherUserAreNotUsed() throws {
        try withDirectory { directory in
            let file = PrivateFile("\(directory)/file")
            #expect(try file.create(with: mark))
            for path in [file.path, directory] { try #require(unsafe chown(path, 65_534, 65_534) == 0) }
            expectFailures([
                ("is not a directory that belongs to this user", { try PrivateFile.createDirectory(directory) }),
                ("is not a lock file of this user", { _ = try file.openLock() }),
                ("is not a regular file owned by this user,", { _ = try file.contents(maximumSize: 10) }),
                ("owned by this user or root,", { _ = try file.contents(maximumSize: 10, isKey: true) }),
                ("is not a regular file owned by this user,", { try file.requirePrivate() }),
                ("was not written by AuthFlow", { try file.write(mark, markedBy: mark) }),
            ])
        }
    }

    @Test func everyNewDirectoryIsPrivate() throws {
        try withDirectory { directory in
            try PrivateFile.createDirectory("\(directory)/first/second/")
            for path in ["\(directory)/first", "\(directory)/first/second"] {
                var status = stat()
                try #require(unsafe lstat(path, &status) == 0)
                #expect(status.st_mode & 0o7777 == 0o700, "\(path)")
            }
        }
    }

    /// A full disk, a read-only file system and a file in the path require different remedies.
    @Test func theErrorForADirectoryThatCannotBeCreatedStatesTheCause() throws {
        try withDirectory { directory in
            let file = "\(directory)/file"
            let inFile = "\(file)/store"
            let isNew = try PrivateFile(file).create(with: mark)
            #expect(isNew)
            let long = "\(directory)/\(String(repeating: "x", count: 300))"
            expectFailures([
                ("\(inFile) cannot be created: Not a directory", { try PrivateFile.createDirectory(inFile) }),
                ("\(file) cannot be created: a file has this name", { try PrivateFile.createDirectory(file) }),
                ("\(file)/ cannot be created: a file has this name", { try PrivateFile.createDirectory("\(file)/") }),
                ("cannot be created: File name too long", { try PrivateFile.createDirectory(long) }),
            ])
        }
    }

    @Test func aDirectoryThatIsASymbolicLinkIsNotUsed() throws {
        try withDirectory { directory in
            let link = "\(directory)/link"
            try FileManager.default.createSymbolicLink(atPath: link, withDestinationPath: directory)
            let dangling = "\(directory)/dangling"
            try FileManager.default.createSymbolicLink(atPath: dangling, withDestinationPath: "\(directory)/missing")
            for path in [link, "\(link)/", dangling, "\(dangling)/"] {
                expectFailures([("\(path) is a symbolic link", { try PrivateFile.createDirectory(path) })])
            }
        }
    }

    /// Each parent is synced. The working directory may be one that this user cannot examine.
    @Test(
        arguments: [
            ("/a/b/c", ["/a"], ["/a/b/c", "/a/b"]), ("/a/b/", ["/"], ["/a/b/", "/a/b", "/a"]), ("/a", ["/a"], []),
            ("a/b", ["."], ["a/b", "a"]), ("a/b", [], ["a/b", "a", "."]), ("/a", [], ["/a", "/"]), ("", [], ["", "."]),
        ] as [(String, [String], [String])]
    )
    func theMissingDirectoriesOfAPathEndAtItsRoot(_ path: String, _ existing: [String], _ missing: [String]) {
        #expect(PrivateFile.missingDirectories(of: path) { existing.contains($0) } == missing)
    }

    /// The first sign-in failed, and the second succeeded, because the directory then existed.
    @Test(.enabled(if: geteuid() != 0, "Root can read every directory."))
    func aDirectoryIsCreatedInOneThatCannotBeRead() throws {
        try withDirectory { directory in
            try #require(unsafe chmod(directory, 0o300) == 0)
            defer { unsafe chmod(directory, 0o700) }
            try PrivateFile.createDirectory("\(directory)/new/store")
            #expect(PrivateFile("\(directory)/new/store").exists)
        }
    }

    /// With the umask 002, a new directory is writable for its group.
    @Test(.enabled(if: PrivateGroup.isUserPrivate(getegid()), "The user's group must have no other members."))
    func aDirectoryMayBeWritableForTheUserPrivateGroup() throws {
        try withDirectory { directory in
            try #require(unsafe chmod(directory, 0o775) == 0)
            try PrivateFile.createDirectory(directory)
            try #require(unsafe chmod(directory, 0o777) == 0)
            expectFailures([("Run: chmod 700", { try PrivateFile.createDirectory(directory) })])
        }
    }

    /// With mode 0700, root's /tmp would be unusable for every other user.
    @Test func theErrorForASharedDirectoryDoesNotSuggestLockingOtherUsersOut() throws {
        try withDirectory { directory in
            let shared = "\(directory)/tmp"
            try PrivateFile.createDirectory(shared)
            try #require(unsafe chmod(shared, 0o1777) == 0)
            expectFailures([
                (
                    "so no credential is stored there. Configure a directory that only you can write to.",
                    { try PrivateFile.createDirectory(shared) }
                )
            ])
        }
    }

    @Test func aDirectoryIsLockedByOneHolderAtATime() throws {
        try withDirectory { directory in
            let lock = try #require(try PrivateFile.lockDirectory(directory))
            let second = try PrivateFile.lockDirectory(directory)
            #expect(second == nil)
            // No process ID can be written to a directory.
            #expect(lock.holder == nil)
            lock.release()
            let third = try PrivateFile.lockDirectory(directory)
            #expect(third != nil)
        }
    }

    /// If locking fails although no process holds the lock, the caller does not wait.
    @Test func aReleasedLockCannotBeAcquired() throws {
        try withDirectory { directory in
            let lock = try PrivateFile("\(directory)/key.lock").openLock()
            lock.release()
            expectFailures([("cannot be locked", { _ = try lock.acquire() })])
        }
    }

    /// The error for a key file does not suggest signing out, which would not help.
    @Test(
        arguments: [
            (false, .credentialUnusable, "credential. Sign out"), (true, .storageFailed, "key file."),
        ] as [(Bool, AuthError.Code, String)]
    )
    func aFileLargerThanTheMaximumSizeIsNotRead(_ isKey: Bool, _ code: AuthError.Code, _ words: String) throws {
        try withDirectory { directory in
            let file = PrivateFile("\(directory)/file")
            let isNew = try file.create(with: mark)
            let contents = try file.contents(maximumSize: 4, isKey: isKey)
            #expect(isNew && contents == mark)
            let error = #expect(throws: AuthError.self) { try file.contents(maximumSize: 3, isKey: isKey) }
            #expect(error?.code == code)
            #expect(error?.message.contains("larger than 3 bytes, so it is not a \(words)") == true)
        }
    }

    @Test func aPipeThatContainsTheMarkIsNotReplaced() throws {
        try withDirectory { directory in
            let path = "\(directory)/pipe"
            try #require(unsafe mkfifo(path, 0o600) == 0)
            let pipe = unsafe open(path, O_RDWR | O_NONBLOCK)
            defer { close(pipe) }
            try #require(SystemCall.write(mark, to: pipe))
            expectFailures([("was not written by AuthFlow", { try PrivateFile(path).write(mark, markedBy: mark) })])
        }
    }

    /// The file could not be overwritten later.
    @Test func contentWithoutItsMarkIsNotWritten() throws {
        try withDirectory { directory in
            let file = PrivateFile("\(directory)/file")
            expectFailures([("does not begin with the expected marker", { try file.write([1], markedBy: mark) })])
            #expect(!file.exists)
        }
    }

    @Test func aMissingDirectoryIsReportedAsTheReason() throws {
        try withDirectory { directory in
            let missing = "\(directory)/none"
            let file = PrivateFile("\(missing)/file")
            expectFailures([
                ("cannot be opened: No such file", { _ = try file.openLock() }),
                ("cannot be locked: No such file", { _ = try PrivateFile.lockDirectory(missing) }),
                ("cannot be examined: No such file", { try file.requirePrivate() }),
                ("cannot be written: No such file", { try file.replace(with: mark) }),
            ])
            // There is nothing to remove.
            try file.remove()
        }
    }

    #if os(Linux)
    /// fsync(2) fails for the directories of procfs.
    @Test func aRemovalThatCannotBeMadeDurableIsReported() {
        expectFailures([("cannot be synced to disk", { try PrivateFile("/proc/authflow-none").remove() })])
    }
    #endif
}
