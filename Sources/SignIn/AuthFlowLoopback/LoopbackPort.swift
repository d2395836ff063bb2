import AuthFlow
import AuthFlowSystem
import FlyingSocks

/// A port on the loopback interface, bound and listening.
package struct LoopbackPort {
    let number: Int
    let sockets: [Socket]

    /// Binds a port.
    /// - Parameters:
    ///   - host: `127.0.0.1`, `[::1]`, or `localhost`, which binds both.
    ///   - port: The port; nil for any free port.
    /// - Throws: ``AuthError`` with `port_busy` or `user_agent_failed`.
    static func open(host: String, port: Int?) throws -> LoopbackPort {
        do {
            let isIPv6 = host == "[::1]"
            // A port that is free in one address family may be in use in the other family, so a few ports are tried.
            for _ in 0..<(port == nil ? 5 : 1) {
                let first = try listen(port ?? 0, isIPv6: isIPv6)
                // RFC 8252 section 8.3: "the use of localhost is NOT RECOMMENDED". A browser may try ::1 first, where another process
                // could be listening. Therefore, ::1 is also bound.
                do {
                    let number = try first.port
                    guard host == "localhost", hasIPv6 else { return LoopbackPort(number: number, sockets: [first]) }
                    return LoopbackPort(number: number, sockets: [first, try listen(number, isIPv6: true)])
                } catch SocketError.failed(_, let number, _) where number == EADDRINUSE && port == nil {
                    try? first.close()
                } catch {
                    try? first.close()
                    throw error
                }
            }
        } catch {
            throw failure(error, port: port)
        }
        throw AuthError(.portBusy, "No free port was found on this machine.")
    }

    /// Binds a port and releases it.
    /// - Parameters:
    ///   - host: `127.0.0.1`, `[::1]`, or `localhost`, which binds both.
    ///   - port: The port; default: any free port.
    /// - Returns: The port.
    /// - Throws: The same errors as ``open(host:port:)``.
    package static func probe(host: String, port: Int? = nil) throws -> Int {
        let port = try open(host: host, port: port)
        port.close()
        return port.number
    }

    func close() {
        for socket in sockets { try? socket.close() }
    }

    private static func listen(_ port: Int, isIPv6: Bool) throws -> Socket {
        let socket = try Socket(domain: isIPv6 ? AF_INET6 : AF_INET)
        do {
            #if !os(Linux)
            try socket.setValue(true, for: .noSIGPIPE)
            #endif
            // SO_REUSEADDR permits binding a port with connections in TIME_WAIT; a port on which another process
            // listens remains unavailable.
            try socket.setValue(true, for: .localAddressReuse)
            if isIPv6 {
                try socket.bind(to: try sockaddr_in6.inet6(ip6: "::1", port: UInt16(port)))
            } else {
                try socket.bind(to: try sockaddr_in.inet(ip4: "127.0.0.1", port: UInt16(port)))
            }
            try socket.listen()
            return socket
        } catch {
            try? socket.close()
            throw error
        }
    }

    private static func failure(_ error: any Error, port: Int?) -> AuthError {
        switch error {
        case let error as AuthError:
            return error
        case SocketError.failed(_, let number, _) where number == EADDRINUSE:
            return AuthError(
                .portBusy,
                """
                Port \(port ?? 0) on this machine is used by another program, so the authorization response could not \
                be received. Stop that program, or register and configure another redirect URI.
                """,
                underlyingError: error
            )
        default:
            return AuthError(
                .userAgentFailed,
                "No loopback server could be opened\(port.map { " on port \($0)" } ?? "").",
                underlyingError: error
            )
        }
    }

    /// Whether this machine has an IPv6 loopback address.
    private static var hasIPv6: Bool {
        guard let socket = try? Socket(domain: AF_INET6) else { return false }
        defer { try? socket.close() }
        guard let address = try? sockaddr_in6.inet6(ip6: "::1", port: 0) else { return false }
        return (try? socket.bind(to: address)) != nil
    }
}

extension Socket {
    /// The port that the socket is bound to.
    fileprivate var port: Int {
        get throws {
            switch try sockname() {
            case .ip4(_, let port), .ip6(_, let port): Int(port)
            default: throw SocketError.unsupportedAddress
            }
        }
    }
}
