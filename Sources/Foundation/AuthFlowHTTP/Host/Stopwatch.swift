extension Clock where Duration == Swift.Duration {
    /// Starts measuring.
    /// - Returns: A function that returns the time elapsed since then.
    package func stopwatch() -> @Sendable () -> Duration {
        let start = now
        return { start.duration(to: now) }
    }
}
