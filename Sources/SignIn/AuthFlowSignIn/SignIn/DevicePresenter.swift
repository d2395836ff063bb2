public import AuthFlowOAuth

/// A type that shows a user where to go and what to enter there, while the program waits.
///
/// The device grant has no redirect: the user may sign in on another machine, and the program asks the provider now and
/// then whether they have. `body` is that waiting; when it returns or throws, what is shown can go.
///
/// To stop early, throw: `body` is a plain call in the same task, and cancelling that task ends it at once.
///
/// ```swift
/// struct PlainDevicePresenter: DevicePresenter {
///     nonisolated(nonsending) func present<Return: Sendable>(
///         _ authorization: DeviceAuthorization,
///         while body: nonisolated(nonsending) () async throws -> Return
///     ) async throws -> Return {
///         print("Go to \(authorization.verificationURI.url) and enter \(authorization.userCode)")
///         return try await body()
///     }
/// }
/// ```
public protocol DevicePresenter: Sendable {
    /// How long the user can be waited for at the most; nil for as long as the code lasts, which is the default. A presenter
    /// that does not know whether a user sees the code gives a bound.
    var longestWait: Duration? { get }

    /// Shows a code, runs `body`, and takes the code away again whatever happens.
    /// - Throws: ``AuthError`` with `user_agent_failed` when the code cannot be shown; whatever `body` throws.
    func present<Return: Sendable>(
        _ authorization: DeviceAuthorization,
        while body: nonisolated(nonsending) () async throws -> Return
    ) async throws -> Return
}

extension DevicePresenter {
    /// As long as the code lasts.
    public var longestWait: Duration? { nil }
}
