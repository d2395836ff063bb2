extension Clock where Duration == Swift.Duration {
    /// Starts measuring.
    /// - Returns: A function that returns the time elapsed since this call.
    package func stopwatch() -> @Sendable () -> Duration {
        let start = now
        return { start.duration(to: now) }
    }
}
