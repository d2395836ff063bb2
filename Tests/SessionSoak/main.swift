// The parts of a server's soak test, each a separate process; `Tests/Soak/sessions.py` starts them:
//
//     session-soak provider LIFETIME DELAY_MS [HANGS SLOW]    an authorization server that counts; prints its issuer
//     session-soak storm ISSUER STORE SESSIONS                asks for fresh tokens of all sessions at once, twice
//     session-soak seed ISSUER STORE SESSIONS                 signs users in, and prints how many
//     session-soak serve ISSUER STORE SESSIONS TASKS SECONDS  asks for fresh tokens, and prints counts every second
//     session-soak bench ISSUER STORE SESSIONS                prints what the store costs, as a row of a table
//     session-soak scale ISSUER STORE SESSIONS                prints what one of many sessions costs, as a row of a table
//     session-soak check ISSUER STORE SESSIONS                counts the sessions that are left, and why others ended
//
// STORE is "postgresql", "redis", "memory", the path of a file that ends with ".sqlite", or of a folder.

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
            throw AuthError(.invalidConfiguration, "The issuer, the store, the sessions.")
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
    default: say("session-soak: provider, seed, serve or check")
    }
} catch {
    say("error: \(error)")
    exit(1)
}

/// Prints a line at once: it is read while the process runs.
func say(_ line: String) { _ = SystemCall.write("\(line)\n".utf8, to: STDOUT_FILENO) }
