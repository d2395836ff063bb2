/// A value that a mirror, and so `dump` and a debugger's summary, shows nothing of.
public protocol WithoutReflection: CustomReflectable {}

extension WithoutReflection {
    /// A mirror without children.
    public var customMirror: Mirror { Mirror(self, children: [:]) }
}
