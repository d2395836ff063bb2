import AuthFlowHTTP

#if os(Linux)
import Synchronization

/// The body of an upload between the task that reads it and libcurl's thread: one part at a time.
final class CurlUpload: Sendable {
    /// The result of asking for bytes.
    enum Piece {
        case bytes(Int)
        /// None yet: ask again when there are.
        case none
        case end
        case failure(any Error)
    }

    private struct State {
        var part: ArraySlice<UInt8> = []
        /// The number of bytes that libcurl has taken.
        var taken = 0
        /// Whether libcurl waits for the next part.
        var isAwaited = false
        /// The result of reading the body.
        var end: Result<Void, any Error>?
        /// Whether nothing is read any more.
        var isOver = false
        var writer: CheckedContinuation<Void, Never>?
    }

    private let body: UploadBody
    private let state = Mutex(State())

    init(_ body: UploadBody) { self.body = body }

    /// The number of bytes; nil when it is not known in advance.
    var length: Int? { body.length }

    /// Whether libcurl waits for the next part.
    var isAwaited: Bool { state.withLock(\.isAwaited) }

    /// Reads the body until its end, or until nothing is wanted any more.
    /// - Parameter resume: Called when there is something to send again.
    /// - Throws: The error that ends the body early.
    func read(resume: @Sendable () -> Void) async throws {
        var end: Result<Void, any Error> = .success(())
        do {
            for try await part in body.parts where !part.isEmpty {
                guard await write(part, resume) else { return }
            }
            // A sequence may end like a whole one when its task is cancelled.
            try Task.checkCancellation()
        } catch {
            end = .failure(error)
        }
        let isAwaited = state.withLock { state in
            state.end = end
            return state.isAwaited
        }
        if isAwaited { resume() }
        try end.get()
    }

    /// Hands a part over, and waits until it has been taken.
    /// - Returns: false when nothing is wanted any more.
    private func write(_ part: [UInt8], _ resume: @Sendable () -> Void) async -> Bool {
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let (isOver, isAwaited) = state.withLock { state in
                    guard !state.isOver, !Task.isCancelled else { return (true, false) }
                    state.part = part[...]
                    state.writer = continuation
                    return (false, state.isAwaited)
                }
                if isOver { return continuation.resume() }
                if isAwaited { resume() }
            }
        } onCancel: {
            stop()
        }
        return state.withLock { !$0.isOver }
    }

    /// Takes the next bytes; called by libcurl's thread.
    func take(into buffer: UnsafeMutableRawBufferPointer) -> Piece {
        let (piece, writer) = state.withLock { state -> (Piece, CheckedContinuation<Void, Never>?) in
            state.isAwaited = false
            guard !state.part.isEmpty else {
                switch state.end {
                case nil:
                    state.isAwaited = true
                    return (.none, nil)
                case .success: return (isWhole(state.taken) ? .end : .failure(Self.wrongLength), nil)
                case .failure(let error): return (.failure(error), nil)
                }
            }
            let piece = state.part.prefix(buffer.count)
            state.taken += piece.count
            guard state.taken <= length ?? .max else { return (.failure(Self.wrongLength), nil) }
            unsafe buffer.copyBytes(from: piece)
            state.part = state.part.dropFirst(piece.count)
            guard state.part.isEmpty else { return (.bytes(piece.count), nil) }
            defer { state.writer = nil }
            return (.bytes(piece.count), state.writer)
        }
        writer?.resume()
        return piece
    }

    private func isWhole(_ taken: Int) -> Bool { length.map { $0 == taken } ?? true }

    /// RFC 9112 section 6.3: a body that is shorter than its Content-Length is incomplete.
    private static let wrongLength = AuthError(
        .networkFailed,
        "The request's body does not have the length that it was announced with."
    )

    /// Ends the reading: nothing is wanted any more.
    func stop() {
        let writer = state.withLock { state in
            state.isOver = true
            defer { state.writer = nil }
            return state.writer
        }
        writer?.resume()
    }
}
#endif
