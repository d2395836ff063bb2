/// A store's connections to its database. They are closed when the last reference to this object is released.
package final class Database<Link: DatabaseLink>: Sendable {
    private let pool: DatabasePool<Link>

    /// Creates the pool without opening a connection.
    /// - Parameters:
    ///   - connections: The maximum number of connections for requests. Further requests wait for a free connection.
    ///   - open: Opens a connection, and blocks until it is established.
    ///   - onMessage: Receives the messages from other processes, on the thread of the listening connection. It must not block.
    package init(
        connections: Int,
        open: @escaping @Sendable (DatabaseLinkUse) throws(DatabaseFailure) -> Link,
        onMessage: @escaping @Sendable (DatabaseMessage) -> Void
    ) {
        pool = DatabasePool(connections: connections, open: open, onMessage: onMessage)
    }

    deinit { pool.close() }

    /// Sends a request and waits for the response. If the task is cancelled, the method returns immediately; the
    /// request may or may not be executed.
    /// - Throws: ``DatabaseFailure`` or `CancellationError`.
    package func response(to request: Link.Request) async throws -> Link.Response {
        try await pool.response(to: request)
    }

    /// The number of pending requests, including those that wait for a connection.
    package var pending: Int { pool.pending }

    /// Starts receiving messages from other processes.
    package func listen() { pool.listen() }
}

/// An event on a listening connection.
package enum DatabaseMessage: Sendable {
    /// The connection is new: messages may have been missed.
    case connected
    case message(String)
}
