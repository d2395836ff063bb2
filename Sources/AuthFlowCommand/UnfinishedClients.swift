import AuthFlow
import Synchronization

/// The clients of this program, which may have requests in progress when it is interrupted.
enum UnfinishedClients {
    /// How long a refresh or an exchange in progress may take once the program is to end.
    static let grace = Duration.seconds(3)

    private static let clients = Mutex<[AuthClient]>([])
    private static let resources = Mutex<[ResourceClient]>([])

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
