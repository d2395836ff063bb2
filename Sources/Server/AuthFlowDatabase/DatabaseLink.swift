package import AuthFlow

/// A connection to a database. Only one thread uses it at a time: first the thread that opens it, then the loop's
/// thread.
package protocol DatabaseLink: AnyObject, Sendable {
    /// A request to the database.
    associatedtype Request: Sendable
    /// The response to a request.
    associatedtype Response: Sendable

    /// The file descriptor to poll. It may change after every call.
    var descriptor: Int32 { get }

    /// Whether there is still data to send.
    var hasPendingOutput: Bool { get }

    /// Starts a request. No other request may be in progress.
    func begin(_ request: Request) throws(DatabaseFailure)

    /// Sends and receives as much as possible without blocking.
    /// - Returns: The result of the request; nil while the request is in progress.
    /// - Throws: ``DatabaseFailure`` when the connection was lost.
    func advance() throws(DatabaseFailure) -> Result<Response, DatabaseFailure>?

    /// Removes and returns the messages received on a listening connection.
    func takeMessages() -> [String]

    /// Closes the connection.
    func close()
}

/// The purpose of a connection.
package enum DatabaseLinkUse: Sendable {
    case requests
    /// Messages from other processes.
    case messages
}

/// A failed database request.
package struct DatabaseFailure: Error, Sendable {
    package enum Kind: Sendable, Hashable {
        /// No connection could be established, so nothing was sent.
        case unreachable
        /// Like ``unreachable``, but only a configuration change can fix it.
        case unusable
        /// The stored data can no longer be read.
        case damaged
        /// The connection was lost, or the request timed out: the request may or may not have been executed.
        case unknownOutcome
        /// The database rejected the request.
        case refused
    }

    package let kind: Kind
    /// The message for the operator. It does not contain the password.
    package let message: String

    package init(_ kind: Kind, _ message: String) {
        self.kind = kind
        self.message = message
    }

    /// The failure as a store error.
    package var error: AuthError { AuthError(kind == .damaged ? .storeDamaged : .storageFailed, message) }

    /// Whether a retry may succeed.
    package var isTemporary: Bool { kind == .unreachable || kind == .unknownOutcome }
}
