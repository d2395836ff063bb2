extension String {
    /// Replaces each occurrence of a Unicode scalar. The standard library's method compares characters, so it skips a
    /// scalar that is followed by a combining mark and would leave it unescaped.
    package func replacing(scalar: Unicode.Scalar, with replacement: String) -> String {
        unicodeScalars.map { $0 == scalar ? replacement : String($0) }.joined()
    }
}
