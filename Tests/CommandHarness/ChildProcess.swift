#if os(Linux)
import Glibc

/// A child process, with its output.
///
/// Foundation's `Process` is not used, because it crashed in `run()` in about one in fifteen runs of these tests, which
/// start several processes concurrently.
struct ChildProcess: Sendable {
    let identifier: pid_t
    /// The read ends of standard output and standard error.
    let output: Int32
    let standardError: Int32

    struct Failure: Error {
        let path: String
        let number: Int32
    }

    /// Starts a program with the signal mask of the calling thread.
    init(_ path: String, _ arguments: [String], environment: [String: String], folder: String?) throws {
        let (outputEnds, standardErrorEnds) = (try Self.pipe(), try Self.pipe())
        defer {
            close(outputEnds.write)
            close(standardErrorEnds.write)
        }
        var actions = unsafe posix_spawn_file_actions_t()
        unsafe posix_spawn_file_actions_init(&actions)
        defer { unsafe posix_spawn_file_actions_destroy(&actions) }
        unsafe posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0)
        unsafe posix_spawn_file_actions_adddup2(&actions, outputEnds.write, 1)
        unsafe posix_spawn_file_actions_adddup2(&actions, standardErrorEnds.write, 2)
        if let folder { unsafe Self.changeFolder(&actions, folder) }
        unsafe Self.closeOtherDescriptors(&actions)
        var argumentPointers = unsafe ([path] + arguments).map { unsafe strdup($0) } + [nil]
        var variablePointers = unsafe environment.map { unsafe strdup("\($0.key)=\($0.value)") } + [nil]
        let all = unsafe argumentPointers + variablePointers
        defer { for index in unsafe all.indices { unsafe free(all[index]) } }
        var identifier: pid_t = 0
        let number = unsafe posix_spawn(&identifier, path, &actions, nil, &argumentPointers, &variablePointers)
        guard number == 0 else {
            close(outputEnds.read)
            close(standardErrorEnds.read)
            throw Failure(path: path, number: number)
        }
        self.identifier = identifier
        self.output = outputEnds.read
        self.standardError = standardErrorEnds.read
    }

    /// Waits on the calling thread until the program exits.
    /// - Returns: The exit status, or the negated number of the signal that terminated the program.
    func end() -> Int32 {
        var status: Int32 = 0
        while unsafe waitpid(identifier, &status, 0) == -1, errno == EINTR {}
        return status & 0x7F == 0 ? (status >> 8) & 0xFF : -(status & 0x7F)
    }

    private static func pipe() throws -> (read: Int32, write: Int32) {
        var ends: [Int32] = [-1, -1]
        guard unsafe Glibc.pipe(&ends) == 0 else { throw Failure(path: "a pipe", number: errno) }
        for end in ends { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
        return (ends[0], ends[1])
    }

    // GNU extensions, which Swift does not import.

    private static func changeFolder(_ actions: UnsafeMutablePointer<posix_spawn_file_actions_t>, _ folder: String) {
        typealias Function =
            @convention(c) (UnsafeMutablePointer<posix_spawn_file_actions_t>, UnsafePointer<CChar>) -> Int32
        guard let address = unsafe dlsym(nil, "posix_spawn_file_actions_addchdir_np") else { return }
        _ = unsafe unsafeBitCast(address, to: Function.self)(actions, folder)
    }

    private static func closeOtherDescriptors(_ actions: UnsafeMutablePointer<posix_spawn_file_actions_t>) {
        typealias Function = @convention(c) (UnsafeMutablePointer<posix_spawn_file_actions_t>, Int32) -> Int32
        guard let address = unsafe dlsym(nil, "posix_spawn_file_actions_addclosefrom_np") else { return }
        _ = unsafe unsafeBitCast(address, to: Function.self)(actions, 3)
    }
}
#endif
