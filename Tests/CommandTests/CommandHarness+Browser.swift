import AuthFlowTesting
import CommandHarness
import Foundation
import Synchronization

extension CommandHarness {
    /// Runs a command that shows a URL for signing in. Alice signs in there, and `deliver` receives the final redirect.
    static func signIn(
        _ arguments: [String],
        at provider: EmulatorEnvironment,
        variables: [String: String],
        deliver: (_ redirect: String) async throws -> Void
    ) async throws -> Outcome {
        // This browser does nothing.
        let environment = variables.merging(["DISPLAY": ":0", "BROWSER": "/bin/true"]) { $1 }
        let (urls, shown) = AsyncStream<String>.makeStream()
        let identifier = Mutex<Int32?>(nil)
        let outcome = Task<Outcome, any Error> {
            // The command may exit without showing a URL.
            defer { shown.finish() }
            return try await CommandHarness.run(
                arguments,
                environment: environment,
                started: { process in identifier.withLock { $0 = process } },
                interruptWhen: { text in
                    let url = text.split(separator: "\n").first { $0.hasPrefix("http") }
                    if let url, text.contains("Waiting for you") {
                        shown.yield(String(url))
                        shown.finish()
                    }
                    return false
                }
            )
        }
        do {
            for await url in urls { try await deliver(try await provider.visit(url)) }
        } catch {
            // The command would wait for the redirect until the limit of the harness.
            if let process = identifier.withLock({ $0 }) { kill(process, SIGINT) }
            _ = await outcome.result
            throw error
        }
        return try await outcome.value
    }
}
