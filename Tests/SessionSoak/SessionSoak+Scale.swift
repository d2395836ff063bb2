import AuthFlow

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

/// The cost of a session as the number of sessions grows.
extension SessionSoak {
    /// Prints a table row for a store that contains this many sessions: the cost of writing a session, of reading a
    /// session that the process has not cached, and of refreshing and ending a session; and the memory per session.
    func scale() async throws {
        let shared = try makeStore()
        let credentials = try manager(over: shared)
        // All sessions start with the same tokens, because only the sessions in `measured` are refreshed.
        let one = try await Self.signIn(credentials.client)
        let writing = try await Self.time {
            try await forEachSession { try await credentials.save(one, for: "scale-\($0)") }
        }
        // Spread over all sessions, so that the database does not cache them together.
        let measured = stride(from: 0, to: sessions, by: max(1, sessions / 200)).map { "scale-\(Self.session($0))" }
        for name in measured { try await credentials.save(try await Self.signIn(credentials.client), for: name) }

        let other = try manager(over: shared)
        var (reads, refreshes, ends): ([Duration], [Duration], [Duration]) = ([], [], [])
        for name in measured { reads.append(try await Self.time { _ = try await other.freshTokens(for: name) }) }
        for name in measured {
            refreshes.append(try await Self.time { _ = try await other.refresh(CredentialKey(name)) })
        }
        for name in measured {
            ends.append(try await Self.time { _ = try await other.remove([other.recordKey(for: CredentialKey(name))]) })
        }

        let rest = try manager(over: shared)
        let before = Self.residentBytes
        try await forEachSession { session in
            let name = "scale-\(session)"
            guard !measured.contains(name) else { return }
            _ = try await rest.freshTokens(for: name)
        }
        let memory = (Self.residentBytes - before) / max(1, sessions - measured.count)
        let columns = [
            store, "\(sessions)", "\(Int(Double(sessions) / (writing / .seconds(1))))",
            Self.milliseconds(Self.percentile(reads, 50)), Self.milliseconds(Self.percentile(refreshes, 50)),
            Self.milliseconds(Self.percentile(refreshes, 99)), Self.milliseconds(Self.percentile(ends, 50)),
            "\(memory) bytes",
        ]
        say("| \(columns.joined(separator: " | ")) |")
    }

    /// The resident memory of this process, in bytes; 0 if it is unknown.
    private static var residentBytes: Int {
        guard let statistics = try? String(contentsOfFile: "/proc/self/statm", encoding: .utf8) else { return 0 }
        let pages = statistics.split(separator: " ").dropFirst().first.flatMap { Int($0) } ?? 0
        return pages * 4096
    }
}
