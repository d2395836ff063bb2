import ArgumentParser
import AuthFlow
import AuthFlowResourceServerConfiguration
import AuthFlowSystem

struct AccessTokenCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "access-token",
        abstract: "Check an access token against the rules of the API that a configuration file describes.",
        subcommands: [Check.self]
    )

    struct Check: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "check",
            abstract: "Read an access token from standard input, and report which of the API's checks it passes.",
            discussion: """
                The token is never sent, except to its issuer with --introspect. The issuer's metadata and keys are fetched. \
                Exits with 0 when the API of "resource_server" would accept the token, with 1 when it would not, and with 7 when that \
                could not be determined.
                """
        )

        @Option(
            name: [.short, .long],
            help: "The configuration file with \"resource_server\". Default: the same as for the other commands.",
            completion: .file()
        )
        var config: String?

        @Option(help: "A scope that the route requires; may be given more than once.")
        var scope: [String] = []

        @Option(help: "An acr value that the route accepts; may be given more than once.")
        var acr: [String] = []

        @Option(help: "The maximum age of the user's authentication, in seconds.")
        var maxAge: Int?

        @Flag(help: "Send the token to its issuer, if the configuration requires introspection (RFC 7662).")
        var introspect = false

        @Flag(help: "Print the checks as JSON.")
        var json = false

        func validate() throws {
            for scope in scope where !ClientRegistration.Values.isScopeToken(scope) {
                throw ValidationError(
                    "--scope \(ShellWord.quoted(scope)) is not a scope. Repeat the option for each scope."
                )
            }
            guard maxAge.map({ $0 >= 0 }) ?? true else {
                throw ValidationError("--max-age must be a number of seconds, 0 or more.")
            }
        }

        func run() async throws {
            let file = try ConfigurationChoice(option: config).file(
                advice: "Specify a file that contains \"resource_server\" with --config."
            )
            let api = try ResourceServer(configuration: file, host: ToolEnvironment.host)
            let report = await api.report(
                on: try await Self.token(),
                requiring: Requirement(scopes: scope, acrValues: acr, maximumAge: maxAge.map { .seconds($0) }),
                introspects: introspect
            )
            try json ? Terminal.result(Self.json(report)) : Self.show(report)
            if let failure = Self.failure(report) { throw failure }
        }

        /// The API accepts tokens of up to 32 KiB.
        private static func token() async throws -> Secret {
            let input = try await BlockingInput.read {
                BoundedFile.contents(of: STDIN_FILENO, maximumSize: 64 * 1024)
            }
            guard let bytes = input else {
                throw AuthError(.invalidConfiguration, "Standard input cannot be read, or is larger than 64 KiB.")
            }
            let text = String(decoding: bytes, as: UTF8.self).trimmingWhitespace()
            guard !text.isEmpty else {
                throw AuthError(.invalidConfiguration, "There is no token on standard input.")
            }
            // RFC 6750 section 2.1: a token contains no whitespace, unlike the field "Authorization: Bearer TOKEN".
            guard !text.contains(where: \.isWhitespace) else {
                throw AuthError(
                    .invalidConfiguration,
                    "Standard input must contain only the token, without the header field name or the scheme."
                )
            }
            return Secret(text)
        }

        private static func show(_ report: TokenReport) {
            for step in report.steps {
                let (mark, _, detail) = words(step.outcome)
                let name = Terminal.column(step.check.rawValue, width: 15)
                let specification = "(\(step.check.specification))"
                Terminal.result("  \(mark)  \(name)\(detail.isEmpty ? specification : "\(detail) \(specification)")")
            }
        }

        private static func words(_ outcome: TokenReport.Outcome) -> (mark: String, name: String, detail: String) {
            switch outcome {
            case .passed(let detail): ("ok", "passed", detail)
            case .failed(let reason): ("!!", "failed", reason)
            case .undecided(let reason): ("??", "undecided", reason)
            case .skipped(let reason): ("--", "skipped", reason)
            }
        }

        private static func json(_ report: TokenReport) -> JSON {
            let failure = failure(report)
            return [
                // null if the decision could not be determined.
                "accepted": failure?.status == ExitStatus.network ? .null : .bool(failure == nil),
                "checks": .array(
                    report.steps.map { step in
                        let (_, name, detail) = words(step.outcome)
                        return [
                            "check": .string(step.check.rawValue), "outcome": .string(name),
                            "detail": detail.isEmpty ? .null : .string(detail),
                            "specification": .string(step.check.specification),
                        ]
                    }
                ),
            ]
        }

        /// The error for a token that is not accepted; nil for an accepted token.
        private static func failure(_ report: TokenReport) -> TokenRejected? {
            guard !report.isAccepted else { return nil }
            let hasSkipped = report.steps.contains { if case .skipped = $0.outcome { true } else { false } }
            return switch report.steps.last?.outcome {
            case .undecided?:
                TokenRejected(
                    status: ExitStatus.network,
                    message: "It could not be determined whether the API would accept the token."
                )
            case .passed? where hasSkipped, .skipped?:
                TokenRejected(
                    status: ExitStatus.network,
                    message: "Only the issuer can determine whether the token is active. To query it, add --introspect."
                )
            default: TokenRejected(status: ExitStatus.failure, message: "The API would reject the token.")
            }
        }
    }
}

private struct TokenRejected: CommandFailure {
    let status: ExitCode
    let message: String
}
