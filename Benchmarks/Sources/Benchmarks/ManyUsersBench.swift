import AuthFlow
import AuthFlowJSON
import AuthFlowOIDC
import AuthFlowTesting
import Foundation

/// Measures a process that stores the credentials of many users.
enum ManyUsersBench {
    private static let count = 10_000

    static func run() async throws {
        let users = (0..<count).map { number in
            OIDCEmulator.User(username: "user\(number)", password: "", claims: ["sub": .string("subject-\(number)")])
        }
        let emulator = try OIDCEmulator(issuer: "https://id.example.com", users: users)
        let client = OAuthClient(
            server: AuthorizationServer(
                OIDCProvider(issuer: emulator.issuer),
                transport: InProcessTransport(emulator)
            ),
            registration: try ClientRegistration(clientID: "authflow-demo") {
                $0.redirectURIs = ["http://127.0.0.1:8400/callback"]
                $0.scopes = ["openid", "offline_access"]
            }
        )
        let store = MemoryTokenStore()
        let signingIn = CredentialManager(client: client, store: store)
        for number in 0..<count {
            let request = try await client.authorizationRequest()
            let callback = try emulator.redirect(for: request.url, as: "user\(number)")
            try await signingIn.save(try await client.exchange(callback, for: request), for: "\(number)")
        }
        // A second manager, as in another process. The memory it adds is the cost of the cached credentials.
        let credentials = CredentialManager(client: client, store: store)
        let before = residentKilobytes()
        for number in 0..<count { _ = try await credentials.freshTokens(for: "\(number)") }
        let each = Double(residentKilobytes() - before) / Double(count)
        let clock = ContinuousClock()
        let time = try await clock.measure {
            for number in 0..<count { _ = try await credentials.freshTokens(for: "\(number)") }
        }
        let nanoseconds = Double(time.components.attoseconds) / 1e9 / Double(count)
        print(
            "\n\(count) users of one client: \(emulator.requests.count { $0.contains("well-known") }) metadata request, \(emulator.requests.count { $0 == "GET /jwks" }) key request; \(String(format: "%.1f", each)) KiB for each idle credential in memory; \(Int(nanoseconds)) ns for fresh tokens by key\n"
        )
    }

    /// The resident set size of this process, in KiB, from `/proc/self/statm`; 0 if that file does not exist.
    private static func residentKilobytes() -> Int {
        let text = (try? String(contentsOfFile: "/proc/self/statm", encoding: .utf8)) ?? ""
        return (text.split(separator: " ").dropFirst().first.flatMap { Int($0) } ?? 0) * 4
    }
}
