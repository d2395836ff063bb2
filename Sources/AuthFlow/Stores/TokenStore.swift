/// A type that keeps credentials between runs. It stores bytes and knows nothing about tokens.
///
/// The bytes are secrets. A store keeps them from other users of the machine, and never leaves a key with anything but
/// the old or the new bytes, whenever the process dies. Run `TokenStoreConformance` of `AuthFlowTesting` on your own.
public protocol TokenStore: Sendable {
    /// The bytes kept for a key; nil when there are none.
    /// - Throws: ``AuthError`` with `storage_failed`.
    func bytes(for key: TokenKey) async throws -> [UInt8]?

    /// Keeps bytes for a key, or removes them when nil. When it returns they are durable.
    /// - Throws: ``AuthError`` with `storage_failed`; the old bytes are then still there.
    func set(_ bytes: [UInt8]?, for key: TokenKey) async throws

    /// Runs `body` while no other holder, in this process or another, has access to the same key.
    ///
    /// The method and `body` run where their caller runs. A module without the upcoming feature
    /// `NonisolatedNonsendingByDefault` writes `nonisolated(nonsending)` before both.
    /// - Throws: ``AuthError`` with `storage_failed` when access is not had in time, and whatever `body` throws.
    func withExclusiveAccess<Return: Sendable>(
        to key: TokenKey,
        _ body: nonisolated(nonsending) () async throws -> Return
    ) async throws -> Return
}

/// What a credential is kept under.
public struct TokenKey: Sendable, Hashable {
    /// The name of the client or profile.
    public let name: String

    /// The provider adapter.
    public let provider: ProviderID

    /// The client's identifier. Tokens of one client are of no use to another.
    public let clientID: String

    /// Creates a key.
    public init(name: String, provider: ProviderID, clientID: String) {
        self.name = name
        self.provider = provider
        self.clientID = clientID
    }
}
