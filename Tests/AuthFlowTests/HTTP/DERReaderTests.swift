import AuthFlow
import Testing

@Suite struct DERReaderTests {
    /// The tag and the length of an element, the number of bytes after them, and the size of the content.
    @Test(
        arguments: [
            ([0x30, 0x03], 4, 3), ([0x30, 0x81, 0x80], 0x80, 0x80), ([0x30, 0x82, 0x01, 0x00], 0x100, 0x100),
            // A different tag.
            ([0x31, 0x03], 4, nil),
            // Truncated elements.
            ([], 0, nil), ([0x30], 0, nil), ([0x30, 0x82, 0x01], 0, nil), ([0x30, 0x03], 2, nil),
            // Lengths that are not minimally encoded.
            ([0x30, 0x81, 0x7F], 0x7F, nil), ([0x30, 0x82, 0x00, 0xFF], 0xFF, nil),
            // An indefinite length, and a length of three bytes.
            ([0x30, 0x80], 2, nil), ([0x30, 0x83, 0x00, 0x01, 0x00], 0x100, nil),
        ] as [([UInt8], Int, Int?)]
    ) func readsOnlyElementsInDER(_ start: [UInt8], _ following: Int, _ size: Int?) {
        let bytes = start + [UInt8](repeating: 0, count: following)
        var reader = DERReader(bytes[...])
        let content = reader.next(0x30)
        #expect(content?.count == size)
    }
}
