import Foundation

/// A server that answers one request without saying how long the answer is, and does not stop until the other side does.
enum EndlessServer {
    /// The most that is sent, in bytes, so that a client that reads everything comes to an end too.
    private static let limit = 1 << 26

    /// Opens a port and answers one request in the background.
    /// - Returns: The port.
    static func start() throws -> Int {
        let listener = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        var size = socklen_t(MemoryLayout<sockaddr_in>.size)
        let isOpen = unsafe withUnsafeMutablePointer(to: &address) { pointer in
            unsafe pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                unsafe bind(listener, $0, size) == 0 && listen(listener, 1) == 0
                    && getsockname(listener, $0, &size) == 0
            }
        }
        guard listener >= 0, isOpen else { throw POSIXError(POSIXErrorCode(rawValue: errno) ?? .EIO) }
        Thread.detachNewThread { answer(on: listener) }
        return Int(UInt16(bigEndian: address.sin_port))
    }

    private static func answer(on listener: Int32) {
        defer { close(listener) }
        let connection = accept(listener, nil, nil)
        guard connection >= 0 else { return }
        defer { close(connection) }
        var chunk = Array("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n".utf8)
        var total = 0
        while total < limit {
            let count = unsafe chunk.withUnsafeBytes {
                unsafe send(connection, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL))
            }
            guard count > 0 else { break }
            total += count
            chunk = [UInt8](repeating: 65, count: 1 << 16)
        }
    }
}
