/// A command line to copy.
enum ShellWord {
    /// A word, quoted for a shell.
    static func quoted(_ word: String) -> String {
        let isPlain = word.unicodeScalars.allSatisfy {
            $0.isASCII
                && ($0.properties.isAlphabetic || ("0"..."9").contains($0) || "-._~/:@%+=,".unicodeScalars.contains($0))
        }
        return isPlain && !word.isEmpty ? word : "'\(word.replacing("'", with: "'\\''"))'"
    }

    /// The words as a command line, quoted for a shell.
    static func line(_ words: [String]) -> String { words.map(quoted).joined(separator: " ") }
}
