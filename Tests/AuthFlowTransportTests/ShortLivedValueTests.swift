import Testing

@testable import AuthFlowTransport

@Suite struct ShortLivedValueTests {
    /// The values at these numbers of seconds after the first use.
    private func values(at seconds: [Double]) -> [Int] {
        let start = ContinuousClock.now
        var value = ShortLivedValue<Int>(maximumAge: .seconds(3))
        var created = 0
        return seconds.map { time in
            value.value(at: start + .seconds(time)) {
                created += 1
                return created
            }
        }
    }

    /// A connection to one server must not be idle for longer because other requests use the session of the connection.
    @Test func frequentUseDoesNotExtendTheTime() {
        #expect(values(at: [0, 1, 2.9, 3, 5, 5.9, 6]) == [1, 1, 1, 2, 2, 2, 3])
    }

    @Test func aValueThatWasNotUsedForALongTimeIsReplaced() { #expect(values(at: [0, 3600]) == [1, 2]) }
}
