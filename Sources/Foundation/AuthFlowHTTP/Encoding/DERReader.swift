/// The elements of a DER encoding (X.690), in order.
package struct DERReader {
    private var rest: ArraySlice<UInt8>

    package init(_ bytes: ArraySlice<UInt8>) { rest = bytes }

    /// The tag of the next element; nil at the end.
    var tag: UInt8? { rest.first }

    /// The content of the next element; nil when it has a different tag, is truncated, has a length that is not
    /// minimally encoded, or is 64 KiB or larger.
    package mutating func next(_ tag: UInt8) -> ArraySlice<UInt8>? {
        guard rest.popFirst() == tag, let first = rest.popFirst() else { return nil }
        var length = Int(first)
        if first >= 0x80 {
            // X.690 section 10.1: "encoded in the minimum number of octets".
            guard first == 0x81 || first == 0x82 else { return nil }
            length = 0
            for _ in 0x80..<Int(first) {
                guard let octet = rest.popFirst() else { return nil }
                length = length << 8 | Int(octet)
            }
            guard length >= (first == 0x81 ? 0x80 : 0x100) else { return nil }
        }
        guard length <= rest.count else { return nil }
        let content = rest.prefix(length)
        rest = rest.dropFirst(length)
        return content
    }
}
