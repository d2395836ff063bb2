import Foundation

/// A connection on which a test writes exact bytes. It is a plain socket with a timeout, on a separate thread so that
/// it does not block other tests.
enum RawConnection {
    /// The system call that failed, with its error number.
    struct Failure: Error {
        let call: String
        let number: Int32
    }

    /// The idle timeout of a connection, in seconds.
    private static let waitTimeout = 30

    /// Sends a string to a loopback port and returns everything that is received until the peer closes the connection.
    static func exchange(_ text: String, port: Int, isIPv6: Bool) async throws -> String {
        try await withCheckedThrowingContinuation { continuation in
            Thread.detachNewThread {
                continuation.resume(with: Result { try transfer(text, port: UInt16(port), isIPv6: isIPv6) })
            }
        }
    }

    /// Opens a connection, sends a string, and leaves the connection open.
    /// - Returns: The file descriptor, which the caller must close.
    static func open(port: Int, saying text: String) throws -> Int32 {
        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        guard descriptor >= 0 else { throw Failure(call: "socket", number: errno) }
        guard connect(descriptor, port: UInt16(port), isIPv6: false) == 0 else {
            close(descriptor)
            throw Failure(call: "connect", number: errno)
        }
        let bytes = Array(text.utf8)
        _ = unsafe bytes.withUnsafeBytes { unsafe send(descriptor, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL)) }
        return descriptor
    }

    private static func transfer(_ text: String, port: UInt16, isIPv6: Bool) throws -> String {
        let descriptor = socket(isIPv6 ? AF_INET6 : AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        guard descriptor >= 0 else { throw Failure(call: "socket", number: errno) }
        defer { close(descriptor) }
        var waitTimeout = timeval(tv_sec: waitTimeout, tv_usec: 0)
        unsafe setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &waitTimeout, socklen_t(MemoryLayout<timeval>.size))
        guard connect(descriptor, port: port, isIPv6: isIPv6) == 0 else {
            throw Failure(call: "connect", number: errno)
        }
        let bytes = Array(text.utf8)
        let sent = unsafe bytes.withUnsafeBytes {
            unsafe send(descriptor, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL))
        }
        guard sent == bytes.count else { throw Failure(call: "send", number: errno) }
        var response: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 4096)
        while true {
            let count = unsafe buffer.withUnsafeMutableBytes { unsafe recv(descriptor, $0.baseAddress, $0.count, 0) }
            guard count > 0 else { break }
            response += buffer[..<count]
        }
        return String(decoding: response, as: UTF8.self)
    }

    private static func connect(_ descriptor: Int32, port: UInt16, isIPv6: Bool) -> Int32 {
        if isIPv6 {
            var address = sockaddr_in6()
            address.sin6_family = sa_family_t(AF_INET6)
            address.sin6_port = port.bigEndian
            address.sin6_addr = in6addr_loopback
            return unsafe withUnsafePointer(to: &address) {
                unsafe $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                    unsafe Foundation.connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in6>.size))
                }
            }
        }
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = port.bigEndian
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        return unsafe withUnsafePointer(to: &address) {
            unsafe $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                unsafe Foundation.connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
    }
}
