import Synchronization

/// The reason why the last response to a visit was ignored: if no other response arrives, it is the best explanation.
package final class VisitNotes: Sendable {
    private let reason = Mutex<String?>(nil)

    package init() {}

    /// - Parameter reason: The end of a sentence, without any content from the response.
    package func ignoredResponse(because reason: String) { self.reason.withLock { $0 = reason } }

    /// A sentence for a timeout message, preceded by a space; empty when no response was ignored.
    package var advice: String {
        reason.withLock { $0.map { " The last response that arrived was not used: \($0)" } ?? "" }
    }
}
