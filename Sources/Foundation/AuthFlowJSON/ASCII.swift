extension UInt8 {
    /// Whether the byte is an ASCII digit.
    package var isDigit: Bool { (0x30...0x39).contains(self) }

    /// Whether the byte is an ASCII letter.
    package var isLetter: Bool { (0x61...0x7A).contains(self | 0x20) }

    /// Whether the byte is an ASCII letter or digit.
    package var isLetterOrDigit: Bool { isLetter || isDigit }

    /// `tchar` (RFC 9110 section 5.6.2).
    package var isTokenCharacter: Bool { isLetterOrDigit || "!#$%&'*+-.^_`|~".utf8.contains(self) }
}
