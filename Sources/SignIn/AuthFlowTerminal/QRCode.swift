import AuthFlowSystem

/// A QR code, drawn by libqrencode, which is loaded on first use.
struct QRCode: Sendable {
    /// The modules, row by row; true for a dark module.
    let rows: [[Bool]]

    /// Encodes text.
    /// - Returns: nil when libqrencode is not installed, or the text is too long.
    init?(_ text: String) {
        guard let library = Libqrencode.shared, let rows = library.rows(text) else { return nil }
        self.rows = rows
    }

    /// The width, in modules, of the quiet zone that scanners need.
    private static let margin = 4

    /// The width of ``terminalText(isColored:)`` in terminal columns.
    var width: Int { (rows.first?.count ?? 0) + 2 * Self.margin }

    /// The symbol as text, with two rows of modules per line of text, and the quiet zone that scanners need.
    /// - Parameter isColored: Whether the symbol is dark on light regardless of
    ///   the terminal's colors. Otherwise, it is drawn for a dark background.
    func terminalText(isColored: Bool = true) -> String {
        let margin = Self.margin
        let blank = Array(repeating: Array(repeating: false, count: width), count: margin)
        let side = Array(repeating: false, count: margin)
        var all = blank + rows.map { side + $0 + side } + blank
        if !all.count.isMultiple(of: 2) { all.append(Array(repeating: false, count: width)) }
        let lines = stride(from: 0, to: all.count, by: 2).map { y in
            let cells = zip(all[y], all[y + 1]).map { upper, lower in
                switch (upper == isColored, lower == isColored) {
                case (true, true): "█"
                case (true, false): "▀"
                case (false, true): "▄"
                case (false, false): " "
                }
            }
            // Black on white from the 256-color palette, which themes leave unchanged.
            return isColored ? "\u{1B}[38;5;16;48;5;231m\(cells.joined())\u{1B}[0m" : cells.joined()
        }
        return lines.joined(separator: "\n") + "\n"
    }
}

/// The two functions of libqrencode that are used, loaded at run time.
@safe private struct Libqrencode: @unchecked Sendable {  // Pointers to functions that share no state.
    static let shared = Libqrencode()

    #if os(macOS)
    private static let name = "libqrencode.4.dylib"
    #else
    private static let name = "libqrencode.so.4"
    #endif

    /// `QRcode` of qrencode.h: the version, the width, and width times width modules, each a byte whose lowest bit is set for a
    /// dark module.
    @unsafe private struct Symbol {
        let version: Int32
        let width: Int32
        let data: UnsafePointer<UInt8>?
    }

    /// Parameters: text, version (0 for the smallest that fits), error correction level, encoding mode, case sensitivity.
    private typealias Encode =
        @convention(c) (UnsafePointer<CChar>, Int32, Int32, Int32, Int32) -> UnsafeMutableRawPointer?

    private let encode: Encode
    private let free: @convention(c) (UnsafeMutableRawPointer?) -> Void

    init?() {
        guard let library = unsafe dlopen(Self.name, RTLD_NOW | RTLD_LOCAL),
            let encode = unsafe dlsym(library, "QRcode_encodeString"),
            let free = unsafe dlsym(library, "QRcode_free")
        else { return nil }
        unsafe self.encode = unsafeBitCast(encode, to: Encode.self)
        unsafe self.free = unsafeBitCast(free, to: type(of: self.free))
    }

    func rows(_ text: String) -> [[Bool]]? {
        let (levelM, mode8, caseMatters): (Int32, Int32, Int32) = (1, 2, 1)
        guard let pointer = unsafe text.withCString({ unsafe encode($0, 0, levelM, mode8, caseMatters) }) else {
            return nil
        }
        defer { unsafe free(pointer) }
        let symbol = unsafe pointer.load(as: Symbol.self)
        let width = unsafe Int(symbol.width)
        // The largest QR code (version 40) is 177 modules wide.
        guard let data = unsafe symbol.data, (1...177).contains(width) else { return nil }
        let modules = unsafe UnsafeBufferPointer(start: data, count: width * width)
        return (0..<width).map { y in (0..<width).map { unsafe modules[y * width + $0] & 1 == 1 } }
    }
}
