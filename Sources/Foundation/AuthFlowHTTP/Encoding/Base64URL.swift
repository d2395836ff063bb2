/// base64url without padding (RFC 4648 section 5, RFC 7515 section 2).
public enum Base64URL {
    private static let alphabet = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_".utf8)

    /// The value of each byte; 255 for bytes outside the alphabet.
    private static let values: [UInt8] = {
        var values = [UInt8](repeating: 255, count: 256)
        for (value, character) in alphabet.enumerated() { values[Int(character)] = UInt8(value) }
        return values
    }()

    /// Encodes bytes.
    public static func encode(_ bytes: some Sequence<UInt8>) -> String { encode(bytes: Array(bytes)) }

    // This function is not generic, because other modules would call it unspecialized, which slows a process's first calls the most.
    private static func encode(bytes: [UInt8]) -> String {
        var text: [UInt8] = []
        text.reserveCapacity(bytes.count * 4 / 3 + 3)
        var buffer: UInt32 = 0
        var bits: UInt32 = 0
        for byte in bytes {
            buffer = buffer << 8 | UInt32(byte)
            bits += 8
            while bits >= 6 {
                bits -= 6
                text.append(alphabet[Int(buffer >> bits & 63)])
            }
        }
        if bits > 0 { text.append(alphabet[Int(buffer << (6 - bits) & 63)]) }
        return String(decoding: text, as: UTF8.self)
    }

    /// Decodes text.
    /// - Returns: The bytes, or nil when the text contains any other character (including padding and whitespace), has an
    ///   invalid length, or has non-zero trailing bits, so that no two texts decode to the same bytes.
    public static func decode(_ text: some StringProtocol) -> [UInt8]? {
        decode(utf8: Array(text.utf8)[...])
    }

    /// Decodes UTF-8 text.
    package static func decode(utf8 text: ArraySlice<UInt8>) -> [UInt8]? {
        var isValid = true
        // Untrusted tokens are decoded too, so this must be fast. No per-byte bounds check is needed, because the table
        // has an entry for every byte value, and the target is large enough for the longest result.
        let bytes = unsafe [UInt8](unsafeUninitializedCapacity: text.count * 3 / 4 + 1) { target, count in
            unsafe values.withUnsafeBufferPointer { values in
                unsafe text.withUnsafeBufferPointer { text in
                    var seen: UInt8 = 0
                    for start in stride(from: 0, to: text.count & ~3, by: 4) {
                        let first = unsafe values[Int(text[start])]
                        let second = unsafe values[Int(text[start &+ 1])]
                        let third = unsafe values[Int(text[start &+ 2])]
                        let fourth = unsafe values[Int(text[start &+ 3])]
                        seen |= first | second | third | fourth
                        unsafe target[count] = first &<< 2 | second &>> 4
                        unsafe target[count &+ 1] = second &<< 4 | third &>> 2
                        unsafe target[count &+ 2] = third &<< 6 | fourth
                        count &+= 3
                    }
                    var rest: UInt32 = 0
                    for index in (text.count & ~3)..<text.count {
                        let value = unsafe values[Int(text[index])]
                        seen |= value
                        rest = rest &<< 6 | UInt32(value & 63)
                    }
                    // The remainder encodes zero, one or two bytes, followed by trailing bits that must be zero.
                    switch text.count & 3 {
                    case 0: break
                    case 2:
                        unsafe target[count] = UInt8(truncatingIfNeeded: rest &>> 4)
                        count &+= 1
                        isValid = rest & 0b1111 == 0
                    case 3:
                        unsafe target[count] = UInt8(truncatingIfNeeded: rest &>> 10)
                        unsafe target[count &+ 1] = UInt8(truncatingIfNeeded: rest &>> 2)
                        count &+= 2
                        isValid = rest & 0b11 == 0
                    default: isValid = false
                    }
                    // Bytes of the alphabet have values below 64; all other bytes have the value 255.
                    isValid = isValid && seen < 64
                }
            }
        }
        return isValid ? bytes : nil
    }
}
