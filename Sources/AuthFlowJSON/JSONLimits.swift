/// The limits on the documents that the parser accepts.
///
/// OAuth documents are a few kilobytes and a few levels deep. A larger one is a mistake or an attack, and is refused
/// before memory or stack is spent on it.
public struct JSONLimits: Sendable, Hashable {
    /// The largest text accepted, in bytes.
    public let maximumBytes: Int

    /// The deepest nesting of arrays and objects accepted.
    public let maximumDepth: Int

    /// Creates limits.
    /// - Parameters:
    ///   - maximumBytes: The largest text accepted, in bytes; default: 4 MiB.
    ///   - maximumDepth: The deepest nesting accepted; default: 64. Values above 512 are taken as 512, which keeps the
    ///     recursive copy within the smallest thread stack in use (512 KiB on Apple's systems).
    public init(maximumBytes: Int = 4 * 1024 * 1024, maximumDepth: Int = 64) {
        self.maximumBytes = maximumBytes
        self.maximumDepth = min(maximumDepth, 512)
    }
}
