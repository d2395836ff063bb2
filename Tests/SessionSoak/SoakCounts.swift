import AuthFlow
import AuthFlowJSON
import Synchronization

/// The counts of a process.
final class SoakCounts: Sendable {
    private struct State {
        var requests: Int64 = 0
        var tokens: Int64 = 0
        var refreshes: Int64 = 0
        /// The number of refreshes whose process was stopped for so long that another process acquired the lease.
        var late: Int64 = 0
        var ended: Int64 = 0
        /// The number of sessions that ended because a process was killed during their refresh.
        var endedInWindow: Int64 = 0
        var errors: [String: Int64] = [:]
        var slowest = Duration.zero
    }

    private let state = Mutex(State())

    /// Runs a request and counts its result.
    func request(_ body: () async throws -> TokenSet) async {
        let start = ContinuousClock.now
        do {
            _ = try await body()
            state.withLock { $0.tokens += 1 }
        } catch {
            let code = (error as? AuthError)?.code.rawValue ?? "\(type(of: error))"
            state.withLock { $0.errors[code, default: 0] += 1 }
        }
        let duration = start.duration(to: .now)
        state.withLock { state in
            state.requests += 1
            state.slowest = max(state.slowest, duration)
        }
    }

    func count(_ event: FlowEvent) {
        guard event.step == .refresh else { return }
        if event.progress == .succeeded { state.withLock { $0.refreshes += 1 } }
        if event.details["lease"] == "lost" { state.withLock { $0.late += 1 } }
    }

    func count(_ session: EndedSession) {
        state.withLock { state in
            state.ended += 1
            if session.isAfterInterruptedRefresh { state.endedInWindow += 1 }
        }
    }

    var line: String {
        state.withLock { state in
            let json: JSON = [
                "requests": .integer(state.requests), "tokens": .integer(state.tokens),
                "refreshes": .integer(state.refreshes), "late": .integer(state.late), "ended": .integer(state.ended),
                "ended_in_window": .integer(state.endedInWindow), "slowest": .double(state.slowest / .seconds(1)),
                "errors": .object(state.errors.mapValues(JSON.integer)),
            ]
            return String(decoding: (try? json.serialized()) ?? [], as: UTF8.self)
        }
    }
}
