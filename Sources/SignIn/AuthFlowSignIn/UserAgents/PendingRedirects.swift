import AuthFlowOAuth
import Synchronization

/// The pending redirects of the sign-ins and sign-outs of a client. A redirect that arrives in another way, for
/// example because the system opened an app with it or the user pasted it, also ends the wait.
final class PendingRedirects: Sendable {
    private struct PendingRedirect {
        let options: RedirectOptions
        let redirectURI: String
        let continuation: AsyncStream<ReceivedRedirect>.Continuation
    }

    private let pending = Mutex<[UInt64: PendingRedirect]>([:])
    private let next = Atomic<UInt64>(0)

    /// Passes a redirect to the session that waits for it.
    /// - Returns: Whether a session received the redirect.
    func resume(with url: String) -> Bool {
        for redirect in pending.withLock({ Array($0.values) }) {
            guard let response = redirect.options.response(in: url, at: redirect.redirectURI) else { continue }
            if case .terminated = redirect.continuation.yield(.response(response)) { return false }
            redirect.continuation.finish()
            return true
        }
        return false
    }

    /// Visits a URL in a user agent session, unless the redirect arrives in another way first.
    func visit(_ url: String, in session: RedirectSession, _ options: RedirectOptions) async throws -> ReceivedRedirect
    {
        let (redirects, continuation) = AsyncStream<ReceivedRedirect>.makeStream(bufferingPolicy: .bufferingOldest(1))
        let number = next.add(1, ordering: .relaxed).newValue
        pending.withLock {
            $0[number] = PendingRedirect(options: options, redirectURI: session.redirectURI, continuation: continuation)
        }
        defer { pending.withLock { $0[number] = nil } }
        return try await withThrowingTaskGroup(of: ReceivedRedirect?.self) { group in
            group.addTask { try await session.receiveRedirect(from: url) }
            group.addTask {
                for await redirect in redirects { return redirect }
                return nil
            }
            defer { group.cancelAll() }
            while let response = try await group.next() {
                if let response { return response }
            }
            throw CancellationError()
        }
    }
}

/// The reason why the last response that arrived was ignored: if no other response arrives, it explains the timeout best.
package final class IgnoredResponseReason: Sendable {
    private let reason = Mutex<String?>(nil)

    package init() {}

    /// - Parameter reason: The reason why the response was ignored, which ends the sentence in ``advice``. It must not contain
    ///   any content from the response.
    package func record(_ reason: String) { self.reason.withLock { $0 = reason } }

    /// A sentence for a timeout message, preceded by a space; empty when no response was ignored.
    package var advice: String {
        reason.withLock { $0.map { " The last response that arrived was not used: \($0)" } ?? "" }
    }
}
