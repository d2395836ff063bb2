import AuthFlow

/// The cost of the stores, in one run with the same provider.
extension SessionSoak {
    /// Prints a table row: fresh tokens from memory, a refresh compared with the provider's response time, a caller
    /// that waits for another manager's refresh, and concurrent refreshes of all sessions.
    func bench() async throws {
        let shared = store == "memory" ? MemoryTokenStore() : try makeStore()
        let credentials = try manager(over: shared)
        let other = try manager(over: store == "memory" ? shared : try makeStore())
        try await forEachSession { session in
            try await credentials.save(try await Self.signIn(credentials.client), for: session)
        }
        let names = (0..<sessions).map { Self.session($0) }

        // Fresh tokens: the first call has already read the store.
        _ = try await credentials.refresh(CredentialKey(names[0]))
        let calls = 200_000
        let fresh = try await Self.time { for _ in 0..<calls { _ = try await credentials.freshTokens(for: names[0]) } }

        // A refresh without a store, and a refresh with the store.
        var (alone, whole, waits): ([Duration], [Duration], [Duration]) = ([], [], [])
        for name in names.prefix(200) {
            let credential = try await Self.signIn(credentials.client)
            alone.append(try await Self.time { _ = try await credentials.client.refresh(credential) })
            whole.append(try await Self.time { _ = try await credentials.refresh(CredentialKey(name)) })
        }
        // Two processes: the first refreshes, the second waits for it.
        for name in names.prefix(50) {
            _ = try await other.freshTokens(for: name)
            async let first = credentials.refresh(CredentialKey(name))
            waits.append(try await Self.time { _ = try await other.refresh(CredentialKey(name)) })
            _ = try await first
        }
        let all = try await Self.time {
            try await withThrowingTaskGroup(of: Void.self) { group in
                for name in names { group.addTask { _ = try await credentials.refresh(CredentialKey(name)) } }
                try await group.waitForAll()
            }
        }
        let extra = Self.percentile(whole, 50) - Self.percentile(alone, 50)
        say(
            """
            | \(store) | \(Int((fresh / Double(calls) / .nanoseconds(1)).rounded())) ns | \(Self.milliseconds(Self.percentile(alone, 50))) \
            | \(Self.milliseconds(Self.percentile(whole, 50))) | \(Self.milliseconds(Self.percentile(whole, 99))) \
            | \(Self.milliseconds(extra)) | \(Self.milliseconds(Self.percentile(waits, 50))) \
            | \(Self.milliseconds(Self.percentile(waits, 99))) | \(Int(Double(sessions) / (all / .seconds(1)))) |
            """
        )
    }

    static func time(_ body: () async throws -> Void) async throws -> Duration {
        let start = ContinuousClock.now
        try await body()
        return start.duration(to: .now)
    }

    static func percentile(_ times: [Duration], _ percent: Int) -> Duration {
        times.isEmpty ? .zero : times.sorted()[min(times.count - 1, times.count * percent / 100)]
    }

    static func milliseconds(_ duration: Duration) -> String {
        let hundredths = Int((duration / .microseconds(10)).rounded())
        let rest = hundredths.magnitude % 100
        return "\(hundredths < 0 ? "-" : "")\(hundredths.magnitude / 100).\(rest < 10 ? "0" : "")\(rest) ms"
    }
}
