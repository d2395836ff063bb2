// The parts of a server's soak test, each of which runs as a separate process; `Tests/Soak/sessions.py` starts them:
//
//     session-soak provider LIFETIME DELAY_MS [HANGS SLOW]    runs a provider that counts events, and prints its issuer
//     session-soak storm ISSUER STORE SESSIONS                requests fresh tokens of all sessions concurrently, twice
//     session-soak seed ISSUER STORE SESSIONS                 signs users in, and prints the number of users
//     session-soak serve ISSUER STORE SESSIONS TASKS SECONDS  requests fresh tokens, and prints counts every second
//     session-soak bench ISSUER STORE SESSIONS                prints the cost of the store as a table row
//     session-soak scale ISSUER STORE SESSIONS                prints the cost per session as a table row
//     session-soak check ISSUER STORE SESSIONS                counts the remaining and the ended sessions
//
// STORE is "postgresql", "redis", "memory" (only for bench), the path of a file that ends with ".sqlite", or the path of a directory.

import AuthFlow
import AuthFlowTesting

#if canImport(Darwin)
import Darwin
#else
import Glibc
#endif

let arguments = Array(CommandLine.arguments.dropFirst())

func number(_ index: Int) -> Int { arguments.count > index ? Int(arguments[index]) ?? 0 : 0 }

do {
    switch arguments.first {
    case "provider":
        let (lifetime, delay, hanging, slow) = (number(1), number(2), number(3), number(4))
        try await EmulatorServer.run { origin in
            try CountingProvider(
                origin: origin,
                lifetime: Int64(lifetime),
                delay: .milliseconds(delay),
                hanging: hanging,
                slow: arguments.count > 4 ? slow : .max
            )
        } _: { provider in
            say(provider.origin)
            while true { try await Task.sleep(for: .seconds(3600)) }
        }
    case "seed", "serve", "check", "bench", "scale", "storm":
        guard arguments.count > 3 else {
            throw AuthError(.invalidConfiguration, "Arguments: the issuer, the store and the number of sessions.")
        }
        let soak = SessionSoak(issuer: arguments[1], store: arguments[2], sessions: number(3))
        switch arguments[0] {
        case "seed": try await soak.seed()
        case "bench": try await soak.bench()
        case "scale": try await soak.scale()
        case "storm": try await soak.storm()
        case "serve": try await soak.serve(tasks: number(4), for: .seconds(number(5)))
        default: try await soak.check()
        }
    default: say("session-soak: the command must be provider, seed, serve, storm, bench, scale or check")
    }
} catch {
    say("error: \(error)")
    exit(1)
}

/// Prints a line without buffering, because it is read while the process runs.
func say(_ line: String) { _ = SystemCall.write(Array("\(line)\n".utf8), to: STDOUT_FILENO) }
