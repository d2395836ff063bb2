extension StringProtocol {
    /// Whether the text has more combining marks in a row than any writing system. Swift compares and hashes strings by their normal
    /// form, and sorts each run of combining marks for it in a time that grows with the square of their number: text of others is checked
    /// before it is compared.
    ///
    /// Unicode's stream-safe text format (UAX #15 section 13) has 30.
    package var hasTooManyCombiningMarks: Bool {
        guard !utf8.allSatisfy({ $0 < 0x80 }) else { return false }
        var marks = 0
        for scalar in unicodeScalars {
            marks = scalar.properties.canonicalCombiningClass == .notReordered ? 0 : marks + 1
            if marks > 64 { return true }
        }
        return false
    }
}
