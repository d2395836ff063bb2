package import AuthFlow

/// One connection to a database. It belongs to one thread at a time: the one that opens it, and then the loop's.
package protocol DatabaseLink: AnyObject, Sendable {
    /// One question to the database.
    associatedtype Request: Sendable
    /// The answer to it.
    associatedtype Response: Sendable

    /// The descriptor to wait for. It may change with every call.
    var descriptor: Int32 { get }

    /// Whether there is something left to send.
    var mustWrite: Bool { get }

    /// Begins a request. No other one is under way.
    func begin(_ request: Request) throws(DatabaseFailure)

    /// Sends and reads what is possible without waiting.
    /// - Returns: The result of the request, when it is there.
    /// - Throws: When the connection has ended.
    func advance() throws(DatabaseFailure) -> Result<Response, DatabaseFailure>?

    /// Takes out the messages that were received, for a connection that listens.
    func takeMessages() -> [String]

    /// Ends the connection.
    func close()
}

/// What a connection is opened for.
package enum DatabaseLinkUse: Sendable {
    case requests
    /// Messages of other processes.
    case messages
}

/// Why a request to a database has failed.
package struct DatabaseFailure: Error, Sendable {
    package enum Kind: Sendable, Hashable {
        /// No connection could be made: nothing was sent.
        case unreachable
        /// As ``unreachable``, for a reason that only a change of the configuration removes.
        case unusable
        /// What the database keeps cannot be read any more.
        case damaged
        /// The connection has ended: the request may have been carried out or not.
        case unknownOutcome
        /// The database has refused the request.
        case refused
    }

    package let kind: Kind
    /// A sentence for the operator, without the password.
    package let message: String

    package init(_ kind: Kind, _ message: String) {
        self.kind = kind
        self.message = message
    }

    /// The failure as an error of a store.
    package var error: AuthError { AuthError(kind == .damaged ? .storeDamaged : .storageFailed, message) }

    /// Whether trying again may help.
    package var isTemporary: Bool { kind == .unreachable || kind == .unknownOutcome }
}
