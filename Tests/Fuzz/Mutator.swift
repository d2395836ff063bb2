import AuthFlow
import AuthFlowJSON

/// A random number generator that returns the same numbers for the same seed on every machine (SplitMix64).
struct SeededGenerator: RandomNumberGenerator {
    private var state: UInt64

    init(seed: UInt64) { state = seed }

    mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var mixed = state
        mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
        return mixed ^ (mixed >> 31)
    }
}

/// Creates invalid inputs from valid inputs.
struct Mutator {
    var generator: SeededGenerator

    /// Fragments that are difficult for parsers.
    private static let pieces: [String] = [
        "", "\0", "\"", "\\", "{", "}", "[", "]", ":", ",", "null", "true", "-0", "1e400", "18446744073709551616",
        "1e-400",
        "\\u0000", "\\ud800", "\u{202E}", "é", "%", "%00", "%zz", "%25", "&", "=", "#", "?", "+", ";", "//", "@", "..",
        "none", "HS256", "crit", "kid", "jwk", "x5c", "iss", "aud", "exp", "sub", "nonce", "azp", "state", "code",
        "error",
        "https://evil.example.com", "http://", "127.0.0.1", "[::1]", ".", "-", "_", "AAAA", "====", "\r\n", "\t", " ",
        String(repeating: "[", count: 200), String(repeating: "{\"a\":", count: 200),
        String(repeating: "A", count: 5000),
    ]

    mutating func mutate(_ bytes: [UInt8]) -> [UInt8] {
        var bytes = bytes
        for _ in 0..<Int.random(in: 1...4, using: &generator) {
            let place = bytes.isEmpty ? 0 : Int.random(in: 0...bytes.count, using: &generator)
            switch Int.random(in: 0..<8, using: &generator) {
            case 0 where place < bytes.count: bytes[place] ^= 1 << UInt8.random(in: 0..<8, using: &generator)
            case 1 where place < bytes.count: bytes[place] = UInt8.random(in: 0...255, using: &generator)
            case 2: bytes.insert(UInt8.random(in: 0...255, using: &generator), at: place)
            case 3 where place < bytes.count: bytes.remove(at: place)
            case 4: bytes.removeSubrange(place..<min(bytes.count, place + Int.random(in: 0...40, using: &generator)))
            case 5:
                let end = min(bytes.count, place + Int.random(in: 0...40, using: &generator))
                bytes.insert(contentsOf: bytes[place..<end], at: Int.random(in: 0...bytes.count, using: &generator))
            case 6: bytes.removeSubrange(place...)
            default: bytes.insert(contentsOf: (Self.pieces.randomElement(using: &generator) ?? "").utf8, at: place)
            }
        }
        return bytes
    }

    mutating func mutate(_ text: String) -> String { String(decoding: mutate(Array(text.utf8)), as: UTF8.self) }

    /// Changes the decoded header, claims or signature of a token, so that the change does not break the encoding.
    mutating func mutateToken(_ token: String) -> String {
        var parts = token.split(separator: ".").map(String.init)
        let index = Int.random(in: 0..<parts.count, using: &generator)
        parts[index] = Base64URL.encode(mutate(Base64URL.decode(parts[index]) ?? []))
        return parts.joined(separator: ".")
    }
}
