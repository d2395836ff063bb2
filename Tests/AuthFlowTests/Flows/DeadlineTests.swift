import AuthFlow
import Expectations
import HTTPTypes
import Synchronization
import Testing

/// A clock whose sleeps return immediately.
struct ImmediateClock: Clock {
    struct Instant: InstantProtocol {
        var offset: Duration = .zero
        func advanced(by duration: Duration) -> Instant { Instant(offset: offset + duration) }
        func duration(to other: Instant) -> Duration { other.offset - offset }
        static func < (left: Instant, right: Instant) -> Bool { left.offset < right.offset }
    }

    var now: Instant { Instant() }
    var minimumResolution: Duration { .zero }
    func sleep(until deadline: Instant, tolerance: Duration?) async throws { try Task.checkCancellation() }
}

@Suite(.timeLimit(.minutes(1))) struct DeadlineTests {
    /// Deadlines on the system's clock share a timer. On any other clock, each deadline has a separate timer.
    enum Timing: CaseIterable {
        case systemClock, otherClock

        var clock: any Clock<Duration> { self == .systemClock ? ContinuousClock() : ImmediateClock() }
    }

    private func late() -> AuthError { AuthError(.timedOut, "late") }

    @Test(arguments: Timing.allCases) func throwsWhenTheDeadlinePasses(_ timing: Timing) async {
        let error = await #expect(throws: AuthError.self) {
            try await withDeadline(.milliseconds(1), clock: timing.clock, orThrow: late) { try await Task.never() }
        }
        #expect(error?.code == .timedOut)
    }

    /// Otherwise, the timer would terminate the process, even if the operation has completed.
    @Test func aDeadlineOfAnyLengthIsPossible() async throws {
        for clock in [ContinuousClock(), SuspendingClock()] as [any Clock<Duration>] {
            let result = try await withDeadline(.seconds(Int64.max), clock: clock, orThrow: late) { 1 }
            #expect(result == 1)
        }
        #expect(Duration.seconds(Int64.max).formattedSeconds.hasSuffix(" seconds"))
    }

    /// Each of these timers is earlier than the previous one, so it replaces the wake-up that they share.
    @Test func aCancelledTimerDoesNotFireEvenIfItIsTheEarliest() async {
        let calls = Mutex(0)
        var cancellations: [@Sendable () -> Void] = []
        for delay in [1000, 900, 800] {
            cancellations.append(ContinuousClock().call({ calls.withLock { $0 += 1 } }, after: .milliseconds(delay)))
        }
        let (later, reach) = AsyncStream<Void>.makeStream()
        _ = ContinuousClock().call({ reach.finish() }, after: .milliseconds(1100))
        for cancel in cancellations { cancel() }
        for await _ in later {}
        #expect(calls.withLock { $0 } == 0)
    }

    /// The operation's connections are closed by the time the error is thrown.
    @Test(arguments: Timing.allCases) func anOperationIsAwaitedAfterItsDeadline(_ timing: Timing) async {
        let (ended, end) = AsyncStream<Void>.makeStream()
        let error = await #expect(throws: AuthError.self) {
            try await withDeadline(.milliseconds(1), clock: timing.clock, orThrow: late) {
                defer { end.finish() }
                try await Task.never()
            }
        }
        #expect(error?.code == .timedOut)
        for await _ in ended {}
    }

    /// A response that has arrived may contain the only copy of a refresh token.
    @Test(arguments: Timing.allCases) func returnsAResultThatArrivesAfterTheDeadline(_ timing: Timing) async throws {
        let value = try await withDeadline(.milliseconds(1), clock: timing.clock, orThrow: late) {
            try? await Task.never()
            return 5
        }
        #expect(value == 5)
    }

    @Test(arguments: Timing.allCases) func anExtendedDeadlineLetsTheOperationComplete(_ timing: Timing) async throws {
        let (passed, pass) = AsyncStream<Void>.makeStream()
        let value = try await withDeadline(
            .milliseconds(1),
            clock: timing.clock,
            extendedBy: {
                pass.finish()
                return .seconds(60)
            },
            orThrow: late
        ) {
            for await _ in passed {}
            try Task.checkCancellation()
            return 5
        }
        #expect(value == 5)
    }

    /// The caller may send a request again once its timeout has expired.
    @Test func aRequestIsNotSentAfterItsTimeoutForSending() async {
        let request = TransportRequest(.get, Endpoint("https://id.example.com/"))
        let error = await #expect(throws: AuthError.self) {
            try await ExchangeLimits.send(request, by: LateTransport(), clock: ImmediateClock())
        }
        #expect(error?.code == .timedOut)
    }

    @Test func onlyTheFirstResultCounts() async throws {
        let result = FirstResult<Int>()
        result.finish(.success(1))
        result.finish(.failure(CancellationError()))
        #expect(try await result.value(begin: {}) == 1)
    }

    @Test func returnsAResultThatIsInTime() async throws {
        let value = try await withDeadline(.seconds(60), clock: ContinuousClock(), orThrow: late) { 5 }
        #expect(value == 5)
    }

    @Test func cancelsTheOperationOfATaskThatIsCancelled() async {
        let (began, begin) = AsyncStream<Void>.makeStream()
        let task = Task {
            try await withDeadline(.seconds(60), clock: ContinuousClock(), orThrow: late) {
                begin.finish()
                try await Task.never()
            }
        }
        for await _ in began {}
        task.cancel()
        await #expect(throws: CancellationError.self) { try await task.value }
    }

    /// The shared timer wakes up for the earliest deadline, regardless of the order in which deadlines are added.
    @Test func everyConcurrentDeadlineIsEnforced() async throws {
        let results = await withTaskGroup(of: (isShort: Bool, error: AuthError.Code?).self) { group in
            for number in 0..<300 {
                group.addTask {
                    let isShort = number % 3 == 1
                    let duration = isShort ? Duration.milliseconds(300 - number) : .seconds(3600)
                    do {
                        try await withDeadline(duration, clock: ContinuousClock(), orThrow: late) {
                            if isShort { try await Task.never() }
                        }
                        return (isShort, nil)
                    } catch {
                        return (isShort, (error as? AuthError)?.code)
                    }
                }
            }
            return await group.reduce(into: []) { $0.append($1) }
        }
        #expect(results.count == 300)
        #expect(results.allSatisfy { $0.error == ($0.isShort ? .timedOut : nil) })
    }
}

/// A transport that sends a request only once the request has been cancelled.
private struct LateTransport: HTTPTransport {
    func send(_ call: TransportRequest) async throws -> TransportResponse {
        try? await Task.never()
        try call.willSend()
        return TransportResponse(head: HTTPResponse(status: .ok))
    }
}
