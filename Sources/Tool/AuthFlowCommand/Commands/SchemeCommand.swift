import ArgumentParser
import AuthFlow
import AuthFlowDesktop
import AuthFlowEssentials

struct SchemeCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "scheme",
        abstract:
            "Register this program with your desktop for the private-use URI scheme of a profile's redirect URI.",
        subcommands: [Install.self, Remove.self, Status.self]
    )

    struct Install: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Write a desktop entry that opens the scheme with this program, and check that it works."
        )

        @OptionGroup var scheme: SchemeOptions

        @Flag(help: "Take over the scheme from another program.")
        var replace = false

        func run() async throws {
            let handler = try scheme.handler()
            let program = try ToolEnvironment.program()
            do {
                try handler.install(program: program, replacing: replace)
            } catch let error as AuthError {
                // Other errors, such as an invalid scheme, also occur with --replace.
                if let other = error.underlyingError as? SchemeHandler.OtherHandler {
                    Terminal.printMessage(
                        "To take over the scheme from \(DisplayText.sanitized(other.entryName)), run: \(handler.installCommand) --replace"
                    )
                }
                throw error
            }
            Terminal.printMessage("\(handler.scheme): opens with \(program), as registered in \(handler.entryPath).")
        }
    }

    struct Remove: AsyncParsableCommand {
        static let configuration = CommandConfiguration(commandName: "remove", abstract: "Remove the registration.")

        @OptionGroup var scheme: SchemeOptions

        func run() async throws {
            let handler = try scheme.handler()
            Terminal.printMessage(
                try handler.remove() ? "\(handler.scheme): registration removed." : "Nothing was registered."
            )
        }
    }

    struct Status: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "status",
            abstract: "Show which program opens the scheme. Exits with 1 if authflow is not registered for it."
        )

        @OptionGroup var scheme: SchemeOptions

        func run() async throws {
            let handler = try scheme.handler()
            guard handler.isInstalled, let program = handler.program else {
                let other =
                    handler.handler.map { "opens with \(DisplayText.sanitized($0))" } ?? "has no registered handler"
                throw AuthError(.userAgentFailed, "\(handler.scheme): \(other). Run: \(handler.installCommand)")
            }
            guard FileManager.default.isExecutableFile(atPath: program) else {
                throw AuthError(
                    .userAgentFailed,
                    "\(handler.scheme): opens with \(program), which cannot be executed. Run: \(handler.installCommand)"
                )
            }
            Terminal.result("\(handler.scheme): opens with \(program)")
        }
    }
}

extension SchemeHandler {
    /// The command that registers this program for the scheme.
    var installCommand: String { ShellWord.line(["authflow", "scheme", "install", scheme]) }
}

/// The options that select the scheme.
struct SchemeOptions: ParsableArguments {
    @Argument(help: "The scheme, such as com.example.app; default: the profile's scheme.")
    var scheme: String?

    @OptionGroup var options: ProfileOptions

    func handler() throws -> SchemeHandler {
        // RFC 3986 section 3.1: schemes are case-insensitive. A profile's redirect URI may contain upper case letters.
        SchemeHandler(scheme: try scheme?.lowercased() ?? configured())
    }

    private func configured() throws -> String {
        let schemes = try options.choice.client().registration.redirectURIs.compactMap { uri in
            if case .privateUse(let scheme) = uri.kind { scheme } else { nil }
        }
        guard let scheme = schemes.first else {
            throw AuthError(
                .invalidConfiguration,
                "No \"redirect_uri\" of the profile has a private-use scheme, such as com.example.app:/callback."
            )
        }
        return scheme
    }
}
