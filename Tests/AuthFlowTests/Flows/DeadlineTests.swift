import AuthFlow
import Testing

/// A clock on which every wait is over at once.
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

@Suite struct DeadlineTests {
    @Test func throwsWhenTheDeadlinePasses() async {
        let error = await #expect(throws: AuthError.self) {
            try await withDeadline(.seconds(5), clock: ImmediateClock()) {
                AuthError(.timedOut, "late")
            } _: {
                try await Task.never()
            }
        }
        #expect(error?.code == .timedOut)
    }

    @Test func returnsAResultThatIsInTime() async throws {
        let value = try await withDeadline(.seconds(60), clock: ContinuousClock()) {
            AuthError(.timedOut, "late")
        } _: {
            5
        }
        #expect(value == 5)
    }
}
