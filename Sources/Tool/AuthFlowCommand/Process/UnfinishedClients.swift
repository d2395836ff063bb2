import AuthFlow
import Synchronization

/// The clients of this program, which may have requests in progress when it is interrupted.
enum UnfinishedClients {
    /// The time limit for a request in progress once the program has been asked to exit.
    private static let grace = Duration.seconds(3)

    /// The time limit after a refresh token was sent: the response contains the only copy of the next refresh token.
    private static let longestGrace = Duration.seconds(32)

    private struct State {
        var clients: [AuthClient] = []
        var resources: [ResourceClient] = []
        var isStopping = false
    }

    private static let state = Mutex(State())

    /// The messages about requests in progress: before and after waiting for them.
    struct Words: Sendable {
        let began: String
        let done: String
        let late: String
    }

    private static let signsOut = Mutex(false)

    /// Records that the requests in progress belong to a sign-out.
    static func noteSignOut() { signsOut.withLock { $0 = true } }

    static var words: Words {
        if signsOut.withLock({ $0 }) {
            return Words(
                began: "Revoking the tokens at the provider. Press Ctrl-C again to stop waiting.",
                done: "The provider has responded. You are signed out on this machine; see: authflow status",
                late:
                    "You are signed out on this machine. Tokens that the provider has not revoked remain valid until they expire."
            )
        }
        return Words(
            began:
                "Finishing the request to the provider, so that no token is lost. Press Ctrl-C again to stop immediately, which may end your session.",
            done: "Finished, and the result is stored. See: authflow status",
            late: "The request did not finish in time. You may have to sign in again."
        )
    }

    static func add(_ client: AuthClient) {
        let isStopping = state.withLock { state in
            state.clients.append(client)
            return state.isStopping
        }
        if isStopping { client.stopSending() }
    }

    static func add(_ client: ResourceClient) {
        let isStopping = state.withLock { state in
            state.resources.append(client)
            return state.isStopping
        }
        if isStopping { client.stopSending() }
    }

    private static var all: ([AuthClient], [ResourceClient]) { state.withLock { ($0.clients, $0.resources) } }

    /// Prevents further refresh requests: there would be no time for their responses.
    static func stopSending() {
        state.withLock { $0.isStopping = true }
        let (clients, resources) = all
        for client in clients { client.stopSending() }
        for client in resources { client.stopSending() }
    }

    /// Whether a refresh token was sent and its response is still pending or being stored.
    static var hasSent: Bool {
        let (clients, resources) = all
        return clients.contains(where: \.hasSent) || resources.contains(where: \.hasSent)
    }

    /// Whether a client has unfinished work.
    static var isBusy: Bool {
        let (clients, resources) = all
        return clients.contains(where: \.hasUnfinishedWork) || resources.contains(where: \.hasUnfinishedWork)
    }

    /// Waits until everything that must not be lost is stored.
    /// - Returns: Whether everything was stored.
    static func drain() async -> Bool {
        let (clients, resources) = all
        let limit = hasSent ? longestGrace : grace
        return await withTaskGroup(of: Bool.self) { group in
            for client in clients { group.addTask { await client.drain(within: limit) } }
            for client in resources { group.addTask { await client.drain(within: limit) } }
            return await group.reduce(true) { $0 && $1 }
        }
    }
}
