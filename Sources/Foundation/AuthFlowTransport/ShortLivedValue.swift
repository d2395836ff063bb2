/// A value that is replaced after a limited time, such as a session whose connections must not be idle for longer. Frequent use does not extend
/// the time: another connection of the session may have been idle since its creation.
struct ShortLivedValue<Value: Sendable>: Sendable {
    private let maximumAge: Duration
    private var current: (value: Value, creation: ContinuousClock.Instant)?

    init(maximumAge: Duration) { self.maximumAge = maximumAge }

    /// The current value.
    /// - Parameter create: Creates a value when there is none, or when the current one is too old.
    mutating func value(at now: ContinuousClock.Instant, orElse create: () -> Value) -> Value {
        if let current, current.creation.duration(to: now) < maximumAge { return current.value }
        let value = create()
        current = (value, now)
        return value
    }
}
