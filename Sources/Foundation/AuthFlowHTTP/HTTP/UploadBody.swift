/// A streamed request body, such as a large upload. It can be read only once, so the request is never retried.
///
/// A pending read of ``parts`` must return when its task is cancelled, because the request waits for that read.
public struct UploadBody: Sendable {
    /// The parts. Reading throws an error if the body ends early; the request then fails.
    public let parts: any AsyncSequence<[UInt8], any Error> & Sendable

    /// The number of bytes; nil if unknown, in which case chunked transfer coding is used (RFC 9112 section 7.1).
    public let length: Int?

    /// Creates a body.
    public init(_ parts: any AsyncSequence<[UInt8], any Error> & Sendable, length: Int? = nil) {
        self.parts = parts
        self.length = length
    }

    /// Reads the whole body.
    /// - Throws: The error that ends the body early; `CancellationError` when the task is cancelled, because a sequence may then end as if it
    ///   were complete.
    package func collected() async throws -> [UInt8] {
        var bytes: [UInt8] = []
        for try await part in parts { bytes += part }
        try Task.checkCancellation()
        return bytes
    }
}

/// The cause of the error of a request whose body has stalled: not the server, but the source of the body sent nothing in time.
package struct UploadStalled: Error {
    package init() {}
}
