import AuthFlow

/// Answers the callbacks that a page passes to its app: `{"authId": ..., "callbacks": [...]}`, as a string.
///
/// The handlers can be the same as those of a ``TreeDriver``.
public struct PageCallbackResponder: Sendable {
    /// The maximum size of a message, in bytes.
    private static let maximumSize = 64 * 1024

    private let handlers: [any CallbackHandler]

    /// Creates an instance.
    /// - Parameter handlers: The handlers that answer the callbacks, tried in order.
    public init(handlers: [any CallbackHandler]) {
        self.handlers = handlers + [PassiveCallbackHandler()]
    }

    /// Answers a message.
    /// - Returns: The message with its answers, as JSON.
    /// - Throws: ``/AuthFlow/AuthError`` with `invalid_response` when the message is not a step of a tree,
    ///   `unknown_callback` when no handler answers a callback; any error that
    ///   a handler throws.
    public func answer(_ message: String) async throws -> String {
        guard message.utf8.count <= Self.maximumSize, let json = try? JSON(parsing: Array(message.utf8)),
            var step = TreeStep(json)
        else { throw AuthError(.invalidResponse, "The page's message is not a step of a tree.") }
        for index in step.callbacks.indices {
            var callback = step.callbacks[index]
            _ = try await handlers.answer(&callback, in: step)
            step.callbacks[index] = callback
        }
        return String(decoding: try step.answeredJSON.serialized(), as: UTF8.self)
    }
}
