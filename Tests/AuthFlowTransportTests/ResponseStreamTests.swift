#if os(Linux)
import AuthFlow
import Expectations
import HTTPTypes
import Synchronization
import Testing

/// Responses that are read while they arrive.
@Suite(.timeLimit(.minutes(1))) struct ResponseStreamTests {
    private static let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"

    private static func request(
        _ server: ScriptedServer,
        timeout: Duration = .seconds(20),
        limit: Int = 1 << 20
    ) throws -> TransportRequest {
        TransportRequest(.get, try Endpoint("\(server.origin)/stream"), timeout: timeout, maximumResponseSize: limit)
    }

    @Test func returnsTheHeadersBeforeTheBodyIsComplete() async throws {
        let server = try ScriptedServer([.receive, .send(Self.head + "data: a\n\n"), .hold])
        let response = try await SystemTransport().stream(try Self.request(server))
        #expect(response.head.status == .ok)
        for try await part in response.body {
            #expect(String(decoding: part, as: UTF8.self) == "data: a\n\n")
            break
        }
        // When the client stops reading, the connection is closed, which also ends the transfer at the server.
        response.body.cancel()
        server.stop()
    }

    @Test func aBodyThatIsNotReadIsBufferedOnlyUpToTheLimit() async throws {
        let server = try ScriptedServer([
            .receive, .send(Self.head), .flood(String(repeating: "x", count: 4096)), .hold,
        ])
        let response = try await SystemTransport().stream(try Self.request(server, limit: 100_000))
        // The body is not read until the limit has been reached. After that, no more data is accepted.
        while response.body.append([0]) { await Task.yield() }
        let error = await #expect(throws: AuthError.self) { _ = try await response.body.collect(upTo: 1 << 30) }
        #expect(error?.code == .invalidResponse)
        server.stop()
    }

    @Test func backpressureAllowsABodyLargerThanTheBuffer() async throws {
        let size = 16 * 1024 * 1024
        let digits = Array("0123456789abcdef".utf8)
        let body = String(repeating: String(decoding: digits, as: UTF8.self), count: size / 16)
        let server = try ScriptedServer([
            .receive, .send("HTTP/1.1 200 OK\r\nContent-Length: \(size)\r\n\r\n\(body)"), .hold,
        ])
        var request = try Self.request(server, limit: 64 * 1024)
        request.appliesBackpressure = true
        let response = try await SystemTransport().stream(request)
        var received = 0
        var isWhole = true
        for try await part in response.body {
            isWhole = isWhole && part.indices.allSatisfy { part[$0] == digits[(received + $0) % 16] }
            received += part.count
        }
        #expect(received == size && isWhole)
        server.stop()
    }

    @Test func aChunkThatDoesNotFitIsHeldBackUntilTheBufferHasRoom() async throws {
        let body = ResponseBody(limit: 10)
        let (room, hasRoom) = AsyncStream<Void>.makeStream()
        body.onSpaceAvailable { hasRoom.yield() }
        #expect(body.offer(Array(repeating: 1, count: 5)) == .accepted)
        #expect(body.offer(Array(repeating: 1, count: 5)) == .accepted)
        #expect(body.offer([2, 2, 2]) == .bufferFull)
        #expect(body.offer([2, 2, 2]) == .bufferFull)
        let iterator = body.makeAsyncIterator()
        #expect(try await iterator.next()?.count == 10)
        for await _ in room { break }
        // A part of any size is accepted when the buffer is empty.
        #expect(body.offer(Array(repeating: 3, count: 100)) == .accepted)
        body.cancel()
        #expect(body.offer([4]) == .ended)
    }

    @Test func deliveryResumesOnceWhenAFullBufferHasBecomeHalfEmpty() async throws {
        // Parts of this size are not joined.
        let part = [UInt8](repeating: 1, count: 64 * 1024)
        let body = ResponseBody(limit: 3 * part.count)
        let resumptions = Mutex(0)
        body.onSpaceAvailable { resumptions.withLock { $0 += 1 } }
        for _ in 0..<3 { #expect(body.offer(part) == .accepted) }
        #expect(body.offer(part) == .bufferFull)
        let iterator = body.makeAsyncIterator()
        for expected in [0, 1, 1] {
            #expect(try await iterator.next()?.count == part.count)
            #expect(resumptions.withLock { $0 } == expected)
        }
    }

    @Test func aBodyLargerThanItsReaderAcceptsIsAborted() async throws {
        #expect(try await ResponseBody([1, 2, 3]).collect(upTo: 3) == [1, 2, 3])
        let body = ResponseBody(limit: 10)
        body.append([1, 2, 3])
        let error = await #expect(throws: AuthError.self) { try await body.collect(upTo: 2) }
        #expect(error?.code == .invalidResponse)
        #expect(error?.message == "The response is larger than 2 bytes.")
        #expect(!body.append([4]))
    }

    /// Otherwise, a truncated body could be mistaken for a complete one.
    @Test func onlyTheFirstEndOfABodyCounts() async throws {
        let truncated = ResponseBody(limit: 10)
        truncated.finish(throwing: AuthError(.networkFailed, "The connection was lost."))
        truncated.finish()
        await expectError(.networkFailed) { try await truncated.collect(upTo: 10) }
        let complete = ResponseBody([1])
        complete.cancel()
        #expect(try await complete.collect(upTo: 10) == [1])
    }

    @Test func anEmptyPartIsNotAnElementOfABody() async throws {
        let body = ResponseBody(limit: 10)
        #expect(body.append([]))
        body.finish()
        #expect(try await body.makeAsyncIterator().next() == nil)
    }

    @Test func aResponseThatNeverStartsTimesOut() async throws {
        let server = try ScriptedServer([.receive, .hold])
        let error = await #expect(throws: AuthError.self) {
            _ = try await SystemTransport().stream(try Self.request(server, timeout: .milliseconds(100)))
        }
        #expect(error?.code == .timedOut)
        server.stop()
    }

    @Test func responseHeadersThatNeverEndTimeOut() async throws {
        let server = try ScriptedServer([.receive, .send("HTTP/1.1 200 OK\r\n"), .hold])
        let error = await #expect(throws: AuthError.self) {
            _ = try await SystemTransport().stream(try Self.request(server, timeout: .milliseconds(100)))
        }
        #expect(error?.code == .timedOut)
        server.stop()
    }

    @Test func theTimeoutDoesNotApplyToAStreamWhoseHeadersHaveArrived() async throws {
        let server = try ScriptedServer([.receive, .send(Self.head), .hold], [.receive, .hold])
        defer { server.stop() }
        let stream = try await SystemTransport().stream(try Self.request(server, timeout: .seconds(3)))
        // The stream would time out before the first request. The second request ends only after the transport has checked all timeouts.
        for timeout in [Duration.seconds(3), .milliseconds(1)] {
            await expectError(.timedOut) {
                try await SystemTransport().send(try Self.request(server, timeout: timeout))
            }
        }
        // An ended body accepts no more data.
        #expect(stream.body.append([0]))
        stream.body.cancel()
    }

    @Test func aTruncatedBodyIsAnError() async throws {
        let server = try ScriptedServer([
            .receive, .send("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort"), .reset,
        ])
        let response = try await SystemTransport().stream(try Self.request(server))
        let error = await #expect(throws: AuthError.self) { _ = try await response.body.collect(upTo: 1000) }
        #expect(error?.code == .networkFailed)
        server.stop()
    }

    @Test func aReaderCanBeCancelledWhileItWaitsForTheBody() async throws {
        let server = try ScriptedServer([.receive, .send(Self.head), .hold])
        let response = try await SystemTransport().stream(try Self.request(server))
        let reader = Task { try await response.body.collect(upTo: 1000) }
        reader.cancel()
        await #expect(throws: CancellationError.self) { _ = try await reader.value }
        server.stop()
    }

    /// A server that does not read a body would parse it as the next request on the connection (request smuggling).
    @Test(arguments: ["302 Found", "401 Unauthorized", "503 Service Unavailable"])
    func aConnectionIsNotReusedIfTheRequestBodyMayBeUnread(_ status: String) async throws {
        let refusal = "HTTP/1.1 \(status)\r\nContent-Length: 0\r\n\r\n"
        let answer = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
        let server = try ScriptedServer([.receive, .send(refusal), .hold], [.receive, .send(answer), .hold])
        let transport = SystemTransport()
        let endpoint = try Endpoint("\(server.origin)/")
        let refused = try await transport.send(TransportRequest(.post, endpoint, body: Array("{}".utf8)))
        #expect(status.hasPrefix("\(refused.status)"))
        #expect(try await transport.send(TransportRequest(.get, endpoint)).status == 200)
        #expect(server.requests.count == 2)
        server.stop()
    }

    /// The same applies to a body from an untrusted source, even if the server responds with success.
    @Test func aConnectionIsNotReusedAfterAnUntrustedRequestBody() async throws {
        let answer = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
        let server = try ScriptedServer([.receive, .send(answer), .hold], [.receive, .send(answer), .hold])
        let transport = SystemTransport()
        let endpoint = try Endpoint("\(server.origin)/")
        var request = TransportRequest(.post, endpoint, body: Array("GET /other HTTP/1.1".utf8))
        request.isLastOnConnection = true
        #expect(try await transport.send(request).status == 200)
        #expect(try await transport.send(TransportRequest(.get, endpoint)).status == 200)
        #expect(server.requests.count == 2)
        #expect(server.requests.first?.first?.contains("Connection: close\r\n") == true)
        server.stop()
    }
}
#endif
