import Foundation
import Synchronization

/// A server that sends the given bytes on every connection, one byte at a time, and then closes the connection.
final class PuppetServer: Sendable {
    let port: Int
    private let bytes = Mutex<[UInt8]>([])

    init() throws {
        let listener = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        var size = socklen_t(MemoryLayout<sockaddr_in>.size)
        let isOpen = unsafe withUnsafeMutablePointer(to: &address) { pointer in
            unsafe pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                unsafe bind(listener, $0, size) == 0 && listen(listener, 16) == 0
                    && getsockname(listener, $0, &size) == 0
            }
        }
        guard isOpen else { throw Finding(description: "the listening socket could not be opened") }
        port = Int(UInt16(bigEndian: address.sin_port))
        Thread.detachNewThread { [self] in
            while true {
                let connection = accept(listener, nil, nil)
                guard connection >= 0 else { return }
                serve(connection)
            }
        }
    }

    /// Responds with these bytes from now on.
    func say(_ bytes: [UInt8]) { self.bytes.withLock { $0 = bytes } }

    private func serve(_ connection: Int32) {
        defer { close(connection) }
        var on: Int32 = 1
        unsafe setsockopt(connection, Int32(IPPROTO_TCP), TCP_NODELAY, &on, 4)
        var request: [UInt8] = []
        var byte: UInt8 = 0
        while !request.suffix(4).elementsEqual("\r\n\r\n".utf8) {
            guard unsafe recv(connection, &byte, 1, 0) == 1 else { return }
            request.append(byte)
        }
        for var byte in bytes.withLock(\.self) {
            guard unsafe send(connection, &byte, 1, Int32(MSG_NOSIGNAL)) == 1 else { return }
        }
    }
}
