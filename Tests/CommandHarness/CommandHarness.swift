public import Foundation

/// Limits the number of programs that run concurrently, because too many would leave no processor time for the
/// emulator.
private actor Gate {
    private var free: Int
    private var waiting: [CheckedContinuation<Void, Never>] = []

    init(_ free: Int) { self.free = free }

    nonisolated func pass<Return: Sendable>(_ body: () async throws -> Return) async throws -> Return {
        await enter()
        do {
            let result = try await body()
            await leave()
            return result
        } catch {
            await leave()
            throw error
        }
    }

    private func enter() async {
        if free > 0 {
            free -= 1
        } else {
            await withCheckedContinuation { waiting.append($0) }
        }
    }

    private func leave() {
        if waiting.isEmpty {
            free += 1
        } else {
            waiting.removeFirst().resume()
        }
    }
}

/// The command-line tool from the user's perspective: the built program, its two streams and its exit status.
public enum CommandHarness {
    /// The result of a run.
    public struct Outcome: Sendable {
        /// The exit status, or the negated number of the signal that terminated the program.
        public let status: Int32
        /// The text on standard output.
        public let output: String
        /// The text on standard error.
        public let standardError: String
    }

    private static let gate = Gate(3)
    /// The maximum duration of a run, in seconds.
    private static let timeout = 120.0

    /// The directory of the programs that were built with the tests.
    ///
    /// `AUTHFLOW_PROGRAMS` can specify a different directory, to run the same tests against another version of
    /// the programs.
    public static let folder =
        ProcessInfo.processInfo.environment["AUTHFLOW_PROGRAMS"].map { URL(fileURLWithPath: $0) }
        ?? URL(fileURLWithPath: CommandLine.arguments[0]).deletingLastPathComponent()

    /// Runs a program that was built with the tests.
    /// - Parameter folder: The working directory.
    /// - Parameter isAlone: Whether the run counts toward the limit on concurrent runs.
    /// - Parameter onStart: Called with the process ID once the program is running.
    /// - Parameter onTalk: Called with the standard error so far; returning true interrupts the program like Ctrl-C.
    public static func run(
        _ arguments: [String],
        program: String = "authflow",
        environment: [String: String] = [:],
        isAlone: Bool = true,
        folder: String? = nil,
        started onStart: (@Sendable (Int32) -> Void)? = nil,
        interruptWhen onTalk: (@Sendable (String) -> Bool)? = nil
    ) async throws -> Outcome {
        guard isAlone else {
            return try await runNow(
                arguments,
                program: program,
                environment: environment,
                in: folder,
                started: onStart,
                interruptWhen: onTalk
            )
        }
        return try await Self.gate.pass {
            try await runNow(
                arguments,
                program: program,
                environment: environment,
                in: folder,
                started: onStart,
                interruptWhen: onTalk
            )
        }
    }

    private static func runNow(
        _ arguments: [String],
        program: String,
        environment: [String: String],
        in workingDirectory: String?,
        started onStart: (@Sendable (Int32) -> Void)?,
        interruptWhen onTalk: (@Sendable (String) -> Bool)?
    ) async throws -> Outcome {
        let path = program.hasPrefix("/") ? program : Self.folder.appendingPathComponent(program).path
        let child = try ChildProcess(
            path,
            arguments,
            environment: environment.merging(["PATH": "/usr/bin:/bin", "HOME": NSTemporaryDirectory()]) { own, _ in own
            },
            folder: workingDirectory
        )
        let identifier = child.identifier
        onStart?(identifier)
        async let errorOutput = Self.onThread {
            Self.read(child.standardError) { text in
                if onTalk?(text) == true { kill(identifier, SIGINT) }
            }
        }
        async let printed = Self.onThread { Self.read(child.output) { _ in } }
        // A program that hangs must not block the tests that wait for it.
        let limit = DispatchWorkItem { kill(identifier, SIGKILL) }
        DispatchQueue.global().asyncAfter(deadline: .now() + Self.timeout, execute: limit)
        let (outputText, standardErrorText) = await (printed, errorOutput)
        limit.cancel()
        return Outcome(
            status: await Self.onThread { child.end() },
            output: outputText,
            standardError: standardErrorText
        )
    }

    /// Runs a blocking function on a separate thread, so that it blocks no other test.
    private static func onThread<Value: Sendable>(_ body: @escaping @Sendable () -> Value) async -> Value {
        await withCheckedContinuation { continuation in
            Thread.detachNewThread { continuation.resume(returning: body()) }
        }
    }

    private static func read(_ descriptor: Int32, _ onChange: (String) -> Void) -> String {
        defer { close(descriptor) }
        var text: [UInt8] = []
        var byte: UInt8 = 0
        while true {
            let count = unsafe Foundation.read(descriptor, &byte, 1)
            if count < 0, errno == EINTR { continue }
            guard count == 1 else { break }
            text.append(byte)
            if byte == UInt8(ascii: "\n") { onChange(String(decoding: text, as: UTF8.self)) }
        }
        return String(decoding: text, as: UTF8.self)
    }

    /// Writes a configuration into a separate directory.
    public static func withConfiguration<Return>(
        _ text: String,
        _ body: (_ path: String, _ folder: String) async throws -> Return
    ) async throws -> Return {
        let folder = NSTemporaryDirectory() + "authflow-command-\(UUID().uuidString)"
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(atPath: folder) }
        let path = "\(folder)/authflow.json"
        try Data(text.utf8).write(to: URL(fileURLWithPath: path))
        return try await body(path, folder)
    }

    #if os(Linux)
    /// Calls a function with environment variables for programs that cannot load some libraries.
    public static func withoutLibraries(
        _ names: [String],
        _ body: (_ environment: [String: String]) async throws -> Void
    ) async throws {
        try await withConfiguration("") { _, folder in
            // The loader finds these empty files first, and does not search further.
            for name in names { try Data().write(to: URL(fileURLWithPath: "\(folder)/\(name)")) }
            try await body(["LD_LIBRARY_PATH": folder])
        }
    }
    #endif

    /// A configuration with one profile for an emulator; `changes` sets its keys; nil removes a key.
    public static func profile(_ issuer: String, _ changes: [String: String?] = [:]) -> String {
        var keys: [String: String?] = [
            "provider": #""oidc""#, "issuer": "\"\(issuer)\"", "client_id": #""authflow-demo""#,
            "scopes": #"["openid", "profile"]"#, "store": #"{"name": "file", "directory": "store"}"#,
            "user_agent": """
            {"name": "headless", "username": "alice", "password": {"env": "PASSWORD"}, "origins": ["\(issuer)"]}
            """,
        ]
        for (name, value) in changes { keys[name] = value }
        let members = keys.sorted { $0.key < $1.key }.compactMap { name, value in value.map { "\"\(name)\": \($0)" } }
        return "{\"profiles\": {\"work\": {\n\(members.joined(separator: ",\n"))\n}}}"
    }
}
