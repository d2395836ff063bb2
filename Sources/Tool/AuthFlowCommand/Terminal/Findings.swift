import AuthFlow

/// Prints the findings of a check as they occur.
struct Findings {
    private(set) var areGood = true

    func good(_ what: String, _ text: String) { line("ok", what, text) }

    func note(_ what: String, _ text: String) { line("--", what, text) }

    mutating func bad(_ what: String, _ text: String) {
        areGood = false
        line("!!", what, text)
    }

    private func line(_ mark: String, _ what: String, _ text: String) {
        let name = Terminal.column(what, width: 13)
        Terminal.result("\(what.isEmpty ? "  " : mark)  \(name) \(DisplayText.sanitized(text, limit: 4000))")
    }
}
