import AuthFlow

/// The parts of an upload, limited to a maximum size and a maximum duration.
struct BoundedUpload: AsyncSequence, Sendable {
    /// Thrown when the upload exceeds the maximum size; the part that exceeds it is not returned.
    struct TooLarge: Error {}
    /// Thrown when the upload exceeds the maximum duration.
    struct TooSlow: Error {}

    let parts: any AsyncSequence<[UInt8], any Error> & Sendable
    let maximumSize: Int
    let maximumDuration: Duration
    let clock: any Clock<Duration>

    struct AsyncIterator: AsyncIteratorProtocol {
        fileprivate var parts: any AsyncIteratorProtocol<[UInt8], any Error>
        fileprivate var room: Int
        fileprivate let maximumDuration: Duration
        fileprivate let elapsed: @Sendable () -> Duration

        mutating func next(isolation actor: isolated (any Actor)?) async throws -> [UInt8]? {
            guard let part = try await parts.next(isolation: actor) else { return nil }
            room -= part.count
            guard room >= 0 else { throw TooLarge() }
            // The transport limits the time between two parts.
            guard elapsed() <= maximumDuration else { throw TooSlow() }
            return part
        }
    }

    func makeAsyncIterator() -> AsyncIterator {
        AsyncIterator(
            parts: parts.makeAsyncIterator(),
            room: maximumSize,
            maximumDuration: maximumDuration,
            elapsed: clock.stopwatch()
        )
    }
}
