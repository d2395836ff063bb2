import AuthFlow
import Synchronization

/// Sends the configured `User-Agent`, and records requests and responses without secrets.
struct HeadlessTransport: HTTPTransport {
    let base: any HTTPTransport
    let userAgentString: String?
    let transcript: Transcript?

    func send(_ call: TransportRequest) async throws -> TransportResponse {
        var call = call
        if let userAgentString { call.head.headerFields[.userAgent] = userAgentString }
        try transcript?.begin()
        transcript?.write(RedactedMessage(call), mark: ">")
        do {
            let response = try await base.send(call)
            transcript?.write(RedactedMessage(response), mark: "<")
            return response
        } catch {
            transcript?.write("< \((error as? AuthError)?.description ?? "no response")")
            throw error
        }
    }
}

/// A transcript file of a visit, for diagnosing why a page could not be processed.
final class Transcript: Sendable {
    /// The first line of a transcript file. A file without this line is not overwritten.
    private static let mark = "# Transcript of a visit, written by AuthFlow\n"

    private let path: String
    private let text = Mutex(Transcript.mark)

    init(path: String) { self.path = path }

    func write(_ message: RedactedMessage, mark: String) {
        let parameters = message.parameters.map { "    \($0.name): \($0.value)\n" }.joined()
        write("\(mark) \(message.title)\n\(parameters)")
    }

    /// Creates the file before the first request.
    /// - Throws: ``/AuthFlow/AuthError`` with `storage_failed` when the file cannot be written, or already exists and is not a transcript.
    func begin() throws(AuthError) {
        let isFirst = text.withLock { $0 == Self.mark }
        guard isFirst else { return }
        do throws(AuthError) {
            try PrivateFile(path).write(Array(Self.mark.utf8), markedBy: Array(Self.mark.utf8))
        } catch {
            throw error.withMessage(
                "No request was sent, because the transcript cannot be written. \(error.message)",
                because: error
            )
        }
    }

    /// Appends an entry to the file. A failed write does not stop the sign-in.
    func write(_ entry: String) {
        let all = text.withLock { text in
            text += entry.hasSuffix("\n") ? entry : "\(entry)\n"
            return text
        }
        try? PrivateFile(path).write(Array(all.utf8), markedBy: Array(Self.mark.utf8))
    }
}
