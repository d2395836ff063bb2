extension String {
    /// The path without its trailing slash.
    package var droppingTrailingSlash: String { hasSuffix("/") ? String(dropLast()) : self }
}
