import AuthFlow
import Synchronization

/// The clients of this program, which may have requests in progress when it is interrupted.
enum UnfinishedClients {
    /// How long a refresh or an exchange in progress may take once the program is to end.
    static let grace = Duration.seconds(3)

    private static let clients = Mutex<[AuthClient]>([])
    private static let resources = Mutex<[ResourceClient]>([])

    /// What is told about requests in progress: before they are waited for, and after.
    struct Words: Sendable {
        let began: String
        let done: String
        let late: String
    }

    private static let signsOut = Mutex(false)

    /// Notes that the requests in progress end a session.
    static func noteSignOut() { signsOut.withLock { $0 = true } }

    static var words: Words {
        if signsOut.withLock({ $0 }) {
            return Words(
                began: "Revoking the tokens at the provider. Press Ctrl-C again to stop waiting.",
                done: "The provider has answered. You are signed out on this machine; see: authflow status",
                late:
                    "You are signed out on this machine. Tokens that the provider has not revoked work until they expire."
            )
        }
        return Words(
            began:
                "Finishing the request to the provider, so that no token is lost. Press Ctrl-C again to stop at once, which may end your session.",
            done: "Finished, and the result is stored. See: authflow status",
            late: "It did not finish in time. You may have to sign in again."
        )
    }

    static func add(_ client: AuthClient) { clients.withLock { $0.append(client) } }
    static func add(_ client: ResourceClient) { resources.withLock { $0.append(client) } }

    /// Whether such a request is in progress.
    static var isBusy: Bool {
        clients.withLock { $0 }.contains(where: \.hasUnfinishedWork)
            || resources.withLock { $0 }.contains(where: \.hasUnfinishedWork)
    }

    /// Waits until everything that must not be lost is stored.
    /// - Returns: Whether it is.
    static func drain() async -> Bool {
        var isDone = true
        for client in clients.withLock({ $0 }) where await !client.drain(within: grace) { isDone = false }
        for client in resources.withLock({ $0 }) where await !client.drain(within: grace) { isDone = false }
        return isDone
    }
}
