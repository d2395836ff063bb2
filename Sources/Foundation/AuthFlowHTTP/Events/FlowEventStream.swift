import Synchronization

/// An observer that lets any number of readers follow a client's events.
///
/// ```swift
/// let events = FlowEventStream()
/// let client = try makeClient(observer: events.observer)
/// for await event in events.stream() where event.step == .sessionEnd { askToSignIn() }
/// ```
public final class FlowEventStream: Sendable {
    private let readers = Mutex<[UInt64: AsyncStream<FlowEvent>.Continuation]>([:])
    private let last = Atomic<UInt64>(0)

    /// Creates a stream without readers.
    public init() {}

    /// The observer to pass to a client.
    public var observer: @Sendable (FlowEvent) -> Void {
        { [self] event in
            for reader in readers.withLock({ Array($0.values) }) { reader.yield(event) }
        }
    }

    /// Returns a stream of subsequent events.
    /// - Parameter limit: The maximum number of events buffered for a slow reader; the oldest are dropped first.
    public func stream(keeping limit: Int = 1000) -> AsyncStream<FlowEvent> {
        let (stream, continuation) = AsyncStream<FlowEvent>.makeStream(bufferingPolicy: .bufferingNewest(limit))
        let id = last.add(1, ordering: .relaxed).newValue
        readers.withLock { $0[id] = continuation }
        continuation.onTermination = { [self] _ in readers.withLock { $0[id] = nil } }
        return stream
    }
}
