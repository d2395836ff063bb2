public import AuthFlow

/// Passes a device authorization to a function, which may approve or deny it immediately.
public struct DecidingPresenter: DevicePresenter {
    private let decide: @Sendable (DeviceAuthorization) throws -> Void

    /// Creates a presenter.
    public init(_ decide: @escaping @Sendable (DeviceAuthorization) throws -> Void) { self.decide = decide }

    public func present<Return: Sendable>(
        _ authorization: DeviceAuthorization,
        while body: nonisolated(nonsending) () async throws -> Return
    ) async throws -> Return {
        try decide(authorization)
        return try await body()
    }
}
