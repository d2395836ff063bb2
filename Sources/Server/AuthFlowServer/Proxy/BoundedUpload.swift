import AuthFlow

/// The parts of an upload, limited to a maximum size and a maximum duration. An upload that ends early is never mistaken for a complete one.
struct BoundedUpload: AsyncSequence, Sendable {
    /// Thrown when the upload exceeds the maximum size; the part that exceeds it is not returned.
    struct TooLarge: Error {}
    /// Thrown when the upload exceeds the maximum duration.
    struct TooSlow: Error {}
    /// Thrown when the upload cannot be read to its end, or its size differs from its length: usually, the browser has closed its connection.
    struct EndedEarly: Error {}

    let parts: any AsyncSequence<[UInt8], any Error> & Sendable
    /// The number of bytes; nil if unknown.
    let length: Int?
    let maximumSize: Int
    let maximumDuration: Duration
    let clock: any Clock<Duration>

    struct AsyncIterator: AsyncIteratorProtocol {
        fileprivate var parts: any AsyncIteratorProtocol<[UInt8], any Error>
        fileprivate var room: Int
        /// The number of bytes that are still to come; nil if unknown.
        fileprivate var rest: Int?
        fileprivate let maximumDuration: Duration
        fileprivate let elapsed: @Sendable () -> Duration

        mutating func next(isolation actor: isolated (any Actor)?) async throws -> [UInt8]? {
            let received: [UInt8]?
            do {
                received = try await parts.next(isolation: actor)
            } catch let error as CancellationError {
                throw error
            } catch {
                throw EndedEarly()
            }
            guard let part = received else {
                // When its task is cancelled, a sequence may end as if it were complete.
                try Task.checkCancellation()
                guard rest ?? 0 == 0 else { throw EndedEarly() }
                return nil
            }
            room -= part.count
            rest = rest.map { $0 - part.count }
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
            rest: length,
            maximumDuration: maximumDuration,
            elapsed: clock.stopwatch()
        )
    }
}
