import ArgumentParser
import AuthFlow
import AuthFlowEssentials
import AuthFlowMCP
import AuthFlowSystem

struct MCPCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "mcp",
        abstract: "Connect hosts to remote MCP servers that require a sign-in.",
        subcommands: [Connect.self, Status.self]
    )

    struct Connect: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Bridge MCP on standard input and output to a remote server over Streamable HTTP.",
            discussion: """
                Add this command to the host's configuration as a local server. The first request that requires a sign-in \
                opens one browser tab, no matter how many bridges are waiting; without a browser, the host receives a message with the command to run. \
                Tokens are refreshed and shared by all bridges of a user.
                """
        )

        @OptionGroup var resource: ResourceOptions

        @OptionGroup var scope: ScopeOptions

        @OptionGroup var options: ProfileOptions

        @Flag(help: "Never open a browser; send the host a message with the authflow login command instead.")
        var noBrowser = false

        @Option(help: "The user agent, overriding the configuration: auto, loopback, system-browser, headless or tree.")
        var userAgent: String?

        @Option(help: "The idle timeout of a stream, in seconds.")
        var silence = 900

        func validate() throws {
            guard resource.url != nil else { throw ValidationError("The URL of the server is missing.") }
            try resource.check(options, scopes: scope.scopes)
            guard (1...86_400).contains(silence) else {
                throw ValidationError("--silence must be a number of seconds from 1 to 86400.")
            }
        }

        func run() async throws {
            guard let choice = try resource.choice(options, scopes: scope.scopes) else { return }
            var environment = LaunchEnvironment.current(environment: ToolEnvironment.host.environment)
            // Standard input is connected to the host, so the user cannot be prompted.
            environment.hasTerminal = false
            environment.mayOpenBrowser = !noBrowser
            let client = try choice.client(
                userAgent: userAgent,
                launchEnvironment: environment,
                signsInOnDemand: !noBrowser,
                // After the user closes a tab, another tab is not opened immediately.
                cooldownAfterFailure: .seconds(60),
                showsSteps: false
            )
            var settings = MCPBridge.Options()
            settings.idleTimeout = .seconds(silence)
            let log = LogOutput(descriptor: STDERR_FILENO)
            settings.log = { log.write(Terminal.visible("authflow: \($0)")) }
            settings.explain = { error in
                let needsLogin: Set<AuthError.Code> = [
                    .loginRequired, .noUserAgent, .userAgentFailed, .insufficientScope,
                ]
                guard needsLogin.contains(error.code), let advice = choice.loginAdvice(after: error) else {
                    return "\(error)"
                }
                return "\(error) \(advice)"
            }
            let (lines, input) = AsyncStream.makeStream(of: [UInt8].self)
            // The bridge exits when its output fails, even if standard input remains open: after a host has crashed, other programs
            // that it started may have inherited the other end.
            let output = MessageOutput(descriptor: STDOUT_FILENO) { number in
                Terminal.note(failure: number)
                input.finish()
            }
            let bridge = MCPBridge(
                client: client,
                transport: try choice.transport(),
                options: settings,
                write: output.write
            )
            StandardInput.read(limit: 64 * 1024 * 1024, to: input)
            for await line in lines {
                // No response to this request could be delivered.
                if Terminal.hasFailed { break }
                bridge.receive(line)
            }
            // This runs in a separate task, because a signal may have cancelled the current task. The bridge waits for pending
            // responses only at the end of the input, not after a signal or a failed write.
            let grace = Task.isCancelled || Terminal.hasFailed ? Duration.zero : .seconds(2)
            await Task { await bridge.close(within: grace) }.value
            await output.finish()
            await log.finish()
        }
    }

    struct Status: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "status",
            abstract:
                "List the protected resources that you are signed in to without a profile, and the expiry of their tokens. Sends no requests."
        )

        @Option(name: [.short, .long], help: "The configuration file, which names the store.", completion: .file())
        var config: String?

        @Flag(help: "Print the list as JSON.")
        var json = false

        func run() async throws {
            let file = try ResourceChoice.file(config)?.content
            let settings = file?.resourceClient ?? ResourceClientSettings()
            let store = try settings.registrationStore(Known.components, host: ToolEnvironment.host).store
            var all: [JSON] = []
            for address in try await KnownResources(store: store).addresses() {
                let client = try ResourceChoice.clientWithoutProfile(of: address, config: config)
                var status: ResourceClient.Status?
                var failure: AuthError?
                do {
                    status = try await client.status()
                } catch let error as AuthError {
                    failure = error
                }
                let credential = status?.credential
                let end = credential?.tokens.expiresAt
                let isOver = credential.map { $0.state() == .ended } ?? true
                if json {
                    var entry: [String: JSON] = [
                        "resource": .string(address), "issuer": status.map { .string($0.issuer) } ?? .null,
                        "scopes": .array((credential?.tokens.scopes ?? []).map(JSON.string)),
                        "expires_at": end.map { .string($0.formatted(.iso8601)) } ?? .null,
                        "login_required": .bool(isOver),
                    ]
                    entry["error"] = failure.map { .string($0.code.rawValue) }
                    all.append(.object(entry))
                } else {
                    let options = OptionWords.of("--config", config)
                    let details = ShellWord.line(["authflow", "status"] + options + [address])
                    let state =
                        if failure != nil {
                            "cannot be read; for details, run: \(details)"
                        } else if isOver {
                            "login required"
                        } else if credential?.tokens.refreshToken == nil {
                            "until \(end?.formatted(.iso8601) ?? "an unknown time")"
                        } else {
                            "signed in, refreshed when needed"
                        }
                    Terminal.result("\(DisplayText.sanitized(address, limit: 300))  \(state)")
                }
            }
            if json {
                try Terminal.result(.array(all))
            } else if try await KnownResources(store: store).addresses().isEmpty {
                Terminal.printMessage("You are not signed in to any protected resource.")
            }
            RegistrationCommands.warnOfLostEntries(try await KnownResources(store: store).lacksResources())
        }
    }
}

/// The lines of standard input, read on a separate thread.
private enum StandardInput {
    /// - Parameter limit: The maximum line length, in bytes. A longer line is replaced with an invalid message, so that it is rejected.
    static func read(limit: Int, to continuation: AsyncStream<[UInt8]>.Continuation) {
        DetachedThread.run {
            var line: [UInt8] = []
            var isTooLong = false
            var buffer = [UInt8](repeating: 0, count: 64 * 1024)
            while true {
                let count = SystemCall.read(from: STDIN_FILENO, into: &buffer)
                guard count > 0 else { break }
                var rest = buffer[..<count]
                while let end = rest.firstIndex(of: 0x0A) {
                    if !isTooLong { line += rest[..<end] }
                    continuation.yield(isTooLong ? [UInt8(ascii: "?")] : line)
                    (line, isTooLong) = ([], false)
                    rest = rest[(end + 1)...]
                }
                if line.count + rest.count > limit { (line, isTooLong) = ([], true) }
                if !isTooLong { line += rest }
            }
            if !line.isEmpty { continuation.yield(line) }
            continuation.finish()
        }
    }
}
