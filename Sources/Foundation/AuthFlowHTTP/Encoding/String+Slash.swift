extension String {
    /// The path without its trailing slash.
    package var droppingLastSlash: String { hasSuffix("/") ? String(dropLast()) : self }
}
