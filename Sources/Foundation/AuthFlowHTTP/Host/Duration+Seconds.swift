extension Duration {
    /// The duration in seconds, including the fraction.
    package var seconds: Double {
        Double(components.seconds) + Double(components.attoseconds) / 1e18
    }

    /// The duration in whole milliseconds; at least 1.
    package var wholeMilliseconds: Int { max(1, Int(min(seconds, 1_000_000) * 1000)) }

    /// The longest duration to pass to a clock: more than a thousand years. `.seconds(.max)` usually means that there is no limit, and the
    /// standard library's clocks terminate the process if a deadline in seconds does not fit into 64 bits.
    package static var longestSleep: Duration { .seconds(1 << 35) }

    /// The duration in words, for a message.
    package var formattedSeconds: String {
        let (count, unit) =
            self < .seconds(1) ? (wholeMilliseconds, "millisecond") : (Int(min(seconds, 1e15).rounded()), "second")
        return "\(count) \(unit)\(count == 1 ? "" : "s")"
    }
}
