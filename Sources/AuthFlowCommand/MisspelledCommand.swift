import ArgumentParser
import AuthFlow

/// A command that there is none of: the parser would take it for an argument that is not expected.
struct MisspelledCommand: Error, CustomStringConvertible {
    let description: String

    /// - Parameter arguments: The program's arguments.
    /// - Returns: nil when the parser is to read them.
    init?(_ arguments: [String]) {
        var words = arguments[...]
        if words.first == "help" { words = words.dropFirst() }
        var parent: any ParsableCommand.Type = AuthFlowCommand.self
        var path = ["authflow"]
        while let word = words.popFirst(), !word.hasPrefix("-") {
            let commands = Self.commands(of: parent)
            guard !commands.isEmpty else { break }
            // Its default command may take any word.
            guard commands[word] != nil || parent.configuration.defaultSubcommand == nil else { return nil }
            guard let command = commands[word] else {
                guard word != "help" else { return nil }
                let near = NearestName.of(word, among: commands.keys.sorted())
                let shown = DisplayText.sanitized(word, limit: 60)
                let help = "See: \(path.joined(separator: " ")) --help"
                self.description = "There is no command \"\(shown)\". \(near.map { "Did you mean \"\($0)\"?" } ?? help)"
                return
            }
            parent = command
            path.append(word)
        }
        let isHelp = arguments.contains { ["--help", "-h", "-help"].contains($0) }
        guard arguments.first == "exec", !arguments.contains("--"), !isHelp else { return nil }
        let program = arguments.dropFirst().first.flatMap { $0.hasPrefix("-") ? nil : $0 } ?? "PROGRAM"
        self.description =
            "Put -- before the program: authflow exec -- \(DisplayText.sanitized(program, limit: 60))"
    }

    private static func commands(of command: any ParsableCommand.Type) -> [String: any ParsableCommand.Type] {
        let configuration = command.configuration
        let all = configuration.ungroupedSubcommands + configuration.groupedSubcommands.flatMap(\.subcommands)
        return Dictionary(all.map { ($0.configuration.commandName ?? "\($0)".lowercased(), $0) }) { first, _ in first }
    }
}
