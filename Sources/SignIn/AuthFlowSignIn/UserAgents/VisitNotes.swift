import Synchronization

/// The reason why the last response that arrived at a visit was not used: when none other comes, it is the best explanation there is.
package final class VisitNotes: Sendable {
    private let reason = Mutex<String?>(nil)

    package init() {}

    /// - Parameter reason: The end of a sentence, with nothing of the response in it.
    package func ignoredResponse(because reason: String) { self.reason.withLock { $0 = reason } }

    /// A sentence for the message of a timeout, with a space before it; empty when nothing arrived.
    package var advice: String {
        reason.withLock { $0.map { " The last response that arrived was not used: \($0)" } ?? "" }
    }
}
