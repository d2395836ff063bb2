/// A value whose contents are hidden from mirrors, and thus from `dump` and debugger summaries.
public protocol NonReflectable: CustomReflectable {}

extension NonReflectable {
    /// A mirror without children.
    public var customMirror: Mirror { Mirror(self, children: [:]) }
}
