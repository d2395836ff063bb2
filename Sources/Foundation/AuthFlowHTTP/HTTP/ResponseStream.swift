public import HTTPTypes
import Synchronization

/// A response whose status and headers have arrived, and whose body arrives in parts.
public struct ResponseStream: Sendable {
    /// The status and header fields.
    public let head: HTTPResponse

    /// The body. The request is cancelled when the last reference to the body is released.
    public let body: ResponseBody

    /// The scope of the peer's address; nil when the transport does not report it, or a proxy is used.
    package var reach: NetworkReach?

    /// Creates a response.
    public init(head: HTTPResponse, body: ResponseBody) {
        self.head = head
        self.body = body
    }
}

/// The body of a response, in parts as they arrive, for a single reader.
public final class ResponseBody: AsyncSequence, Sendable {
    private struct State {
        var parts: [[UInt8]] = []
        var size = 0
        var end: Result<Void, any Error>?
        var reader: CheckedContinuation<[UInt8]?, any Error>?
        var cancel: (@Sendable () -> Void)?
        /// Resumes delivery of the body, which is paused while the buffer is full.
        var resume: (@Sendable () -> Void)?
        var isPaused = false
        var attachment: (any AnyObject & Sendable)?
    }

    private let state = Mutex(State())
    private let limit: Int

    /// The maximum size of a part that is joined from smaller parts, in bytes.
    private static let maximumJoinedPartSize = 64 * 1024

    /// Creates a body.
    /// - Parameter limit: The maximum number of bytes that have arrived but have not been read yet.
    public init(limit: Int) { self.limit = limit }

    /// Creates a complete body.
    public convenience init(_ bytes: [UInt8]) {
        self.init(limit: bytes.count)
        append(bytes)
        finish()
    }

    deinit { cancel() }

    /// Sets the callback that aborts the request before the response is complete. It is called at most once.
    public func onCancel(_ cancel: @escaping @Sendable () -> Void) {
        state.withLock { if $0.end == nil { $0.cancel = cancel } }
    }

    /// Sets the callback that offers a deferred part again, once there is space in the buffer.
    package func onSpaceAvailable(_ resume: @escaping @Sendable () -> Void) { state.withLock { $0.resume = resume } }

    /// Retains an object for as long as the body exists.
    package func attach(_ object: any AnyObject & Sendable) { state.withLock { $0.attachment = object } }

    /// The result of offering a part.
    package enum Offer: Sendable {
        case accepted
        /// The buffer is full. The part must be offered again later: see ``onSpaceAvailable(_:)``.
        case bufferFull
        /// The body is no longer being read.
        case ended
    }

    /// Offers a part to a reader that may be slower than the server.
    package func offer(_ part: [UInt8]) -> Offer {
        let isFull = state.withLock { state in
            // An empty buffer accepts a part of any size, even if it is larger than the limit.
            guard state.end == nil, state.size > 0, state.size + part.count > limit else { return false }
            state.isPaused = true
            return true
        }
        guard !isFull else { return .bufferFull }
        return append(part, isBounded: false) ? .accepted : .ended
    }

    /// Adds a part.
    /// - Returns: false when the part does not fit, or the body is no longer being read.
    @discardableResult public func append(_ part: [UInt8]) -> Bool { append(part, isBounded: true) }

    private func append(_ part: [UInt8], isBounded: Bool) -> Bool {
        guard !part.isEmpty else { return true }
        let (isTaken, reader) = state.withLock { state -> (Bool, CheckedContinuation<[UInt8]?, any Error>?) in
            guard state.end == nil else { return (false, nil) }
            if let reader = state.reader {
                state.reader = nil
                return (true, reader)
            }
            guard !isBounded || state.size + part.count <= limit else { return (false, nil) }
            state.size += part.count
            // Small parts are joined, because every array adds overhead.
            // Only the size is read: another reference to the last part would cause a copy of that part for each small part.
            if let size = state.parts.last?.count, size + part.count <= Self.maximumJoinedPartSize {
                state.parts[state.parts.count - 1] += part
            } else {
                state.parts.append(part)
            }
            return (true, nil)
        }
        reader?.resume(returning: part)
        return isTaken
    }

    /// Ends the body.
    /// - Parameter error: The reason why the body is incomplete; default: nil, for a complete body.
    public func finish(throwing error: (any Error)? = nil) {
        let reader = state.withLock { state -> CheckedContinuation<[UInt8]?, any Error>? in
            guard state.end == nil else { return nil }
            state.end = error.map { .failure($0) } ?? .success(())
            (state.cancel, state.resume) = (nil, nil)
            defer { state.reader = nil }
            return state.reader
        }
        if let error { reader?.resume(throwing: error) } else { reader?.resume(returning: nil) }
    }

    /// Aborts the request. Data that has already arrived can still be read.
    /// - Parameter error: The error that subsequent reads throw; default: `CancellationError`.
    public func cancel(throwing error: any Error = CancellationError()) {
        let cancel = state.withLock { state in
            defer { state.cancel = nil }
            return state.cancel
        }
        finish(throwing: error)
        cancel?()
    }

    /// Reads the next part; nil at the end.
    fileprivate func next() async throws -> [UInt8]? {
        try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { continuation in
                let (result, resume) = state.withLock {
                    state -> (Result<[UInt8]?, any Error>?, (@Sendable () -> Void)?) in
                    var result: Result<[UInt8]?, any Error>?
                    if !state.parts.isEmpty {
                        let part = state.parts.removeFirst()
                        state.size -= part.count
                        result = .success(part)
                    } else if let end = state.end {
                        result = end.map { nil }
                    } else {
                        state.reader = continuation
                    }
                    guard state.isPaused, state.size <= limit / 2 else { return (result, nil) }
                    state.isPaused = false
                    return (result, state.resume)
                }
                resume?()
                if let result { continuation.resume(with: result) }
            }
        } onCancel: {
            cancel()
        }
    }

    /// Reads the rest of the body.
    /// - Parameter limit: The maximum number of bytes.
    /// - Throws: ``AuthError`` with `invalid_response` when the body is larger.
    public func collect(upTo limit: Int) async throws -> [UInt8] {
        var bytes: [UInt8] = []
        for try await part in self {
            bytes += part
            guard bytes.count <= limit else {
                cancel()
                throw AuthError(.invalidResponse, "The response is larger than \(limit) bytes.")
            }
        }
        return bytes
    }

    public struct AsyncIterator: AsyncIteratorProtocol {
        let body: ResponseBody
        public func next() async throws -> [UInt8]? { try await body.next() }
    }

    public func makeAsyncIterator() -> AsyncIterator { AsyncIterator(body: self) }
}
