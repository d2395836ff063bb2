import ArgumentParser
import AuthFlow
import AuthFlowEssentials
import AuthFlowResourceServerConfiguration
import AuthFlowServerConfiguration

struct ConfigCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "config",
        abstract: "Check a configuration file, trust one in a working directory, or print the JSON Schema for editors.",
        subcommands: [Check.self, Presets.self, Trust.self, Untrust.self, Schema.self]
    )

    struct Check: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "check",
            abstract:
                "Check every profile, or a single profile, without sending a request. Referenced secrets must exist, and programs that print secrets are run."
        )

        @Argument(
            help: "The file. An authflow.json must be trusted first. Default: as with --config.",
            completion: .file()
        )
        var path: String?

        @OptionGroup var options: ProfileOptions

        func validate() throws {
            guard path == nil || options.config == nil && options.issuer == nil && options.clientID == nil else {
                throw ValidationError("Specify the file as the argument, or with the options, but not both.")
            }
        }

        func run() async throws {
            let file = try path.map { try ConfigCommand.file($0) } ?? options.choice.file()
            var findings = CheckFindings()
            for name in try options.profile.map({ [try file.profile($0).name] }) ?? file.profileNames {
                try findings.check(name) {
                    let profile = try file.profile(name)
                    _ = try profile.helpers()
                    let client = try Known.client(of: profile)
                    try client.methods.createUserAgents()
                    let isKnown = client.isWithoutUser || client.client.identifiesUsers
                    return isKnown ? nil : DoctorCommand.unknownUser
                }
            }
            if options.profile == nil { try check(sectionsOf: file, &findings) }
            try findings.throwErrors()
        }

        private func check(sectionsOf file: ConfigurationFile, _ findings: inout CheckFindings) throws {
            if file.hasResourceClient {
                try findings.check("resource_client") {
                    // A placeholder resource, to which no request is sent.
                    let client = try ResourceClient(
                        "https://resource.invalid",
                        settings: file.resourceClient,
                        userAgents: Known.userAgents,
                        stores: Known.stores,
                        host: ToolEnvironment.host
                    )
                    try client.methods.createUserAgents()
                    return nil
                }
            }
            if file.resourceServer != nil {
                try findings.check("resource_server") {
                    _ = try ResourceServer(configuration: file, host: ToolEnvironment.host)
                    return nil
                }
            }
            if file.hasServer {
                try findings.check("server") {
                    // With the configured store, the server would connect to it, or create an SQLite file, during the check.
                    _ = try SessionServer(
                        configuration: file,
                        providers: Known.providers,
                        stores: Known.stores,
                        assertions: Known.assertions,
                        store: MemoryTokenStore(),
                        host: ToolEnvironment.host
                    )
                    _ = try SessionServer.profiles(in: file, host: ToolEnvironment.host)[0].makeSessionStore(
                        Known.components,
                        host: ToolEnvironment.host
                    )
                    return nil
                }
            }
        }
    }

    /// The result of checking each part of a file.
    private struct CheckFindings {
        /// The errors with a position in the file.
        private(set) var issues: [ConfigurationIssue] = []
        /// The first error without a position, such as the error for a store that cannot be opened.
        private var failure: AuthError?
        private var messages: Set<String> = []

        /// Checks a part of the file and prints the result; errors with a position are only collected.
        /// - Parameter body: Performs the check, and returns a remark to print with the result, if any.
        mutating func check(_ name: String, _ body: () throws -> String?) throws {
            do {
                let remark = try body()
                Terminal.result("  ok  \(name)\(remark.map { " (\($0))" } ?? "")")
            } catch let error as ConfigurationError {
                issues += error.issues
            } catch let error as AuthError {
                failure = failure ?? error
                // A web application uses the store of its profile, so both checks may report the same error.
                guard messages.insert(error.message).inserted else { return }
                Terminal.result("  !!  \(name): \(error.message)")
            }
        }

        func throwErrors() throws {
            // Several parts of the file may use the same secret.
            var known: Set<ConfigurationIssue> = []
            let issues = issues.filter { known.insert($0).inserted }
            if !issues.isEmpty { throw ConfigurationError(issues: issues) }
            guard let failure else { return }
            throw AuthError(
                failure.code,
                "A part of the configuration cannot be used: see the lines marked with !!.",
                underlyingError: failure
            )
        }
    }

    /// Reads a file for a check. The user must have trusted an `authflow.json`, because a check runs the programs that the file names.
    private static func file(_ path: String) throws -> ConfigurationFile {
        // This applies to every file with this name in any directory, and to a symbolic link if the link or its target has
        // this name. Some file systems are case-insensitive.
        let url = URL(fileURLWithPath: path)
        let names = [url, url.resolvingSymlinksInPath()].map { $0.lastPathComponent.lowercased() }
        guard names.contains(ConfigurationChoice.localName) else {
            return try ConfigurationChoice(option: path).file()
        }
        // Read once, so that the content that was compared is the content that is used.
        let content = try ConfigurationFile.contents(ofFile: path)
        guard try ConfigurationTrust().verdict(on: path, content: content) != .trusted else {
            return try ConfigurationChoice.file(ConfigurationTrust.resolved(path), with: content)
        }
        try checkKeys(of: try ConfigurationChoice.file(path, with: content))
        throw AuthError(
            .invalidConfiguration,
            "\(DisplayText.sanitized(path, limit: 1000)) is not trusted. Its keys are valid, but the programs that it names, if any, were not run. Review it, then run: authflow config trust \(ShellWord.path(path))"
        )
    }

    /// Validates the keys and values of a file without reading secrets or starting programs.
    /// - Throws: ``AuthFlowConfiguration/ConfigurationError`` with every issue.
    private static func checkKeys(of file: ConfigurationFile) throws {
        var issues: [ConfigurationIssue] = []
        func check(_ body: () throws -> Void) throws {
            do { try body() } catch let error as ConfigurationError { issues += error.issues }
        }
        for name in file.profileNames {
            try check { try file.profile(name).checked(by: Known.components) }
        }
        try check { try file.resourceClient.check(by: Known.components) }
        try check { _ = try file.resourceServer?.checked(ResourceServer.configurationKeys, environment: [:]) }
        try check { _ = try file.server.checked(SessionServer.configurationKeys, environment: [:]) }
        guard issues.isEmpty else { throw ConfigurationError(issues: issues) }
    }

    struct Trust: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "trust",
            abstract: "Trust the current content of the configuration file in a working directory.",
            discussion: """
                A configuration file determines where stored tokens are sent, which files are read as secrets and which programs are \
                started, so authflow.json in a working directory is used only after you have trusted it. When it changes, it must \
                be trusted again. Changes to the programs and files that it names are not detected.
                """
        )

        @Argument(help: "The file.", completion: .file())
        var path = ConfigurationChoice.localName

        @Flag(help: "List the trusted files.")
        var list = false

        func run() async throws {
            let trust = ConfigurationTrust()
            guard !list else {
                let (paths, errors) = try trust.paths()
                for path in paths { Terminal.result(path) }
                for error in errors.dropLast() { Terminal.printMessage("authflow: \(ExitStatus.message(for: error))") }
                if let last = errors.last { throw last }
                return
            }
            let content = try ConfigurationFile.contents(ofFile: path)
            // A file with errors would have to be trusted again after the errors are corrected.
            try ConfigCommand.checkKeys(of: try ConfigurationChoice.file(path, with: content))
            Terminal.printMessage(
                "\(try trust.trust(path, content: content)) is trusted with its current content. The programs and files that it names are not covered."
            )
        }
    }

    struct Untrust: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "untrust",
            abstract: "Stop trusting a configuration file."
        )

        @Argument(help: "The file.", completion: .file())
        var path = ConfigurationChoice.localName

        func run() async throws {
            let wasTrusted = try ConfigurationTrust().untrust(path)
            Terminal.printMessage(wasTrusted ? "\(path) is no longer trusted." : "\(path) was not trusted.")
        }
    }

    struct Presets: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "presets",
            abstract: "List the provider presets, with the values that each preset accepts."
        )

        @Flag(help: "Print the presets as JSON.")
        var json = false

        func run() async throws {
            guard !json else { return try Terminal.result(.array(Known.presets.map(Self.json))) }
            for preset in Known.presets {
                Terminal.result("\(Terminal.column(preset.name, width: 20))\(preset.title)")
                for parameter in preset.parameters {
                    let usual = parameter.defaultValue.map { " Default: \($0)." } ?? ""
                    Terminal.result("  \(Terminal.column(parameter.name, width: 18))\(parameter.summary)\(usual)")
                }
            }
        }

        private static func json(_ preset: ProviderPreset) -> JSON {
            [
                "name": .string(preset.name), "title": .string(preset.title), "members": preset.members,
                "registration": .array(preset.registration.map(JSON.string)),
                "console": preset.console.map(JSON.string) ?? .null, "source": .string(preset.source),
                "parameters": .array(
                    preset.parameters.map {
                        [
                            "name": .string($0.name), "description": .string($0.summary),
                            "default": $0.defaultValue.map(JSON.string) ?? .null,
                        ]
                    }
                ),
            ]
        }
    }

    struct Schema: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "schema",
            abstract: "Print the JSON Schema of configuration files."
        )

        func run() async throws {
            try Terminal.result(
                ConfigurationFile.jsonSchema(
                    providers: Known.providers,
                    userAgents: Known.userAgents,
                    stores: Known.stores,
                    assertions: Known.assertions,
                    presets: Known.presets,
                    resourceServer: ResourceServer.configurationKeys,
                    server: SessionServer.configurationKeys
                )
            )
        }
    }
}
