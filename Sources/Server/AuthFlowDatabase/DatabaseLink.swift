package import AuthFlow

/// A connection to a database. All methods except ``interrupt()`` are called on its own thread.
package protocol DatabaseLink: AnyObject, Sendable {
    /// A request to the database.
    associatedtype Request: Sendable
    /// The response to a request.
    associatedtype Response: Sendable

    /// Whether the connection is open and has no data to read, as is normal between two requests.
    var isIdle: Bool { get }

    /// Sends a request and blocks until the response arrives.
    /// - Throws: ``DatabaseFailure`` when the connection was lost, or must be closed.
    func response(to request: Request) throws(DatabaseFailure) -> Result<Response, DatabaseFailure>

    /// Blocks until messages arrive on a listening connection.
    /// - Throws: ``DatabaseFailure`` when the connection was lost.
    func messages() throws(DatabaseFailure) -> [String]

    /// Makes a blocked call fail. Any thread may call it.
    func interrupt()

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
        /// Nothing was executed: no connection was available, too many requests were waiting, or the database was locked.
        case unreachable
        /// Like ``unreachable``, but only a configuration change can fix it.
        case unusable
        /// The stored data can no longer be read.
        case damaged
        /// The connection was lost, the request timed out, or the database cannot execute it now: the request may or may not have been executed.
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
