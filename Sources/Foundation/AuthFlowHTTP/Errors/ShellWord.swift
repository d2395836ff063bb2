/// A command line for the user to paste into a shell.
package enum ShellWord {
    /// A word, quoted for a POSIX shell.
    package static func quoted(_ word: String) -> String {
        let isPlain = word.unicodeScalars.allSatisfy {
            $0.isASCII
                && ($0.properties.isAlphabetic || ("0"..."9").contains($0) || "-._/:@%+=,".unicodeScalars.contains($0))
        }
        // Some shells expand "=" at the start of a word to the path of a command.
        let isExpanded = word.hasPrefix("=")
        return isPlain && !isExpanded && !word.isEmpty ? word : "'\(word.replacing(scalar: "'", with: "'\\''"))'"
    }

    /// A path, quoted so that no command parses it as an option and no shell expands a tilde. Control characters are replaced.
    package static func path(_ path: String) -> String {
        let isSpecial = path.unicodeScalars.first.map { "-~=".unicodeScalars.contains($0) } == true
        return quoted((isSpecial ? "./" : "") + DisplayText.sanitized(path, limit: 4096))
    }

    /// The words as a command line, quoted for a POSIX shell.
    package static func line(_ words: [String]) -> String { words.map(quoted).joined(separator: " ") }
}
