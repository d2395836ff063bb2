import AuthFlowHTTP

#if os(Linux)
import Synchronization

/// Passes the body of an upload from the task that reads it to libcurl's thread, one part at a time.
final class CurlUpload: Sendable {
    /// The result of a request for bytes.
    enum Piece {
        case bytes(Int)
        /// No bytes are available yet. They must be requested again later.
        case none
        case end
        case failure(any Error)
    }

    private struct State {
        var part: ArraySlice<UInt8> = []
        /// The number of bytes that libcurl has sent.
        var sent = 0
        /// Whether libcurl is waiting for the next part.
        var isAwaited = false
        /// Whether libcurl has sent the whole body.
        var isComplete = false
        /// The result of reading the body.
        var end: Result<Void, any Error>?
        /// Whether the server has rejected the rest of the body, which is read and discarded.
        var isRejected = false
        /// Whether the transfer has ended.
        var isOver = false
        var writer: CheckedContinuation<Void, Never>?
    }

    private let body: UploadBody
    private let state: Mutex<State>
    private let end = FirstResult<Void>()

    init(_ body: UploadBody) {
        self.body = body
        // libcurl never requests the bytes of an empty body.
        self.state = Mutex(State(isComplete: body.length == 0))
    }

    /// The number of bytes; nil when it is not known in advance.
    var length: Int? { body.length }

    /// Whether libcurl is waiting for the next part.
    var isAwaited: Bool { state.withLock(\.isAwaited) }

    /// Whether the server has rejected the request before the end of its body.
    var isRejected: Bool { state.withLock(\.isRejected) }

    /// Whether part of the body remains to be sent, and the server has not rejected the request.
    var isUnfinished: Bool { state.withLock { !$0.isComplete && !$0.isRejected } }

    /// Reads the body until its end, or until the transfer has ended.
    /// - Parameter resume: Called when more bytes are available to send.
    func read(resume: @Sendable () -> Void) async {
        var end: Result<Void, any Error> = .success(())
        do {
            var count = 0
            for try await part in body.parts where !part.isEmpty {
                count += part.count
                guard count <= length ?? .max else { throw Self.contentLengthMismatch }
                guard await write(part, resume) else { return }
            }
            // When its task is cancelled, a sequence may end as if it were complete.
            try Task.checkCancellation()
            guard count == length ?? count else { throw Self.contentLengthMismatch }
        } catch {
            end = .failure(error)
        }
        let isAwaited = state.withLock { state in
            state.end = end
            return state.isAwaited
        }
        if isAwaited { resume() }
    }

    /// The error that ended the body early; nil if none.
    var failure: (any Error)? {
        state.withLock { state in
            if case .failure(let error) = state.end { error } else { nil }
        }
    }

    /// RFC 9112 section 8: a request whose body is shorter than its Content-Length is incomplete.
    private static let contentLengthMismatch = AuthError(
        .networkFailed,
        "The request body size differs from its Content-Length."
    )

    /// Passes a part to libcurl, and waits until it has been sent.
    /// - Returns: false when the transfer has ended.
    private func write(_ part: [UInt8], _ resume: @Sendable () -> Void) async -> Bool {
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let (isOver, isAwaited) = state.withLock { state in
                    guard !state.isOver, !state.isRejected, !Task.isCancelled else { return (true, false) }
                    state.part = part[...]
                    state.writer = continuation
                    return (false, state.isAwaited)
                }
                if isOver { return continuation.resume() }
                if isAwaited { resume() }
            }
        } onCancel: {
            // The rest of the part is not sent, and reading the body then fails.
            release { $0.part = [] }
        }
        return state.withLock { !$0.isOver }
    }

    /// Copies the next bytes into a buffer; called by libcurl's thread.
    func take(into buffer: UnsafeMutableRawBufferPointer) -> Piece {
        let (piece, writer) = state.withLock { state -> (Piece, CheckedContinuation<Void, Never>?) in
            // libcurl continues to send a rejected request if the response is delimited by the close of the connection.
            guard !state.isRejected else { return (.none, nil) }
            state.isAwaited = false
            guard !state.part.isEmpty else {
                switch state.end {
                case nil:
                    state.isAwaited = true
                    return (.none, nil)
                case .success:
                    state.isComplete = true
                    return (.end, nil)
                case .failure(let error): return (.failure(error), nil)
                }
            }
            let piece = state.part.prefix(buffer.count)
            state.sent += piece.count
            // libcurl does not request the end of a body whose length it knows.
            if state.sent == length { state.isComplete = true }
            unsafe buffer.copyBytes(from: piece)
            state.part = state.part.dropFirst(piece.count)
            guard state.part.isEmpty else { return (.bytes(piece.count), nil) }
            defer { state.writer = nil }
            return (.bytes(piece.count), state.writer)
        }
        writer?.resume()
        return piece
    }

    /// Stops sending the body, because the server has rejected the request.
    func reject() {
        guard isUnfinished else { return }
        release {
            $0.isRejected = true
            $0.part = []
        }
    }

    /// Stops reading the body, because the transfer has ended.
    func stop() {
        release { $0.isOver = true }
        end.finish(.success(()))
    }

    private func release(_ change: (inout State) -> Void) {
        let writer = state.withLock { state in
            change(&state)
            defer { state.writer = nil }
            return state.writer
        }
        writer?.resume()
    }

    /// Waits until the transfer has ended, or the task is cancelled.
    func waitForEnd() async { try? await end.value(begin: {}) }
}
#endif
