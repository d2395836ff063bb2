import FlyingSocks
import Foundation

/// A connection on which a test writes exactly the bytes it wants.
enum RawConnection {
    /// Sends a text to a port of this machine and returns everything that comes back until the other side closes.
    static func exchange(_ text: String, port: Int, isIPv6: Bool) async throws -> String {
        let socket =
            isIPv6
            ? try await AsyncSocket.connected(to: sockaddr_in6.inet6(ip6: "::1", port: UInt16(port)))
            : try await AsyncSocket.connected(to: sockaddr_in.inet(ip4: "127.0.0.1", port: UInt16(port)))
        defer { try? socket.close() }
        try await socket.write(Data(text.utf8))
        var bytes: [UInt8] = []
        while let byte = try? await socket.read() { bytes.append(byte) }
        return String(decoding: bytes, as: UTF8.self)
    }
}
