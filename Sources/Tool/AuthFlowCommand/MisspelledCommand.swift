import ArgumentParser
import AuthFlow

/// An error for an unknown command, or for `exec` without "--": the parser would report only an unexpected argument.
struct MisspelledCommand: CommandFailure {
    /// The message without the prefix "Error: ".
    let description: String

    var status: ExitCode { ExitStatus.usage }
    var message: String { "Error: \(description)" }

    /// - Parameter arguments: The program's arguments.
    /// - Returns: nil when the parser should parse the arguments.
    init?(_ arguments: [String]) {
        var words = arguments[...]
        if words.first == "help" { words = words.dropFirst() }
        var parent: any ParsableCommand.Type = AuthFlowCommand.self
        var path = ["authflow"]
        while let word = words.popFirst(), !word.hasPrefix("-") {
            let commands = Self.commands(of: parent)
            guard !commands.isEmpty else { break }
            // The default subcommand may accept any word as its argument.
            guard commands[word] != nil || parent.configuration.defaultSubcommand == nil else { return nil }
            guard let command = commands[word] else {
                let near = NearestName.of(word, among: commands.keys.sorted())
                let shown = DisplayText.sanitized(word, limit: 60)
                let help = "See: \(path.joined(separator: " ")) --help"
                let meant = ["revoke": "logout", "signout": "logout", "signin": "login", "refresh": "token --refresh"]
                let name = near ?? (path.count == 1 ? meant[word] : nil)
                self.description = "There is no command \"\(shown)\". \(name.map { "Did you mean \"\($0)\"?" } ?? help)"
                return
            }
            parent = command
            path.append(word)
        }
        // The options of authflow precede the program.
        let own = arguments.dropFirst().prefix { $0.hasPrefix("-") }
        let builtIn = ["--help", "-h", "-help", "--help-hidden", "-help-hidden", "--version"]
        guard arguments.first == "exec", !own.contains("--"), !own.contains(where: builtIn.contains) else { return nil }
        let rest = arguments.dropFirst(1 + own.count)
        // After options, the first word may be an option's value; in that case, the program follows "--".
        guard !own.isEmpty || !rest.isEmpty else { return nil }
        guard own.isEmpty || !rest.contains("--") else { return nil }
        let command = own.isEmpty ? "-- \(ShellWord.line(Array(rest)))" : "[OPTIONS] -- PROGRAM"
        self.description =
            "Put -- before the program: authflow exec \(DisplayText.sanitized(command, limit: 200))"
    }

    private static func commands(of command: any ParsableCommand.Type) -> [String: any ParsableCommand.Type] {
        let configuration = command.configuration
        let all = configuration.ungroupedSubcommands + configuration.groupedSubcommands.flatMap(\.subcommands)
        return Dictionary(all.map { ($0.configuration.commandName ?? "\($0)".lowercased(), $0) }) { first, _ in first }
    }
}
