extension String {
    /// Replaces each occurrence of a Unicode scalar. The standard library's method compares characters, so it skips a
    /// scalar that is followed by a combining mark and would leave it unescaped.
    package func replacing(scalar: Unicode.Scalar, with replacement: String) -> String {
        var result = UnicodeScalarView()
        for each in unicodeScalars {
            if each == scalar { result.append(contentsOf: replacement.unicodeScalars) } else { result.append(each) }
        }
        return String(result)
    }
}
