extension String {
    /// A path without the slash at its end.
    package var droppingLastSlash: String { hasSuffix("/") ? String(dropLast()) : self }
}
