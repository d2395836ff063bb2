import AuthFlow
import Synchronization

/// The clients of this program, which may have requests in progress when it is interrupted.
enum UnfinishedClients {
    /// The time limit for a request in progress once the program has been asked to exit.
    private static let grace = Duration.seconds(3)

    /// The time limit after a refresh token was sent. The response contains the only copy of the next refresh token.
    private static let longestGrace = Duration.seconds(32)

    private struct State {
        var clients: [any UnfinishedClient] = []
        var isStopping = false
    }

    private static let state = Mutex(State())

    /// The messages about requests in progress: before and after waiting for them.
    struct Messages: Sendable {
        /// The message before the wait; nil if the wait is short, because no refresh token was sent.
        let began: String?
        /// The message after the requests have completed; nil if there is no result to report.
        let done: String?
        let timedOut: String
    }

    /// The operation that the command's requests belong to.
    enum Operation { case signIn, signOut, other }

    private static let operation = Mutex(Operation.other)

    /// Records the operation that the requests in progress belong to.
    static func note(_ operation: Operation) { self.operation.withLock { $0 = operation } }

    static var messages: Messages {
        let operation = operation.withLock { $0 }
        if operation == .signOut {
            return Messages(
                began: "Finishing the sign-out. Press Ctrl-C again to stop waiting.",
                done: "The request has finished. To check whether you are signed out, run: \(SignInAdvice.status)",
                timedOut:
                    "The sign-out did not finish in time. To check, run: \(SignInAdvice.status). Tokens that the provider has not revoked remain valid until they expire."
            )
        }
        guard hasPendingResponse || operation == .other else {
            return Messages(
                began: nil,
                done: "The request has finished, and you may be signed in now. To check, run: \(SignInAdvice.status)",
                timedOut:
                    "The request did not finish in time. To check whether you are signed in, run: \(SignInAdvice.status)"
            )
        }
        guard hasPendingResponse else {
            return Messages(began: nil, done: nil, timedOut: "The request did not finish in time.")
        }
        return Messages(
            began:
                "Finishing the request to the provider, so that no token is lost. Press Ctrl-C again to stop immediately, which may end your session.",
            done: "The request has finished, and any new token was stored. To check, run: \(SignInAdvice.status)",
            timedOut: "The request did not finish in time. You may have to sign in again."
        )
    }

    static func add(_ client: any UnfinishedClient) {
        let isStopping = state.withLock { state in
            state.clients.append(client)
            return state.isStopping
        }
        if isStopping { client.stopSending() }
    }

    private static var all: [any UnfinishedClient] { state.withLock { $0.clients } }

    /// Prevents further refresh requests, because there would be no time for their responses.
    static func stopSending() {
        state.withLock { $0.isStopping = true }
        for client in all { client.stopSending() }
    }

    /// Whether a refresh token was sent and its response is still pending or being stored.
    static var hasPendingResponse: Bool { all.contains { $0.hasPendingResponse } }

    /// Whether a client has unfinished work.
    static var isBusy: Bool { all.contains { $0.hasUnfinishedWork } }

    /// Waits for the operations in progress that must complete. No more refresh tokens are sent, because this process is
    /// about to exit or to be replaced.
    /// - Returns: Whether all operations have completed.
    static func drain() async -> Bool {
        stopSending()
        let limit = hasPendingResponse ? longestGrace : grace
        return await all.concurrentMap { await $0.drain(within: limit) }.allSatisfy(\.self)
    }
}

/// A client whose requests can outlive the command that sent them.
protocol UnfinishedClient: Sendable {
    var hasPendingResponse: Bool { get }
    var hasUnfinishedWork: Bool { get }
    func stopSending()
    func drain(within waitTimeout: Duration) async -> Bool
}

extension AuthClient: UnfinishedClient {}

extension ResourceClient: UnfinishedClient {}
