import Foundation

/// The configuration file and the port from the command line. With any other arguments, the program exits (`EX_USAGE`).
public func arguments(_ usage: String) -> (path: String, port: Int) {
    let arguments = CommandLine.arguments
    guard arguments.count == 3, let port = UInt16(arguments[2]) else { end(usage: usage) }
    return (arguments[1], Int(port))
}

/// Creates the server that a configuration describes. An invalid configuration is an operator error, so the program
/// exits with a message (`EX_CONFIG`) instead of crashing.
public func configured<Server>(_ server: () throws -> Server) -> Server {
    do {
        return try server()
    } catch {
        end("\(error)", status: 78)
    }
}

/// Serves until the program is terminated. If the port is in use, for example, the program exits with a message instead of crashing.
public func serving(_ serve: () async throws -> Void) async {
    do {
        try await serve()
    } catch {
        end("The server has stopped: \(error)", status: 69)
    }
}

/// Terminates a program that was started with invalid arguments.
public func end(usage: String) -> Never { end("Usage: \(usage)", status: 64) }

private func end(_ message: String, status: Int32) -> Never {
    FileHandle.standardError.write(Data("\(message)\n".utf8))
    exit(status)
}
