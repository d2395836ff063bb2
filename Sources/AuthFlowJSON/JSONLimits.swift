/// How much of a document the parser accepts before it refuses.
///
/// The documents of OAuth are a few kilobytes and a few levels deep. What is larger is a mistake or an attack, and is
/// refused before memory or stack is spent on it.
public struct JSONLimits: Sendable, Hashable {
    /// The largest text accepted, in bytes.
    public var maximumBytes: Int

    /// The deepest nesting of arrays and objects accepted.
    public var maximumDepth: Int

    /// Creates limits.
    /// - Parameters:
    ///   - maximumBytes: The largest text accepted, in bytes. 4 MiB unless told.
    ///   - maximumDepth: The deepest nesting accepted. 64 unless told; values above 512 are taken as 512, which keeps
    ///     the recursive copy within the smallest thread stack in use (512 KiB on Apple's systems).
    public init(maximumBytes: Int = 4 * 1024 * 1024, maximumDepth: Int = 64) {
        self.maximumBytes = maximumBytes
        self.maximumDepth = min(maximumDepth, 512)
    }
}
