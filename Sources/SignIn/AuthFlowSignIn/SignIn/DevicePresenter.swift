public import AuthFlowOAuth

/// A type that shows the user the verification URI and the user code while the program waits.
///
/// The device flow has no redirect: the user may sign in on another device, and the program polls the provider for the
/// result. `body` polls the provider; when it returns or throws, hide the code.
///
/// To stop early, throw an error, or cancel the task, which ends `body` immediately, because it runs in the same task.
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
    /// The maximum time to wait for the user; nil (the default) to wait until the code expires. Set a limit in a
    /// presenter that cannot determine whether a user sees the code.
    var maximumWait: Duration? { get }

    /// Shows a code, runs `body`, and always hides the code afterward.
    /// - Throws: ``AuthError`` with `user_agent_failed` when the code cannot be shown; any error that `body` throws.
    func present<Return: Sendable>(
        _ authorization: DeviceAuthorization,
        while body: nonisolated(nonsending) () async throws -> Return
    ) async throws -> Return
}

extension DevicePresenter {
    /// Default: nil, so that the sign-in can be completed until the code expires.
    public var maximumWait: Duration? { nil }
}
