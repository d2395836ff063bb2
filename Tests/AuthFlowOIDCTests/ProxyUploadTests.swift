import AuthFlow
import AuthFlowServer
import AuthFlowTesting
import ConformanceRows
import Foundation
import HTTPTypes
import Synchronization
import Testing

/// An API that responds to uploads with a stream.
private struct StreamingAPI: HTTPTransport {
    let base: any HTTPTransport
    let body: String

    func send(_ call: TransportRequest) async throws -> TransportResponse { try await base.send(call) }

    func stream(_ call: TransportRequest, body upload: UploadBody) async throws -> ResponseStream {
        _ = try await upload.collected()
        return ResponseStream(head: HTTPResponse(status: .ok), body: ResponseBody(Array(body.utf8)))
    }
}

/// A transport that waits for the rest of an upload until the timeout.
private struct StalledUploadTransport: HTTPTransport {
    let base: any HTTPTransport

    func send(_ call: TransportRequest) async throws -> TransportResponse { try await base.send(call) }

    func stream(_ call: TransportRequest, body upload: UploadBody) async throws -> ResponseStream {
        throw AuthError(.timedOut, "The body of \(call) stalled.", underlyingError: UploadStalled())
    }
}

/// Uploads that the proxy forwards as a stream.
@Suite struct ProxyUploadTests {
    private static func proxy(
        _ server: SessionServer,
        duration: Duration = .seconds(900),
        maximumResponseSize: Int = 1024
    ) throws -> ResourceProxy {
        let route = try ResourceProxy.Route(
            "/api/",
            to: Endpoint("https://api.example.com/"),
            methods: [.get, .post],
            maximumRequestSize: 10,
            maximumResponseSize: maximumResponseSize,
            streamsRequests: true,
            maximumStreamDuration: duration
        )
        return ResourceProxy(server: server, routes: [route])
    }

    private static func request(_ browser: WebBrowser) -> HTTPRequest {
        var request = browser.request(.post, "/api/photos", WebBrowser.ownPage)
        request.headerFields[.transferEncoding] = "chunked"
        return request
    }

    private static func upload(_ parts: String..., length: Int? = nil) -> UploadBody {
        UploadBody(
            AsyncThrowingStream { continuation in
                for part in parts { continuation.yield(Array(part.utf8)) }
                continuation.finish()
            },
            length: length
        )
    }

    /// The API compresses the body although the request does not allow it. The browser decodes it, and detects whether it is complete.
    @Test func forwardsACompressedResponseUnchanged() async throws {
        try await WebEnvironment.run { web in
            let api = APITransport(web.environment.transport) { request, _ in
                #expect(request.headerFields[.acceptEncoding] == "identity")
                return TransportResponse(
                    head: HTTPResponse(status: .ok, headerFields: [.contentEncoding: "gzip"]),
                    body: Array("abcd".utf8)
                )
            }
            let server = try web.process(transport: api)
            let browser = WebBrowser()
            try await browser.signIn(web, at: server)
            let request = browser.request(.get, "/api/photos", WebBrowser.ownPage)
            let response = try #require(await Self.proxy(server).response(to: request))
            #expect(response.status == 200)
            #expect(response.head.headerFields[.contentEncoding] == "gzip")
            #expect(response.body == Array("abcd".utf8))
        }
    }

    @Test func forwardsAStreamedBodyAndItsContentEncoding() async throws {
        try await WebEnvironment.run { web in
            let api = APITransport(web.environment.transport) { request, body in
                var head = HTTPResponse(status: .created, headerFields: [.contentType: "text/plain"])
                head.headerFields[.eTag] = request.headerFields[.contentEncoding]
                return TransportResponse(head: head, body: body)
            }
            let server = try web.process(transport: api)
            let proxy = try Self.proxy(server)
            let browser = WebBrowser()
            try await browser.signIn(web, at: server)
            var request = Self.request(browser)
            request.headerFields[.contentEncoding] = "gzip"
            #expect(proxy.streamsBody(of: request))
            #expect(!proxy.streamsBody(of: browser.request(.get, "/api/photos")))
            #expect(!proxy.streamsBody(of: browser.request(.post, "/api/photos")))
            let response = try #require(await proxy.streamedResponse(to: request, upload: Self.upload("first", "last")))
            #expect(response.head.status == .created)
            #expect(response.head.headerFields[.eTag] == "gzip")
            let body = try await response.body.collect(upTo: 100)
            #expect(body == Array("firstlast".utf8))
        }
    }

    @Test(
        arguments: [
            ("announced", Self.upload("x", length: 11), Duration.seconds(900), 413),
            ("unannounced", Self.upload("12345", "67890", "1"), .seconds(900), 413),
            ("too slow", Self.upload("1"), .zero, 408),
            ("negative", Self.upload("1", length: -1), .seconds(900), 400),
            ("the smallest integer", Self.upload("1", length: .min), .seconds(900), 400),
        ]
    )
    func rejectsAStreamedBodyThatIsTooLargeTooSlowOrOfNegativeLength(
        _: String,
        _ body: UploadBody,
        duration: Duration,
        status: Int
    ) async throws {
        try await WebEnvironment.run { web in
            let isAsked = Mutex(false)
            let api = APITransport(web.environment.transport) { _, _ in
                isAsked.withLock { $0 = true }
                return TransportResponse(head: HTTPResponse(status: .ok))
            }
            let server = try web.process(transport: api)
            let browser = WebBrowser()
            try await browser.signIn(web, at: server)
            let request = Self.request(browser)
            let proxy = try Self.proxy(server, duration: duration)
            #expect(await proxy.streamedResponse(to: request, upload: body)?.head.status.code == status)
            #expect(!isAsked.withLock { $0 })
        }
    }

    /// The provider has revoked the access token.
    @Test func anUploadWithARejectedTokenIsNotRepeatedButTheNextHasANewToken() async throws {
        try await WebEnvironment.run { web in
            let tokens = Mutex<[String?]>([])
            let api = APITransport(web.environment.transport) { request, _ in
                let isFirst = tokens.withLock { tokens in
                    tokens.append(request.headerFields[.authorization])
                    return tokens.count == 1
                }
                return TransportResponse(head: HTTPResponse(status: isFirst ? .unauthorized : .ok))
            }
            let browser = WebBrowser()
            try await browser.signIn(web, at: try web.process())
            let server = try web.process(transport: api, host: HostServices(now: { Date() + 120 }))
            let proxy = try Self.proxy(server)
            for status in [401, 200] {
                let response = await proxy.streamedResponse(to: Self.request(browser), upload: Self.upload("12"))
                #expect(response?.head.status.code == status)
            }
            let sent = tokens.withLock { $0 }
            #expect(sent.count == 2 && Set(sent).count == 2)
        }
    }

    /// The browser closes its connection, or sends fewer bytes than announced. Any client can do this, so it is not a failure of the API.
    @Test(arguments: [true, false], [true, false])
    func anUploadThatEndsEarlyIsNeitherForwardedAsCompleteNorReportedAsAFailure(
        _ isStreamed: Bool,
        _ isReset: Bool
    ) async throws {
        struct ConnectionReset: Error {}
        let events = Mutex<[FlowEvent]>([])
        try await WebEnvironment.run { web in
            let isAsked = Mutex(false)
            let api = APITransport(web.environment.transport) { _, _ in
                isAsked.withLock { $0 = true }
                return TransportResponse(head: HTTPResponse(status: .ok))
            }
            let server = try web.process(transport: api, observer: { event in events.withLock { $0.append(event) } })
            let browser = WebBrowser()
            try await browser.signIn(web, at: server)
            let parts = AsyncThrowingStream<[UInt8], any Error> { continuation in
                continuation.yield(Array("12".utf8))
                continuation.finish(throwing: isReset ? ConnectionReset() : nil)
            }
            let request =
                isStreamed ? Self.request(browser) : browser.request(.post, "/api/photos", WebBrowser.ownPage)
            let upload = UploadBody(parts, length: isReset ? nil : 3)
            let response = try await Self.proxy(server).streamedResponse(to: request, upload: upload)
            #expect(response?.head.status == .badRequest)
            #expect(!isAsked.withLock { $0 })
        }
        let reported = events.withLock { $0.filter { $0.step == .forwarding } }
        #expect(reported.map(\.progress) == [.note])
        #expect(reported.first?.details["status"]?.hasPrefix("400") == true)
    }

    @Test func anUploadThatStallsIsNotReportedAsAFailureOfTheAPI() async throws {
        let events = Mutex<[FlowEvent]>([])
        try await WebEnvironment.run { web in
            let server = try web.process(
                transport: StalledUploadTransport(base: web.environment.transport),
                observer: { event in events.withLock { $0.append(event) } }
            )
            let browser = WebBrowser()
            try await browser.signIn(web, at: server)
            let upload = Self.upload("photo")
            let response = try await Self.proxy(server).streamedResponse(to: Self.request(browser), upload: upload)
            #expect(response?.head.status == .requestTimeout)
        }
        let reported = events.withLock { $0.filter { $0.step == .forwarding } }
        #expect(reported.map(\.progress) == [.note])
    }

    /// A body that is not streamed to the API may take hours to arrive.
    @Test func aRequestWhoseSessionEndsWhileItsBodyArrivesIsNotSent() async throws {
        try await WebEnvironment.run { web in
            let isAsked = Mutex(false)
            let api = APITransport(web.environment.transport) { _, _ in
                isAsked.withLock { $0 = true }
                return TransportResponse(head: HTTPResponse(status: .ok))
            }
            let server = try web.process(transport: api)
            let browser = WebBrowser()
            try await browser.signIn(web, at: server)
            let session = try #require(await browser.session(at: server))
            let parts = AsyncThrowingStream<[UInt8], any Error> {
                try await server.endSessions(ofUserOf: session)
                return nil
            }
            let request = browser.request(.post, "/api/photos", WebBrowser.ownPage)
            let response = try await Self.proxy(server).streamedResponse(to: request, upload: UploadBody(parts))
            #expect(response?.head.status == .unauthorized)
            #expect(!isAsked.withLock { $0 })
        }
    }

    @Test(arguments: [("12345", 200), ("123456", 502)])
    func aResponseToAnUploadThatExceedsTheMaximumSizeIsRejected(_ body: String, _ status: Int) async throws {
        try await WebEnvironment.run { web in
            let server = try web.process(transport: StreamingAPI(base: web.environment.transport, body: body))
            let proxy = try Self.proxy(server, maximumResponseSize: 5)
            let browser = WebBrowser()
            try await browser.signIn(web, at: server)
            let response = await proxy.streamedResponse(to: Self.request(browser), upload: Self.upload("photo"))
            #expect(response?.head.status.code == status)
        }
    }

    /// The nonce arrives with the first response, when the body has already been consumed.
    @Test func aStreamedUploadThatNeedsADPoPNonceReturns503AndThenSucceeds() async throws {
        try await WebEnvironment.run { web in
            let proofs = Mutex(0)
            let api = APITransport(web.environment.transport) { request, body in
                let count = proofs.withLock { count in
                    count += 1
                    return count
                }
                guard count == 1 else { return TransportResponse(head: HTTPResponse(status: .ok), body: body) }
                var head = HTTPResponse(status: .unauthorized)
                head.headerFields[.wwwAuthenticate] = #"DPoP error="use_dpop_nonce""#
                head.headerFields[HTTPField.Name("DPoP-Nonce")!] = "nonce"
                return TransportResponse(head: head)
            }
            let server = try web.process(transport: api, registration: { $0.usesDPoP = true })
            web.environment.emulator.dpop = .required
            let proxy = try Self.proxy(server)
            let browser = WebBrowser()
            try await browser.signIn(web, at: server)
            let request = Self.request(browser)
            let first = await proxy.streamedResponse(to: request, upload: Self.upload("body"))
            #expect(first?.head.status == .serviceUnavailable)
            #expect(first?.head.headerFields[.retryAfter] == "1")
            #expect(proofs.withLock { $0 } == 1)
            let second = await proxy.streamedResponse(to: request, upload: Self.upload("body"))
            #expect(second?.head.status == .ok)
        }
    }
}
