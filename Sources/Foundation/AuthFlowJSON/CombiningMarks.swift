extension StringProtocol {
    /// Whether the text has more consecutive combining marks than any writing system uses. Swift normalizes strings to
    /// compare and hash them, and sorts each run of combining marks in quadratic time. Untrusted text is therefore
    /// checked before it is compared.
    ///
    /// Unicode's stream-safe text format (UAX #15 section 13) allows 30; the limit here is 64.
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
