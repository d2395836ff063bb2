import ArgumentParser
import AuthFlow
import AuthFlowEssentials
import AuthFlowSystem

struct ExecCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "exec",
        abstract:
            "Run a program with a fresh access token: in a variable, on a file descriptor, or in a file that is kept up to date.",
        discussion: """
            authflow exec -- restic backup /home
            authflow exec --file TOKEN_FILE -- long-running-job

            With a variable or a descriptor, the program replaces this process (exec), and its token is not refreshed afterwards.
            """
    )

    @OptionGroup var options: ProfileOptions

    @Option(help: "The environment variable for the token. Default: \(TokenFormat.variable).")
    var variable: String?

    @Option(
        help: "The file descriptor from which the program reads the token, instead of a variable: 3 to 1023."
    )
    var descriptor: Int32?

    @Option(
        help:
            "The environment variable for the path of a file with the token, instead of the token itself: the file is kept up to date while the program runs, and removed when it exits."
    )
    var file: String?

    @Option(help: "The minimum remaining lifetime of the token, in seconds.")
    var minTTL = 60

    @Argument(parsing: .postTerminator, help: "The program and its arguments.")
    var command: [String]

    func validate() throws {
        guard [variable != nil, descriptor != nil, file != nil].count(where: { $0 }) < 2 else {
            throw ValidationError("--variable, --descriptor and --file cannot be combined.")
        }
        guard descriptor.map({ (3...1023).contains($0) }) ?? true else {
            throw ValidationError("--descriptor must be a number from 3 to 1023.")
        }
        for name in [variable, file].compactMap({ $0 }) {
            guard Self.isName(name) else { throw ValidationError("\"\(name)\" is not a valid variable name.") }
            // The dynamic loader and shells interpret these variables, and print values that they cannot use.
            let prefixes = ["LD_", "DYLD_", "BASH", "LC_", "PYTHON"]
            let names = [
                "CDPATH", "ENV", "GLIBC_TUNABLES", "HOME", "IFS", "LANG", "LANGUAGE", "PATH", "PROMPT_COMMAND", "PS4",
                "SHELLOPTS", "TERM",
            ]
            guard !prefixes.contains(where: name.hasPrefix), !names.contains(name) else {
                throw ValidationError("\(name) is used by the system or the shell, and cannot hold a token.")
            }
        }
        guard TokenRequest.lifetimes.contains(minTTL) else {
            throw ValidationError("--min-ttl must be a number of seconds from 0 to 86400.")
        }
    }

    /// Whether the text is a POSIX name (POSIX.1-2017, Base Definitions 3.235), which every shell accepts as a variable name.
    private static func isName(_ text: String) -> Bool {
        text.utf8.allSatisfy { $0.isLetterOrDigit || $0 == UInt8(ascii: "_") } && text.utf8.first?.isDigit == false
    }

    func run() async throws {
        // The program must not inherit connections that are opened from now on.
        let inherited = OpenDescriptors.all
        var environment = ToolEnvironment.host.environment
        guard let program = command.first, let path = LaunchEnvironment.find(program, environment) else {
            throw AuthError(
                .invalidConfiguration,
                "\(DisplayText.sanitized(command.first ?? "")) is not an installed program."
            )
        }
        let command = [path] + self.command.dropFirst()
        let client = try options.choice.client()
        let owner = try await client.owner()
        let credential = try await credential(of: client)
        OpenDescriptors.keep(inherited)
        if let file { try await run(command, environment, file, client, credential, owner) }
        let tokens = credential.tokens
        // Pending work must finish now, because the program replaces this process.
        await UnfinishedClients.drainBeforeExit()
        OpenDescriptors.keep(inherited)
        if let descriptor {
            try send(tokens.accessToken, over: descriptor)
        } else {
            environment[variable ?? TokenFormat.variable] = tokens.accessToken.exposed
        }
        try AttachedProcess.replace(with: command, environment: environment)
    }

    private func credential(of client: AuthClient) async throws -> Credential {
        let credential = try await DelayNotice().during { try await client.freshCredential(lasting: .seconds(minTTL)) }
        guard !credential.tokens.isDPoPBound else {
            throw AuthError(.unsupported, "The token is bound to a key (DPoP), so other programs cannot use it.")
        }
        return credential
    }

    /// Writes the token to a pipe that the program inherits.
    private func send(_ token: Secret, over descriptor: Int32) throws {
        var ends: [Int32] = [-1, -1]
        let bytes = Array("\(token.exposed)\n".utf8)
        // pipe(7): a write beyond the pipe's capacity would block, because no process reads from the pipe yet. The
        // default capacity is at least this large on every supported system.
        guard bytes.count <= 4096 * 4, unsafe pipe(&ends) == 0, SystemCall.write(bytes, to: ends[1]) else {
            throw AuthError(
                .storageFailed,
                "The token is larger than 16 KiB, or could not be written to a pipe. Use --file instead of --descriptor."
            )
        }
        close(ends[1])
        if ends[0] != descriptor {
            guard dup2(ends[0], descriptor) == descriptor else {
                throw AuthError(.storageFailed, "The descriptor \(descriptor) could not be opened.")
            }
            close(ends[0])
        }
        _ = fcntl(descriptor, F_SETFD, 0)
    }

    /// Whether a path names a directory that belongs to this user, and to which this user and no other user can write.
    private static func isOwnDirectory(_ path: String) -> Bool {
        var status = stat()
        guard path.hasPrefix("/"), unsafe stat(path, &status) == 0 else { return false }
        guard status.st_mode & S_IFMT == S_IFDIR, status.st_uid == geteuid(), status.st_mode & 0o022 == 0 else {
            return false
        }
        // In a service, the directory may be on a read-only file system (systemd.exec(5), ProtectSystem=strict).
        return FileManager.default.isWritableFile(atPath: path)
    }

    /// Runs the program as a child process, while this process keeps the file up to date.
    /// - Parameters:
    ///   - first: The credential whose token is written first.
    ///   - owner: The user of another profile to whom the credential belongs; nil for none.
    private func run(
        _ command: [String],
        _ environment: [String: String],
        _ variable: String,
        _ client: AuthClient,
        _ first: Credential,
        _ owner: String?
    ) async throws -> Never {
        #if os(Linux)
        let tokens = first.tokens
        // XDG_RUNTIME_DIR is accessible only to the user, and is usually a tmpfs. /tmp, whose sticky bit prevents others from replacing the
        // file, is the fallback. XDG Base Directory Specification: a relative path is invalid and must be ignored.
        let directory = environment["XDG_RUNTIME_DIR"].flatMap { Self.isOwnDirectory($0) ? $0 : nil } ?? "/tmp"
        let tokenDirectory = try TokenDirectory.create(in: directory)
        let place = tokenDirectory.file
        do {
            guard try place.create(with: Array(tokens.accessToken.exposed.utf8)) else {
                throw AuthError(.storageFailed, "\(place.path) already exists.")
            }
        } catch {
            tokenDirectory.remove()
            throw error
        }
        var environment = environment
        environment[variable] = place.path
        let tokenFile = TokenFile(file: place, lifetime: .seconds(minTTL), host: ToolEnvironment.host) {
            let credential = try await credential(of: client)
            // Users who are not identified can be distinguished only by their sign-ins. Without a user, each renewal is a new sign-in.
            let isSameSignIn =
                client.isWithoutUser
                ? try await client.owner() == owner
                : credential.identity != nil || credential.signedInAt == first.signedInAt
            guard credential.account == first.account, isSameSignIn else {
                throw AuthError(
                    .accountMismatch,
                    "Another user may have signed in, so the program will not receive a new token."
                )
            }
            return credential.tokens
        } report: { error in
            Terminal.printMessage(
                "authflow: The token in the file could not be refreshed: \(ExitStatus.message(for: error))"
            )
        }
        let refreshing = Task { await tokenFile.keepUpToDate(tokens) }
        let status: Result<Int32, any Error>
        do {
            status = .success(try await AttachedProcess.run(command, environment: environment))
        } catch {
            status = .failure(error)
        }
        refreshing.cancel()
        // A write in progress would recreate the file after its removal.
        _ = await refreshing.result
        removal: do {
            try place.remove()
        } catch {
            // The file may have been removed, but not durably.
            guard unsafe truncate(place.path, 0) == 0 || place.exists else { break removal }
            Terminal.printMessage(
                "authflow: The file with the token could not be removed: \(ExitStatus.message(for: error))"
            )
        }
        tokenDirectory.remove()
        let code = try status.get()
        await UnfinishedClients.drainBeforeExit()
        _exit(code)
        #else
        throw AuthError(.unsupported, "--file is supported only on Linux.")
        #endif
    }
}

/// The file descriptors of this process.
enum OpenDescriptors {
    /// The open descriptors.
    static var all: Set<Int32> {
        let names = (try? FileManager.default.contentsOfDirectory(atPath: "/dev/fd")) ?? []
        // One of the listed descriptors was opened to read this directory, and is already closed.
        return Set(names.compactMap { Int32($0) }.filter { fcntl($0, F_GETFD) != -1 })
    }

    /// Reserves the descriptor number from `--descriptor` before this process opens a file with that number. Otherwise,
    /// a thread could be using the number when the token's pipe replaces its file, and would read from the pipe.
    static func reserve(for arguments: [String]) {
        guard arguments.dropFirst().first == "exec" else { return }
        let options = arguments.dropFirst(2).prefix { $0 != "--" }
        let value =
            zip(options, options.dropFirst()).first { $0.0 == "--descriptor" }?.1
            ?? options.first { $0.hasPrefix("--descriptor=") }?.dropFirst("--descriptor=".count).description
        guard let number = value.flatMap({ Int32($0) }), fcntl(number, F_GETFD) == -1 else { return }
        let nothing = unsafe open("/dev/null", O_RDONLY | O_CLOEXEC)
        guard nothing >= 0, nothing != number else { return }
        _ = dup2(nothing, number)
        close(nothing)
        _ = fcntl(number, F_SETFD, FD_CLOEXEC)
    }

    /// Whether 16 more descriptors are available. The runtime's scheduler crashes if it cannot open a descriptor.
    static var areAvailable: Bool {
        let opened = (0..<16).map { _ in unsafe open("/dev/null", O_RDONLY | O_CLOEXEC) }
        for descriptor in opened where descriptor >= 0 { close(descriptor) }
        return !opened.contains { $0 < 0 }
    }

    /// Sets `FD_CLOEXEC` on all descriptors except the given descriptors and the standard streams.
    static func keep(_ kept: Set<Int32>) {
        for descriptor in all.subtracting(kept) where descriptor > 2 { _ = fcntl(descriptor, F_SETFD, FD_CLOEXEC) }
    }
}
