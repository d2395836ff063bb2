import Synchronization

/// The sign-ins that a process begins at the same time at one provider: at most 32 from all clients together, so that they leave the database
/// and the provider to the users who are signed in.
final class SignInPlaces: Sendable {
    static let limit = 32

    private let taken = Atomic(0)

    /// Takes a slot.
    /// - Returns: Whether there was one.
    func enter() -> Bool {
        guard taken.add(1, ordering: .relaxed).newValue > Self.limit else { return true }
        leave()
        return false
    }

    /// The number of slots in use.
    var count: Int { min(taken.load(ordering: .relaxed), Self.limit) }

    func leave() { taken.subtract(1, ordering: .relaxed) }
}
