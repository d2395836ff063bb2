extension Clock where Duration == Swift.Duration {
    /// Begins to measure.
    /// - Returns: A function that says how long ago that was.
    func stopwatch() -> @Sendable () -> Duration {
        let start = now
        return { start.duration(to: now) }
    }
}
