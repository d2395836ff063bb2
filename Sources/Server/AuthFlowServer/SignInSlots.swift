import Synchronization

/// The slots for the sign-ins, authorization responses or front-channel logouts that a process handles concurrently for one provider: at
/// most 32 of each, so that the database and the provider retain capacity for users who are already signed in.
final class SignInSlots: Sendable {
    static let limit = 32

    private let taken = Atomic(0)

    /// Acquires a slot.
    /// - Returns: Whether a slot was free.
    func enter() -> Bool {
        guard taken.add(1, ordering: .relaxed).newValue > Self.limit else { return true }
        release()
        return false
    }

    /// The number of slots in use.
    var count: Int { min(taken.load(ordering: .relaxed), Self.limit) }

    func release() { taken.subtract(1, ordering: .relaxed) }
}
