#if os(Linux)
import AuthFlow
import HTTPTypes
import Synchronization
import Testing

@testable import AuthFlowTransport

/// Requests whose bodies are streamed.
@Suite(.timeLimit(.minutes(1))) struct UploadTests {
    private typealias Parts = AsyncThrowingStream<[UInt8], any Error>

    private static let ok = ScriptedServer.Step.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")

    private struct Unreadable: Error {}

    private struct Reply: Equatable {
        let status: Int
        let body: String
    }

    private static func send(
        _ parts: Parts,
        length: Int? = nil,
        to server: ScriptedServer,
        timeout: Duration = .seconds(20)
    ) async throws -> Reply {
        let request = TransportRequest(.post, try Endpoint("\(server.origin)/upload"), timeout: timeout)
        let response = try await SystemTransport().stream(request, body: UploadBody(parts, length: length))
        let body = try await response.body.collect(upTo: 100)
        return Reply(status: response.head.status.code, body: String(decoding: body, as: UTF8.self))
    }

    private static func whole(_ parts: String...) -> Parts {
        Parts { continuation in
            for part in parts { continuation.yield(Array(part.utf8)) }
            continuation.finish()
        }
    }

    @Test func sendsEachPartOfAStreamedBodyAsSoonAsItIsAvailable() async throws {
        let server = try ScriptedServer([.receiveHead, .receiveBytes(5), .receiveBytes(6), Self.ok, .hold])
        defer { server.stop() }
        let (parts, continuation) = Parts.makeStream()
        async let response = Self.send(parts, length: 11, to: server)
        continuation.yield(Array("first".utf8))
        await server.untilReceived(2)
        #expect(server.requests.first?.last == "first")
        continuation.yield(Array("second".utf8))
        continuation.finish()
        let reply = try await response
        #expect(reply == Reply(status: 200, body: "ok"))
        #expect(server.requests.first?[0].contains("Content-Length: 11\r\n") == true)
        #expect(server.requests.first?[2] == "second")
    }

    @Test func aBodyOfUnknownLengthIsSentInChunks() async throws {
        let chunks = "5\r\nfirst\r\n0\r\n\r\n"
        try await ScriptedServer.run([.receiveHead, .receiveBytes(chunks.utf8.count), Self.ok, .hold]) { server in
            let reply = try await Self.send(Self.whole("first"), to: server)
            #expect(reply == Reply(status: 200, body: "ok"))
            let received = server.requests.first ?? []
            #expect(received.last == chunks)
            #expect(received.first?.contains("Transfer-Encoding: chunked\r\n") == true)
            #expect(received.first?.lowercased().contains("expect:") == false)
        }
    }

    @Test(arguments: [nil, 0]) func anEmptyStreamedBodyIsSent(length: Int?) async throws {
        let end = length == nil ? "0\r\n\r\n" : ""
        try await ScriptedServer.run([.receiveHead, .receiveBytes(end.utf8.count), Self.ok, .hold]) { server in
            let reply = try await Self.send(Self.whole(), length: length, to: server)
            #expect(reply == Reply(status: 200, body: "ok"))
            #expect(server.requests.first?.last == end)
        }
    }

    /// Otherwise, the timeout for the rest of the body would also end a response that takes longer.
    @Test(arguments: [(0, false), (1, true), (nil, true)] as [(Int?, Bool)])
    func onlyAnUploadThatIsNotEmptyIsUnfinishedAtItsStart(length: Int?, isUnfinished: Bool) {
        #expect(CurlUpload(UploadBody(Self.whole(), length: length)).isUnfinished == isUnfinished)
    }

    /// Responses that reject a request before its body has ended, with different ways to end the response.
    private static let rejections = [
        "a length": "HTTP/1.1 413 No\r\nContent-Length: 2\r\n\r\n",
        "a close": "HTTP/1.1 413 No\r\nConnection: close\r\n\r\n",
        "a length and a close": "HTTP/1.1 413 No\r\nConnection: close\r\nContent-Length: 2\r\n\r\n",
        "HTTP/1.0": "HTTP/1.0 413 No\r\n\r\n",
        "an authentication challenge": "HTTP/1.1 401 No\r\nConnection: close\r\n\r\n",
    ]

    private struct Rejection: CustomTestStringConvertible {
        let name: String
        let head: String
        let length: Int?
        /// Whether further parts of the body are queued; if not, the sender pauses after the first part.
        let isFast: Bool

        var testDescription: String { "\(name), \(length == nil ? "chunks" : "a length"), \(isFast ? "fast" : "slow")" }

        static var all: [Rejection] {
            rejections.sorted { $0.key < $1.key }.flatMap { name, head in
                [nil, 1 << 26].flatMap { length in
                    [false, true].map { Rejection(name: name, head: head, length: length, isFast: $0) }
                }
            }
        }
    }

    @Test(arguments: Rejection.all) private func anEarlyRejectionIsReceivedCompletely(_ rejection: Rejection)
        async throws
    {
        try await ScriptedServer.run([
            .receiveHead, .receiveBytes(5), .send(rejection.head), .pause, .send("no"), .finish, .stall,
        ]) { server in
            let (parts, continuation) = Parts.makeStream()
            continuation.yield(Array("12345".utf8))
            if rejection.isFast {
                for _ in 0..<32 { continuation.yield([UInt8](repeating: 0, count: 1 << 20)) }
            }
            let reply = try await Self.send(parts, length: rejection.length, to: server)
            #expect(reply.body == "no")
            #expect(reply.status == (rejection.name.contains("authentication") ? 401 : 413))
            continuation.finish()
        }
    }

    @Test func anEarlyResponseDoesNotStopTheUpload() async throws {
        let server = try ScriptedServer([.receiveHead, Self.ok, .receiveBytes(5), .receiveBytes(6), .hold])
        defer { server.stop() }
        let (parts, continuation) = Parts.makeStream()
        async let response = Self.send(parts, length: 11, to: server)
        continuation.yield(Array("first".utf8))
        await server.untilReceived(2)
        continuation.yield(Array("second".utf8))
        continuation.finish()
        let reply = try await response
        #expect(reply == Reply(status: 200, body: "ok"))
        await server.untilReceived(3)
    }

    @Test(arguments: [nil, 10]) func aFailedBodyStreamDoesNotAppearCompleteToTheServer(length: Int?) async throws {
        // A complete body would have five more bytes: the rest, or the final chunk.
        let begun = length == nil ? "5\r\nfirst\r\n" : "first"
        let server = try ScriptedServer([.receiveHead, .receiveBytes(begun.utf8.count), .receiveBytes(5), .hold])
        defer { server.stop() }
        let (parts, continuation) = Parts.makeStream()
        let response = Task { try await Self.send(parts, length: length, to: server).status }
        continuation.yield(Array("first".utf8))
        await server.untilReceived(2)
        continuation.finish(throwing: Unreadable())
        let error = await #expect(throws: AuthError.self) { _ = try await response.value }
        #expect(error?.code == .networkFailed)
        #expect(error?.underlyingError is Unreadable)
        await server.allClosed()
        #expect(server.requests.map { $0.dropFirst() } == [[begun]])
    }

    @Test(arguments: ["shorter": 6, "longer": 4])
    func aBodyThatDoesNotMatchItsDeclaredLengthFails(_: String, length: Int) async throws {
        try await ScriptedServer.run([.receive, Self.ok, .hold]) { server in
            let error = await #expect(throws: AuthError.self) {
                _ = try await Self.send(Self.whole("first"), length: length, to: server)
            }
            #expect(error?.code == .networkFailed)
            #expect(error?.message.contains("ended early") == true)
        }
    }

    /// The server would parse the excess bytes as its next request.
    @Test func aPartThatExceedsTheDeclaredLengthIsNotSent() async throws {
        let server = try ScriptedServer([.receiveHead, .receiveBytes(3), .receiveBytes(1), .hold])
        defer { server.stop() }
        let (parts, continuation) = Parts.makeStream()
        let response = Task { try await Self.send(parts, length: 4, to: server).status }
        continuation.yield(Array("one".utf8))
        await server.untilReceived(2)
        continuation.yield(Array("two".utf8))
        continuation.finish()
        let error = await #expect(throws: AuthError.self) { _ = try await response.value }
        #expect(error?.code == .networkFailed)
        #expect(error?.message.contains("ended early") == true)
        await server.allClosed()
        #expect(server.requests.map { $0.dropFirst() } == [["one"]])
    }

    /// libcurl takes such a part in several steps.
    @Test func aPartLargerThanTheSendBufferIsSentCompletely() async throws {
        let parts = ["a", "b"].map { String(repeating: $0, count: 250_000) }
        try await ScriptedServer.run([.receiveHead, .receiveBytes(500_000), Self.ok, .hold]) { server in
            let reply = try await Self.send(Self.whole(parts[0], parts[1]), length: 500_000, to: server)
            #expect(reply == Reply(status: 200, body: "ok"))
            let isWhole = server.requests.first?.last == parts.joined()
            #expect(isWhole)
        }
    }

    /// Takes the next bytes of a body, as libcurl does, but at most four.
    private static func take(from upload: CurlUpload) -> String {
        let piece = unsafe withUnsafeTemporaryAllocation(byteCount: 4, alignment: 1) { buffer in
            unsafe upload.take(into: buffer)
        }
        return switch piece {
        case .bytes(let count): "\(count) bytes"
        case .none: "nothing yet"
        case .end: "the end"
        case .failure(let error): "\(error)"
        }
    }

    /// The server must not mistake the part that it has received for the whole body.
    @Test func theRestOfARejectedBodyIsReadButItsEndIsNotSent() async {
        let left = Mutex(["first", "second"])
        let parts = Parts(unfolding: {
            left.withLock { left -> [UInt8]? in left.isEmpty ? nil : Array(left.removeFirst().utf8) }
        })
        let upload = CurlUpload(UploadBody(parts))
        upload.reject()
        await upload.read {}
        #expect(left.withLock { $0.isEmpty })
        #expect(upload.failure == nil)
        #expect(Self.take(from: upload) == "nothing yet")
    }

    @Test func aBodyThatHasBeenSentCompletelyIsNotRejected() async {
        let upload = CurlUpload(UploadBody(Self.whole("body"), length: 4))
        let reading = Task { await upload.read {} }
        while Self.take(from: upload) != "4 bytes" { await Task.yield() }
        await reading.value
        upload.reject()
        #expect(!upload.isRejected)
        #expect(Self.take(from: upload) == "the end")
    }

    @Test func anUploadThatIsAlreadyCancelledDoesNotWaitForTheServer() async {
        let upload = CurlUpload(UploadBody(Self.whole("first")))
        let reading = Task {
            unsafe withUnsafeCurrentTask { unsafe $0?.cancel() }
            await upload.read {}
        }
        await reading.value
        #expect(upload.failure is CancellationError)
    }

    @Test func appliesBackpressureAndTimesOutIfTheServerStopsReading() async throws {
        try await ScriptedServer.run([.receiveHead, .stall]) { server in
            let produced = Mutex(0)
            let parts = Parts {
                produced.withLock { $0 += 1 }
                return [UInt8](repeating: 0, count: 1 << 20)
            }
            let error = await #expect(throws: AuthError.self) {
                _ = try await Self.send(parts, to: server, timeout: .milliseconds(300))
            }
            #expect(error?.code == .timedOut)
            // This limit in MiB allows for the kernel's socket buffers and the queued part.
            #expect(produced.withLock { $0 } < 64)
        }
    }

    @Test func aStalledBodyStreamTimesOut() async throws {
        try await ScriptedServer.run([.receiveHead, .hold]) { server in
            let (parts, continuation) = Parts.makeStream()
            continuation.yield(Array("first".utf8))
            let error = await #expect(throws: AuthError.self) {
                _ = try await Self.send(parts, to: server, timeout: .milliseconds(200))
            }
            #expect(error?.code == .timedOut)
            #expect(error?.message.contains("stalled for") == true)
        }
    }

    @Test func timesOutIfNoResponseFollowsTheBody() async throws {
        try await ScriptedServer.run([.receiveHead, .hold]) { server in
            let error = await #expect(throws: AuthError.self) {
                _ = try await Self.send(Self.whole("first"), to: server, timeout: .milliseconds(200))
            }
            #expect(error?.code == .timedOut)
        }
    }

    @Test func anUploadIsNotRetriedAfterAConnectionReset() async throws {
        try await ScriptedServer.run([.receiveHead, .reset], [.receive, Self.ok, .hold]) { server in
            let (parts, continuation) = Parts.makeStream()
            continuation.yield(Array("first".utf8))
            let error = await #expect(throws: AuthError.self) { _ = try await Self.send(parts, to: server) }
            #expect(error?.code == .networkFailed)
            #expect(error?.message.contains("certificate") == false)
            #expect(server.requests.count == 1)
            continuation.finish()
        }
    }

    @Test func anUploadDoesNotReuseAConnectionThatMayBeClosed() async throws {
        // The server closes the first connection after its response, without announcing it.
        try await ScriptedServer.run([.receive, Self.ok], [.receive, Self.ok, .hold]) { server in
            let first = try await Self.send(Self.whole("first"), length: 5, to: server)
            #expect(first == Reply(status: 200, body: "ok"))
            let second = try await Self.send(Self.whole("second"), length: 6, to: server)
            #expect(second == Reply(status: 200, body: "ok"))
            #expect(server.requests.count == 2)
        }
    }

    /// The server responds and stops reading, and the body never ends.
    @Test func theUploadTimeoutAppliesAfterAnEarlyResponse() async throws {
        try await ScriptedServer.run([.receiveHead, Self.ok, .hold]) { server in
            let (parts, continuation) = Parts.makeStream()
            continuation.yield(Array("first".utf8))
            let error = await #expect(throws: AuthError.self) {
                _ = try await Self.send(parts, to: server, timeout: .milliseconds(200))
            }
            #expect(error?.code == .timedOut)
        }
    }

    @Test(arguments: [HTTPRequest.Method.get, .put, .post, .delete]) func anUploadUsesTheMethodOfTheRequest(
        _ method: HTTPRequest.Method
    ) async throws {
        try await ScriptedServer.run([.receive, Self.ok, .hold]) { server in
            let request = TransportRequest(method, try Endpoint("\(server.origin)/upload"))
            _ = try await SystemTransport().stream(request, body: UploadBody(Self.whole("first"), length: 5))
            #expect(server.requests[0][0].hasPrefix("\(method.rawValue) /upload HTTP/1.1\r\n"))
        }
    }

    @Test func cancellingAnUploadClosesTheConnection() async throws {
        let server = try ScriptedServer([.receiveHead, .hold])
        defer { server.stop() }
        let (parts, continuation) = Parts.makeStream()
        continuation.yield(Array("first".utf8))
        let upload = Task { try await Self.send(parts, to: server) }
        await server.untilReceived(1)
        upload.cancel()
        await #expect(throws: CancellationError.self) { _ = try await upload.value }
        await server.allClosed()
    }

    @Test func aTransportWithoutStreamingSendsTheBufferedBody() async throws {
        struct Echo: HTTPTransport {
            func send(_ call: TransportRequest) async throws -> TransportResponse {
                TransportResponse(head: HTTPResponse(status: .ok), body: call.body)
            }
        }
        let request = TransportRequest(.post, Endpoint("https://api.example/"))
        let response = try await Echo().stream(request, body: UploadBody(Self.whole("first", "second")))
        let body = try await response.body.collect(upTo: 100)
        #expect(body == Array("firstsecond".utf8))
        let error = await #expect(throws: AuthError.self) {
            _ = try await Echo().stream(request, body: UploadBody(Parts { $0.finish(throwing: Unreadable()) }))
        }
        #expect(error?.underlyingError is Unreadable)
    }
}
#endif
