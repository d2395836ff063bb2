import AuthFlow
import AuthFlowJSON
import AuthFlowTesting
import ConformanceRows
import Expectations
import HTTPTypes
import Synchronization
import Testing

@testable import AuthFlowMCP

#if canImport(Darwin)
import Darwin
#else
import Glibc
#endif

@Suite struct BridgeTests {
    private static func settings(_ change: (inout ResourceSettings) -> Void = { _ in }) -> ResourceSettings {
        var settings = ResourceSettings()
        settings.supportsOnlyPOST = false
        settings.hasSessions = true
        settings.refreshes = true
        change(&settings)
        return settings
    }

    @Test(arguments: EmulatorEnvironment.Setting.allCases)
    func startsANewSessionAfterTheServerLosesTheCurrentOne(_ setting: EmulatorEnvironment.Setting) async throws {
        try await ResourceEnvironment.with(setting, Self.settings()) { environment in
            let host = environment.host(try environment.client())
            _ = try await host.initialize()
            #expect(try await host.call("test-tool")["result"] != nil)
            environment.emulator.endSessions()
            // All concurrent calls detect the lost session, which is replaced only once.
            try await withThrowingTaskGroup(of: Bool.self) { group in
                for _ in 0..<5 { group.addTask { try await host.call("test-tool")["result"] != nil } }
                for try await isGood in group { #expect(isGood) }
            }
            await host.close()
            #expect(environment.emulator.violations.isEmpty)
        }
    }

    /// The host may log the messages, and pass them to a model.
    @Test("An access token that the server quotes is not passed to the host", arguments: [false, true])
    func redactsAQuotedToken(_ streams: Bool) async throws {
        let (interceptor, environment) = Interceptor.environment()
        let tokens = Mutex<Set<String>>([])
        interceptor.respond { call in
            guard let json = try? JSON(parsing: call.body), json["method"]?.string == "tools/call",
                let id = json["id"], let token = call.head.headerFields[.authorization]?.split(separator: " ").last
            else { return nil }
            tokens.withLock { _ = $0.insert(String(token)) }
            let message: JSON = [
                "jsonrpc": "2.0", "id": id, "result": ["text": .string("\(token) was sent: Bearer \(token)")],
            ]
            guard streams else { return jsonResponse(.ok, message) }
            let text = String(decoding: (try? message.serialized()) ?? [], as: UTF8.self)
            let fields: HTTPFields = [.contentType: "text/event-stream"]
            return TransportResponse(
                head: HTTPResponse(status: .ok, headerFields: fields),
                body: Array("data: \(text)\n\n".utf8)
            )
        }
        let host = environment.host(try environment.client())
        _ = try await host.initialize()
        let answer = try await host.call("test-tool")
        #expect(tokens.withLock { $0.count } == 1)
        #expect(answer["result"]?["text"]?.string == "<redacted> was sent: Bearer <redacted>")
        await host.close()
    }

    @Test(arguments: [
        (#"{"a":"abacabad/abacaba+e"}"#, #"{"a":"<redacted>"}"#),
        (#"{"a":"abacabad\/abacaba\u002Be!"}"#, #"{"a":"<redacted>!"}"#),
        (#""abacabad/abacabacabad/abacaba+eabacabad/abacaba+e""#, #""abacabad/abac<redacted><redacted>""#),
        (#""\nabacabad/abacaba+e\u00e9""#, #""\n<redacted>\u00e9""#),
        (#""abacabad/abacaba+f \u12""#, #""abacabad/abacaba+f \u12""#), ("", ""), (#"\"#, #"\"#),
    ])
    func redactsATokenWithEscapedCharacters(_ text: String, _ expected: String) {
        var redaction = TokenRedaction()
        redaction.record(Secret("DPoP an-earlier-access-token"))
        redaction.record(Secret("DPoP abacabad/abacaba+e"))
        #expect(String(decoding: redaction.redacted(Array(text.utf8)), as: UTF8.self) == expected)
        let earlier = Array("an-earlier-access-token".utf8)
        #expect(redaction.redacted(earlier) == Array("<redacted>".utf8))
    }

    /// Such text may occur in a message by coincidence.
    @Test func doesNotRedactAShortToken() {
        var redaction = TokenRedaction()
        redaction.record(nil)
        redaction.record(Secret("Bearer jsonrpc"))
        #expect(redaction.redacted(Array("jsonrpc".utf8)) == Array("jsonrpc".utf8))
    }

    @Test func aRepeatedlyLostSessionIsNotRestartedIndefinitely() async throws {
        let posts = Mutex(0)
        let transport = InProcessTransport(origin: "https://mcp.example.com") { request, body in
            posts.withLock { $0 += 1 }
            guard String(decoding: body, as: UTF8.self).contains("\"initialize\"") else {
                return TransportResponse(head: HTTPResponse(status: .notFound))
            }
            var response = Self.json(#"{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25"}}"#)
            let id = try JSON(parsing: body)["id"] ?? .null
            response.body = try JSON.object(["jsonrpc": "2.0", "id": id, "result": ["protocolVersion": "2025-11-25"]])
                .serialized()
            response.head.headerFields[HTTPField.Name("Mcp-Session-Id")!] = "session"
            return response
        }
        let host = Self.host(try Self.client(transport), transport)
        _ = try await host.initialize()
        let answer = try await host.ask("tools/list")
        #expect(answer["error"]?["data"]?["cause"]?.string == "session_lost")
        await host.close()
        #expect(posts.withLock { $0 } < 12)
    }

    @Test func restartsTheSessionWhenTheServerIsAvailableAgain() async throws {
        let isUp = Mutex(true)
        let sessions = Mutex(0)
        let transport = InProcessTransport(origin: "https://mcp.example.com") { request, body in
            guard isUp.withLock({ $0 }) else {
                let isInitialize = String(decoding: body, as: UTF8.self).contains("\"initialize\"")
                return TransportResponse(head: HTTPResponse(status: isInitialize ? .badGateway : .notFound))
            }
            let json = try JSON(parsing: body)
            guard let id = json["id"] else { return TransportResponse(head: HTTPResponse(status: .accepted)) }
            let isInitialize = json["method"]?.string == "initialize"
            let session = request.headerFields[HTTPField.Name("Mcp-Session-Id")!]
            if !isInitialize, session != "session\(sessions.withLock { $0 })" {
                return TransportResponse(head: HTTPResponse(status: .notFound))
            }
            if isInitialize { sessions.withLock { $0 += 1 } }
            return try Self.answer(id, session: isInitialize ? sessions.withLock { $0 } : nil)
        }
        let host = Self.host(try Self.client(transport), transport)
        _ = try await host.initialize()
        #expect(try await host.ask("tools/list")["result"] != nil)
        isUp.withLock { $0 = false }
        #expect(try await host.ask("tools/list")["error"] != nil)
        isUp.withLock { $0 = true }
        sessions.withLock { $0 += 10 }
        #expect(try await host.ask("tools/list")["result"] != nil)
        await host.close()
    }

    /// The TypeScript SDK's examples and other servers respond to an unknown session with 400.
    @Test(arguments: [
        ("Bad Request: No valid session ID provided", false, true),
        ("Bad Request: Server not initialized", false, true), ("Session 3f2a was not found", false, true),
        ("Bad parameters", false, false), ("This session may not call tools", false, false),
        ("Unknown property session_name", false, false),
        ("Invalid params: session_date must be a date", true, false),
    ])
    func a400RestartsTheSessionOnlyIfTheServerDoesNotKnowIt(_ message: String, _ isAnswer: Bool, _ isReplaced: Bool)
        async throws
    {
        let sessions = Mutex(0)
        let transport = InProcessTransport(origin: "https://mcp.example.com") { request, body in
            let json = try JSON(parsing: body)
            guard let id = json["id"] else { return TransportResponse(head: HTTPResponse(status: .accepted)) }
            let isInitialize = json["method"]?.string == "initialize"
            let session = request.headerFields[HTTPField.Name("Mcp-Session-Id")!]
            // The first session is lost immediately.
            if !isInitialize, session == "session1" {
                var response = Self.json("{}")
                response.head.status = .badRequest
                response.body = try JSON.object([
                    "jsonrpc": "2.0", "id": isAnswer ? id : .null,
                    "error": ["code": -32000, "message": .string(message)],
                ]).serialized()
                return response
            }
            if isInitialize { sessions.withLock { $0 += 1 } }
            return try Self.answer(id, session: isInitialize ? sessions.withLock { $0 } : nil)
        }
        let host = Self.host(try Self.client(transport), transport)
        _ = try await host.initialize()
        let answer = try await host.ask("tools/list")
        #expect((answer["result"] != nil) == isReplaced, "\(answer)")
        #expect(isReplaced || answer["error"]?["message"]?.string == message)
        await host.close()
        #expect(sessions.withLock { $0 } == (isReplaced ? 2 : 1))
    }

    /// The Python SDK uses the ID "server-error" for the errors of its transport.
    @Test(arguments: [400, 404], ["7", "null", #""server-error""#])
    func theHostReceivesTheIDOfItsRequestForAnUnknownMethod(_ status: Int, _ id: String) async throws {
        let server = SessionServer { message, _ in
            guard message["method"]?.string == "tools/list" else { return nil }
            let error = #"{"jsonrpc":"2.0","id":\#(id),"error":{"code":-32601,"message":"Method not found"}}"#
            return TransportResponse(
                head: HTTPResponse(status: HTTPResponse.Status(code: status)),
                body: Array(error.utf8)
            )
        }
        let (bridge, lines) = try Self.bridge(to: server)
        var answers = lines.makeAsyncIterator()
        bridge.receive(Self.initialize)
        _ = await answers.next()
        bridge.receive(Array(#"{"jsonrpc":"2.0","id":7,"method":"tools/list"}"#.utf8))
        let answer = try JSON(parsing: try #require(await answers.next()))
        #expect(answer["id"]?.integer == 7)
        #expect(answer["error"]?["code"]?.integer == -32601)
        await bridge.close(within: .seconds(60))
        #expect(server.received.count { $0.hasPrefix("initialize ") } == 1)
    }

    struct Rejection: CustomTestStringConvertible {
        let name: String
        var hasSessions = true
        var line = #"{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}"#
        var status = 400
        let text: String
        var testDescription: String { name }
    }

    static let rejections: [Rejection] = [
        Rejection(name: "404 from a server without sessions", hasSessions: false, status: 404, text: ""),
        Rejection(name: "400 for another reason", text: "Bad parameters"),
        Rejection(
            name: "400 with the response to a request of the batch",
            line: #"[{"jsonrpc":"2.0","id":1,"method":"a"}]"#,
            text: #"[{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"Invalid session id"}}]"#
        ),
    ]

    @Test(arguments: rejections)
    func aMessageRejectedForAnotherReasonStartsNoNewSession(_ rejection: Rejection) async throws {
        let server = SessionServer { message, _ in
            guard message["method"]?.string == "initialize" else {
                let status = HTTPResponse.Status(code: rejection.status)
                return TransportResponse(head: HTTPResponse(status: status), body: Array(rejection.text.utf8))
            }
            return try rejection.hasSessions ? nil : Self.answer(message["id"] ?? .null)
        }
        let (bridge, lines) = try Self.bridge(to: server)
        bridge.receive(Self.initialize)
        for await _ in lines { break }
        bridge.receive(Array(rejection.line.utf8))
        await bridge.close(within: .seconds(60))
        #expect(server.received.count { $0.hasPrefix("initialize ") } == 1)
    }

    @Test func aNewSessionReceivesTheInitializedNotificationOnce() async throws {
        let server = SessionServer { _, session in session == "session1" ? Self.notFound : nil }
        let (bridge, lines) = try Self.bridge(to: server)
        bridge.receive(Self.initialize)
        for await _ in lines { break }
        bridge.receive(Array(#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#.utf8))
        await bridge.close(within: .seconds(60))
        let expected = ["notifications/initialized session1", "notifications/initialized session2"]
        #expect(server.received.filter { $0.hasPrefix("notifications/initialized") } == expected)
    }

    /// The host sends its notification while the session is being replaced.
    @Test(.timeLimit(.minutes(1))) func aNewSessionThatWasBegunBeforeTheInitializedNotificationReceivesIt() async throws
    {
        let (arrivals, arrival) = AsyncStream.makeStream(of: Void.self)
        let (releases, release) = AsyncStream.makeStream(of: Void.self)
        let begun = Mutex(0)
        let server = SessionServer { message, session in
            let count = begun.withLock { count in
                if message["method"]?.string == "initialize" { count += 1 }
                return count
            }
            if message["method"]?.string == "initialize", count == 2 {
                arrival.yield()
                for await _ in releases {}
            }
            return session == "session1" ? Self.notFound : nil
        }
        let (bridge, lines) = try Self.bridge(to: server)
        var answers = lines.makeAsyncIterator()
        bridge.receive(Self.initialize)
        _ = await answers.next()
        bridge.receive(Array(#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#.utf8))
        for await _ in arrivals { break }
        bridge.receive(Array(#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#.utf8))
        while !server.received.contains("notifications/initialized session1") { await Task.yield() }
        release.finish()
        _ = await answers.next()
        await bridge.close(within: .seconds(60))
        #expect(server.received.contains("notifications/initialized session2"))
    }

    @Test(.timeLimit(.minutes(1))) func aLate404ForAnEarlierSessionDoesNotReplaceTheCurrentOne() async throws {
        let (arrivals, arrival) = AsyncStream.makeStream(of: Void.self)
        let (releases, release) = AsyncStream.makeStream(of: Void.self)
        let server = SessionServer { message, session in
            guard message["method"]?.string == "tools/list", session == "session1" else { return nil }
            arrival.yield()
            for await _ in releases {}
            return Self.notFound
        }
        let (bridge, lines) = try Self.bridge(to: server)
        var answers = lines.makeAsyncIterator()
        await Self.beginTwoSessions(of: bridge, answers: &answers, afterRequestIn: arrivals)
        release.finish()
        let answer = try JSON(parsing: await answers.next() ?? [])
        #expect(answer["id"] == 1 && answer["result"] != nil)
        await bridge.close()
        #expect(server.received.count { $0.hasPrefix("initialize ") } == 2)
    }

    /// The host has given up the first `initialize`. The unused session does not remain at the server.
    @Test(.timeLimit(.minutes(1))) func aLateResponseToAnEarlierInitializeDoesNotReplaceTheSession() async throws {
        let (arrivals, arrival) = AsyncStream.makeStream(of: Void.self)
        let (releases, release) = AsyncStream.makeStream(of: Void.self)
        let server = SessionServer { message, _ in
            guard message["method"]?.string == "initialize", message["id"] == 0 else { return nil }
            arrival.yield()
            for await _ in releases {}
            return try Self.answer(0, session: 9)
        }
        let (bridge, lines) = try Self.bridge(to: server)
        var answers = lines.makeAsyncIterator()
        bridge.receive(Self.initialize)
        for await _ in arrivals { break }
        bridge.receive(Array(#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}"#.utf8))
        _ = await answers.next()
        release.finish()
        _ = await answers.next()
        bridge.receive(Array(#"{"jsonrpc":"2.0","id":2,"method":"tools/list"}"#.utf8))
        _ = await answers.next()
        #expect(server.received.contains("tools/list session1"))
        #expect(server.received.contains("DELETE session9"))
        await bridge.close()
    }

    /// The host would take the response to the earlier request for the response to the later one.
    @Test(.timeLimit(.minutes(1))) func aRequestWithTheIDOfARequestInProgressReplacesIt() async throws {
        let (arrivals, arrival) = AsyncStream.makeStream(of: Void.self)
        let (cancellations, cancellation) = AsyncStream.makeStream(of: Void.self)
        let server = SessionServer { message, session in
            guard message["method"]?.string == "tools/list", session == "session1" else { return nil }
            arrival.yield()
            defer { cancellation.yield() }
            try await Task<Never, Never>.never()
            return nil
        }
        let (bridge, lines) = try Self.bridge(to: server)
        var answers = lines.makeAsyncIterator()
        await Self.beginTwoSessions(of: bridge, answers: &answers, afterRequestIn: arrivals)
        bridge.receive(Array(#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#.utf8))
        for await _ in cancellations { break }
        let answer = try JSON(parsing: await answers.next() ?? [])
        #expect(answer["id"] == 1 && answer["result"] != nil)
        await bridge.close()
    }

    /// The host would continue with the revision of the first session. The unused session does not remain at the server.
    @Test func aNewSessionWithAnotherRevisionIsNotUsed() async throws {
        let server = SessionServer { message, session in
            if session == "session1" { return Self.notFound }
            guard let id = message["id"]?.string, id.hasPrefix("authflow-") else { return nil }
            var response = jsonResponse(
                .ok,
                ["jsonrpc": "2.0", "id": .string(id), "result": ["protocolVersion": "2025-03-26"]]
            )
            response.head.headerFields[HTTPField.Name("Mcp-Session-Id")!] = "unused"
            return response
        }
        let host = Self.host(try Self.client(server), server)
        _ = try await host.initialize()
        let answer = try await host.ask("tools/list")
        #expect(answer["error"]?["data"]?["cause"]?.string == "session_lost")
        #expect(server.received.contains("DELETE unused"))
        await host.close()
    }

    /// While the bridge replaces a lost session, the host starts another one: it sends the same `initialize` again and
    /// receives the response, or sends a different one that is not answered yet.
    @Test(.timeLimit(.minutes(1)), arguments: [false, true])
    func aReplacementDoesNotOverwriteASessionThatTheHostHasStartedMeanwhile(_ isAnswered: Bool) async throws {
        let (arrivals, arrival) = AsyncStream.makeStream(of: Void.self)
        let (releases, release) = AsyncStream.makeStream(of: Void.self)
        let server = SessionServer { message, session in
            if message["method"]?.string == "tools/list", session == "session1" { return Self.notFound }
            if message["params"]?["clientInfo"] != nil { try await Task<Never, Never>.never() }
            if message["id"]?.string != nil {
                arrival.yield()
                for await _ in releases {}
            }
            return nil
        }
        let log = Mutex<[String]>([])
        var options = MCPBridge.Options()
        options.log = { text in log.withLock { $0.append(text) } }
        let (lines, line) = AsyncStream.makeStream(of: [UInt8].self)
        let bridge = MCPBridge(
            client: try Self.client(server),
            transport: server,
            clock: StoppedClock(),
            options: options
        ) {
            line.yield($0)
        }
        var answers = lines.makeAsyncIterator()
        bridge.receive(Self.initialize)
        _ = await answers.next()
        bridge.receive(Array(#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#.utf8))
        for await _ in arrivals { break }
        if isAnswered {
            bridge.receive(Self.initialize)
            _ = await answers.next()
        } else {
            let other = #"{"jsonrpc":"2.0","id":2,"method":"initialize","params":{"clientInfo":{"name":"host"}}}"#
            bridge.receive(Array(other.utf8))
        }
        release.finish()
        let answer = try JSON(parsing: await answers.next() ?? [])
        #expect(answer["id"] == 1 && answer["result"] != nil)
        #expect(log.withLock { $0 }.isEmpty)
        // The unused session does not remain at the server.
        #expect(server.received.contains { $0.hasPrefix("DELETE session") })
        await bridge.close()
    }

    @Test(
        "A session whose initialization fails is ended",
        .timeLimit(.minutes(1)),
        arguments: [#"{"jsonrpc":"2.0","id":0,"error":{"code":-32602,"message":"Unsupported version"}}"#, "{"]
    )
    func endsASessionWhoseInitializationFails(_ body: String) async throws {
        let server = SessionServer { message, _ in
            guard message["method"]?.string == "initialize" else { return nil }
            var response = Self.json(body)
            response.head.headerFields[HTTPField.Name("Mcp-Session-Id")!] = "unused"
            return response
        }
        let (lines, line) = AsyncStream.makeStream(of: [UInt8].self)
        let bridge = MCPBridge(client: try Self.client(server), transport: server) { line.yield($0) }
        bridge.receive(Self.initialize)
        var answers = lines.makeAsyncIterator()
        let answer = try JSON(parsing: await answers.next() ?? [])
        #expect(answer["error"] != nil)
        #expect(server.received == ["initialize -", "DELETE unused"])
        await bridge.close()
    }

    /// The process may exit after the bridge was closed.
    @Test("Closing ends a session that is being started", .timeLimit(.minutes(1)))
    func closingEndsASessionThatIsBeingStarted() async throws {
        let (arrivals, arrival) = AsyncStream.makeStream(of: Void.self)
        let isEnded = Mutex(false)
        let server = SessionServer { message, session in
            if message["method"]?.string == "tools/list", session == "session1" { return Self.notFound }
            guard session == "session2" else { return nil }
            if message["method"]?.string == "notifications/initialized" {
                arrival.yield()
                try await Task<Never, Never>.never()
            }
            // DELETE has no body.
            if message == .null {
                for _ in 0..<100 { await Task.yield() }
                isEnded.withLock { $0 = true }
            }
            return nil
        }
        let (lines, line) = AsyncStream.makeStream(of: [UInt8].self)
        let bridge = MCPBridge(client: try Self.client(server), transport: server) { line.yield($0) }
        bridge.receive(Self.initialize)
        for await _ in lines { break }
        bridge.receive(Array(#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#.utf8))
        bridge.receive(Array(#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#.utf8))
        for await _ in arrivals { break }
        await bridge.close()
        #expect(isEnded.withLock { $0 })
    }

    /// Some servers return the `id` of a request in a different notation.
    @Test(arguments: ["5", "5.0", #""5""#]) func theHostReceivesTheIDOfItsRequest(_ id: String) async throws {
        let transport = InProcessTransport(origin: "https://mcp.example.com") { _, _ in
            Self.json(#"{"jsonrpc":"2.0","id":\#(id),"result":{"tools":[]}}"#)
        }
        let answer = try await Self.answer(to: #"{"jsonrpc":"2.0","id":5,"method":"tools/list"}"#, transport)
        #expect(answer["result"] != nil && answer["id"] == 5)
    }

    /// The stream remains open, so the host would wait until the idle timeout.
    @Test(.timeLimit(.minutes(1))) func anUnreadableResponseInAStreamFailsTheRequestAtOnce() async throws {
        let transport = StreamTransport { _ in
            let body = ResponseBody(limit: 1000)
            body.append(Array("data: {\"jsonrpc\":\"2.0\",\"method\":\"x\",\"method\":\"x\"}\n\n".utf8))
            body.append(Array("data: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"a\":1,\"a\":2}}\n\n".utf8))
            return ResponseStream(
                head: HTTPResponse(status: .ok, headerFields: [.contentType: "text/event-stream"]),
                body: body
            )
        }
        let answer = try await Self.answer(to: #"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#, transport)
        #expect(answer["error"]?["message"]?.string?.contains("duplicate key") == true, "\(answer)")
    }

    /// An unreadable event does not mean that the token was rejected.
    @Test(.timeLimit(.minutes(1))) func theListeningStreamContinuesAfterAnUnreadableEvent() async throws {
        let transport = Self.listening { _ in
            let body = ResponseBody(limit: 1000)
            body.append(Array("data: {\"error\":\"upstream timeout\"}\n\n".utf8))
            body.append(Array("data: {\"jsonrpc\":\"2.0\",\"method\":\"two\"}\n\n".utf8))
            return body
        }
        let (lines, line) = AsyncStream.makeStream(of: [UInt8].self)
        let bridge = MCPBridge(client: try Self.client(transport), transport: transport) { line.yield($0) }
        bridge.receive(Array(#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}"#.utf8))
        bridge.receive(Array(#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#.utf8))
        for await bytes in lines where try JSON(parsing: bytes)["method"]?.string == "two" { break }
        await bridge.close()
    }

    /// The server could otherwise answer a request that another connection carries.
    @Test(.timeLimit(.minutes(1))) func aResponseInTheListeningStreamDoesNotReachTheHost() async throws {
        let transport = Self.listening { _ in
            let body = ResponseBody(limit: 1000)
            body.append(Array("data: {\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{}}\n\n".utf8))
            body.append(Array("data: {\"jsonrpc\":\"2.0\",\"method\":\"two\"}\n\n".utf8))
            return body
        }
        let (lines, line) = AsyncStream.makeStream(of: [UInt8].self)
        let bridge = MCPBridge(client: try Self.client(transport), transport: transport) { line.yield($0) }
        bridge.receive(Self.initialize)
        bridge.receive(Array(#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#.utf8))
        for await bytes in lines {
            let json = try JSON(parsing: bytes)
            #expect(json["id"] != 7)
            if json["method"]?.string == "two" { break }
        }
        await bridge.close()
    }

    @Test(.timeLimit(.minutes(1))) func aClosedBridgeOpensNoListeningStream() async throws {
        let (arrivals, arrival) = AsyncStream.makeStream(of: Void.self)
        let server = SessionServer { message, _ in
            guard message["method"]?.string == "notifications/initialized" else { return nil }
            arrival.yield()
            try await Task<Never, Never>.never()
            return nil
        }
        let (bridge, lines) = try Self.bridge(to: server)
        bridge.receive(Self.initialize)
        for await _ in lines { break }
        bridge.receive(Array(#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#.utf8))
        for await _ in arrivals { break }
        await bridge.close()
        for _ in 0..<5000 { await Task.yield() }
        #expect(!server.received.contains { $0.hasPrefix("GET") })
    }

    @Test func aNotificationWithoutASessionOpensNoListeningStream() async throws {
        let server = SessionServer { _, _ in nil }
        let (bridge, lines) = try Self.bridge(to: server)
        bridge.receive(Array(#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#.utf8))
        bridge.receive(Array(#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#.utf8))
        for await _ in lines { break }
        for _ in 0..<5000 { await Task.yield() }
        #expect(server.received == ["notifications/initialized -", "ping -"])
        await bridge.close()
    }

    /// The bridge itself cancels a listening stream that it replaces, so the token was not rejected.
    @Test(.timeLimit(.minutes(1))) func aReplacedListeningStreamIsNotOpenedAgainWithANewToken() async throws {
        try await ResourceEnvironment.with(.inProcess, Self.settings()) { environment in
            let (listeners, listener) = AsyncStream.makeStream(of: Void.self)
            let count = Mutex(0)
            let transport = StreamTransport { request in
                guard request.head.method == .get, request.head.headerFields[.accept] == "text/event-stream" else {
                    return try await environment.transport.stream(request)
                }
                count.withLock { $0 += 1 }
                listener.yield()
                return ResponseStream(
                    head: HTTPResponse(status: .ok, headerFields: [.contentType: "text/event-stream"]),
                    body: ResponseBody(limit: 1000)
                )
            }
            let host = Self.host(try environment.client(), transport)
            _ = try await host.initialize()
            var opened = listeners.makeAsyncIterator()
            _ = await opened.next()
            try host.tell(["jsonrpc": "2.0", "method": "notifications/initialized"])
            _ = await opened.next()
            for _ in 0..<5000 { await Task.yield() }
            environment.emulator.revokeAccessTokens()
            #expect(try await host.call("test-tool")["result"] != nil)
            for _ in 0..<5000 { await Task.yield() }
            #expect(count.withLock { $0 } == 2)
            await host.close()
        }
    }

    /// If the stream resumed from an older event, the client would receive messages twice.
    @Test(.timeLimit(.minutes(1))) func theListeningStreamContinuesAfterTheLastEvent() async throws {
        let (listeners, listener) = AsyncStream.makeStream(of: String?.self)
        let count = Mutex(0)
        let transport = Self.listening { request in
            listener.yield(request.head.headerFields[HTTPField.Name("Last-Event-ID")!])
            let number = count.withLock { count in
                count += 1
                return count
            }
            let body = ResponseBody(limit: 1000)
            body.append(Array("retry: 1\nid: e\(number)\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"n\"}\n\n".utf8))
            // The connection is reset.
            body.finish(throwing: AuthError(.networkFailed, "Reset."))
            return body
        }
        let bridge = MCPBridge(client: try Self.client(transport), transport: transport, clock: HastyClock()) { _ in }
        bridge.receive(Array(#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}"#.utf8))
        bridge.receive(Array(#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#.utf8))
        var seen: [String?] = []
        for await id in listeners {
            seen.append(id)
            if seen.count == 3 { break }
        }
        await bridge.close()
        #expect(seen == [nil, "e1", "e2"])
    }

    /// A server that numbers its sessions and its listening streams, from 1.
    private final class NumberedSessions: Sendable {
        private let counts = Mutex((sessions: 0, listeners: 0))

        /// The number of sessions that were started.
        var count: Int { counts.withLock { $0.sessions } }

        /// - Parameter listener: Returns the response to the request for a listening stream.
        func transport(
            _ listener: @escaping @Sendable (_ number: Int, _ request: TransportRequest) -> ResponseStream
        ) -> StreamTransport {
            StreamTransport { [self] request in
                guard request.head.method == .get, request.head.headerFields[.accept] == "text/event-stream" else {
                    let message = (try? JSON(parsing: request.body)) ?? .null
                    let isNew = message["method"]?.string == "initialize"
                    let session = counts.withLock { counts -> Int? in
                        guard isNew else { return nil }
                        counts.sessions += 1
                        return counts.sessions
                    }
                    let response = try BridgeTests.answer(message["id"] ?? .null, session: session)
                    return ResponseStream(head: response.head, body: ResponseBody(response.body))
                }
                let number = counts.withLock { counts in
                    counts.listeners += 1
                    return counts.listeners
                }
                return listener(number, request)
            }
        }
    }

    /// The responses to the listening streams after the first, which ends immediately.
    private static func listener(
        _ status: Int,
        _ body: String,
        isFirst: Bool,
        isRejected: Bool,
        last: String
    ) -> ResponseStream {
        guard isFirst || !isRejected else {
            let head = HTTPResponse(status: HTTPResponse.Status(code: status))
            return ResponseStream(head: head, body: ResponseBody(Array(body.utf8)))
        }
        let stream = ResponseBody(limit: 1000)
        stream.append(Array("data: {\"jsonrpc\":\"2.0\",\"method\":\"\(isFirst ? "first" : last)\"}\n\n".utf8))
        if isFirst { stream.finish() }
        return ResponseStream(
            head: HTTPResponse(status: .ok, headerFields: [.contentType: "text/event-stream"]),
            body: stream
        )
    }

    /// After the connection of a stream has broken, a server with one stream for each session rejects the next stream until it detects the break.
    @Test(
        .timeLimit(.minutes(1)),
        arguments: [
            (409, "Conflict: Only one SSE stream is allowed per session"),
            (400, "Session registration failed: session already exists"),
        ]
    )
    func theListeningStreamIsRequestedAgainUntilTheServerDetectsTheEndOfThePreviousStream(
        _ status: Int,
        _ body: String
    ) async throws {
        let sessions = NumberedSessions()
        let transport = sessions.transport { number, _ in
            Self.listener(status, body, isFirst: number == 1, isRejected: number < 4, last: "last")
        }
        try await listen(to: transport)
        #expect(sessions.count == 1)
    }

    /// Until the host's next request, which may be a long time later, the server would have no session in which to send a message.
    @Test(.timeLimit(.minutes(1)), arguments: [(404, ""), (400, "Unknown session")])
    func aSessionWhoseLossTheListeningStreamDetectsIsReplaced(_ status: Int, _ body: String) async throws {
        let sessions = NumberedSessions()
        let transport = sessions.transport { number, request in
            let isLost = request.head.headerFields[HTTPField.Name("Mcp-Session-Id")!] == "session1"
            return Self.listener(status, body, isFirst: number == 1, isRejected: isLost, last: "last")
        }
        try await listen(to: transport)
        #expect(sessions.count == 2)
    }

    /// A server that was restarted has lost the session, and does not accept a new one until it has started completely.
    @Test(.timeLimit(.minutes(1))) func theListeningStreamReplacesALostSessionOnceTheServerAcceptsOne() async throws {
        let counts = Mutex((sessions: 0, listeners: 0))
        let transport = StreamTransport { request in
            guard request.head.method == .get, request.head.headerFields[.accept] == "text/event-stream" else {
                let message = (try? JSON(parsing: request.body)) ?? .null
                var session: Int?
                if message["method"]?.string == "initialize" {
                    session = counts.withLock { counts in
                        counts.sessions += 1
                        return counts.sessions
                    }
                }
                if session == 2 {
                    return ResponseStream(head: HTTPResponse(status: .serviceUnavailable), body: ResponseBody([]))
                }
                let response = try Self.answer(message["id"] ?? .null, session: session)
                return ResponseStream(head: response.head, body: ResponseBody(response.body))
            }
            let isFirst = counts.withLock { counts in
                counts.listeners += 1
                return counts.listeners == 1
            }
            let isLost = request.head.headerFields[HTTPField.Name("Mcp-Session-Id")!] == "session1"
            return Self.listener(404, "", isFirst: isFirst, isRejected: isLost, last: "last")
        }
        try await listen(to: transport)
        #expect(counts.withLock { $0.sessions } == 3)
    }

    /// Runs a bridge until it has relayed the message `last` of a listening stream.
    private func listen(to transport: some HTTPTransport) async throws {
        let (lines, line) = AsyncStream<[UInt8]>.makeStream()
        let clock = ShortSleepClock(limit: .seconds(5))
        let bridge = MCPBridge(client: try Self.client(transport), transport: transport, clock: clock) {
            line.yield($0)
        }
        bridge.receive(Self.initialize)
        var written = lines.makeAsyncIterator()
        _ = await written.next()
        bridge.receive(Array(#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#.utf8))
        while let message = await written.next(), try JSON(parsing: message)["method"]?.string != "last" {}
        await bridge.close()
    }

    /// A server that was restarted may have lost the session and the tokens. The user has not started a request.
    /// - Parameter isResumed: Whether the tokens are rejected only when the stream with the response to `initialize` is resumed.
    @Test(.timeLimit(.minutes(1)), arguments: [false, true])
    func theListeningStreamOpensNoSignInPageToReplaceASession(_ isResumed: Bool) async throws {
        let counts = Mutex((sessions: 0, listeners: 0))
        let (events, event) = AsyncStream<String>.makeStream()
        let transport = StreamTransport { request in
            let head = request.head
            if head.path?.hasPrefix("/.well-known") == true {
                event.yield("discovery")
                return ResponseStream(head: HTTPResponse(status: .notFound), body: ResponseBody([]))
            }
            if head.method == .delete {
                event.yield("DELETE \(head.headerFields[HTTPField.Name("Mcp-Session-Id")!] ?? "")")
                return ResponseStream(head: HTTPResponse(status: .noContent), body: ResponseBody([]))
            }
            guard head.method == .post else {
                if head.headerFields[HTTPField.Name("Last-Event-ID")!] != nil {
                    let fields: HTTPFields = [.wwwAuthenticate: "Bearer"]
                    return ResponseStream(
                        head: HTTPResponse(status: .unauthorized, headerFields: fields),
                        body: ResponseBody([])
                    )
                }
                let isFirst = counts.withLock { counts in
                    counts.listeners += 1
                    return counts.listeners == 1
                }
                return Self.listener(404, "", isFirst: isFirst, isRejected: true, last: "")
            }
            let message = (try? JSON(parsing: request.body)) ?? .null
            guard message["method"]?.string == "initialize" else {
                return ResponseStream(head: HTTPResponse(status: .accepted), body: ResponseBody([]))
            }
            let session = counts.withLock { counts in
                counts.sessions += 1
                return counts.sessions
            }
            var response = try Self.answer(message["id"] ?? .null, session: session)
            if session > 1, isResumed {
                response.head.headerFields[.contentType] = "text/event-stream"
                response.body = Array("id: 1\ndata:\n\n".utf8)
            } else if session > 1 {
                response.head.status = .unauthorized
                response.head.headerFields[.wwwAuthenticate] = "Bearer"
                response.body = []
            }
            return ResponseStream(head: response.head, body: ResponseBody(response.body))
        }
        let (lines, line) = AsyncStream<[UInt8]>.makeStream()
        // The time limit for a DELETE request is longer.
        let clock = ShortSleepClock(limit: .milliseconds(1500))
        let bridge = MCPBridge(client: try Self.client(transport), transport: transport, clock: clock) {
            line.yield($0)
        }
        bridge.receive(Self.initialize)
        for await _ in lines { break }
        bridge.receive(Array(#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#.utf8))
        // The session of the rejected attempt.
        for await first in events {
            #expect(first == "DELETE session2")
            break
        }
        await bridge.close()
    }

    /// A server that opens a stream in every session, and then loses the session.
    @Test(.timeLimit(.minutes(1))) func theDelayDoublesBeforeEachReplacementOfASessionThatIsSoonLost() async throws {
        let sessions = NumberedSessions()
        let transport = sessions.transport { number, _ in
            Self.listener(404, "", isFirst: number % 2 == 1, isRejected: number % 2 == 0, last: "last")
        }
        let (sleeps, sleep) = AsyncStream<Duration>.makeStream()
        let clock = ShortSleepClock(limit: .seconds(5)) { sleep.yield($0) }
        let (lines, line) = AsyncStream<[UInt8]>.makeStream()
        let bridge = MCPBridge(client: try Self.client(transport), transport: transport, clock: clock) {
            line.yield($0)
        }
        bridge.receive(Self.initialize)
        for await _ in lines { break }
        bridge.receive(Array(#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#.utf8))
        // The delay after those of 1, 2 and 4 s; the timeouts are longer.
        for await duration in sleeps where (Duration.seconds(5)...Duration.seconds(9)).contains(duration) { break }
        #expect(sessions.count == 4)
        await bridge.close()
    }

    @Test(arguments: [HTTPResponse.Status.found, .methodNotAllowed])
    func aListeningStreamThatTheServerDoesNotOfferIsNotRequestedAgain(_ status: HTTPResponse.Status) async throws {
        let count = Mutex(0)
        let transport = InProcessTransport(origin: "https://mcp.example.com") { request, body in
            guard request.method == .post else {
                guard request.headerFields[.accept] == "text/event-stream" else {
                    return TransportResponse(head: HTTPResponse(status: .notFound))
                }
                let number = count.withLock { count in
                    count += 1
                    return count
                }
                let status = number < 5 ? status : .methodNotAllowed
                return TransportResponse(
                    head: HTTPResponse(status: status, headerFields: [.location: "https://www.example.com/"])
                )
            }
            let json = try JSON(parsing: body)
            guard let id = json["id"] else { return TransportResponse(head: HTTPResponse(status: .accepted)) }
            return try Self.answer(id)
        }
        let (lines, line) = AsyncStream<[UInt8]>.makeStream()
        let bridge = MCPBridge(client: try Self.client(transport), transport: transport, clock: HastyClock()) {
            line.yield($0)
        }
        bridge.receive(Array(#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{}}"#.utf8))
        bridge.receive(Array(#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#.utf8))
        var answers = 0
        for await _ in lines {
            answers += 1
            guard answers < 50 else { break }
            bridge.receive(Array(#"{"jsonrpc":"2.0","id":\#(answers),"method":"tools/list"}"#.utf8))
        }
        await bridge.close()
        #expect(count.withLock { $0 } == 1)
    }

    @Test func a401ForALostSessionRestartsTheSessionWithoutANewSignIn() async throws {
        try await ResourceEnvironment.with(.inProcess, Self.settings { $0.rejectsUnknownSessions = true }) {
            environment in
            let host = environment.host(try environment.client())
            _ = try await host.initialize()
            #expect(try await host.call("test-tool")["result"] != nil)
            environment.emulator.endSessions()
            #expect(try await host.call("test-tool")["result"] != nil)
            #expect(environment.emulator.authorizations.count == 1)
            await host.close()
        }
    }

    /// Without a refresh token, only a sign-in obtains a new token.
    @Test func a401ForALostSessionRestartsTheSessionAfterANewSignIn() async throws {
        let settings = Self.settings { ($0.rejectsUnknownSessions, $0.refreshes) = (true, false) }
        try await ResourceEnvironment.with(.inProcess, settings) { environment in
            let host = environment.host(try environment.client())
            _ = try await host.initialize()
            #expect(try await host.call("test-tool")["result"] != nil)
            environment.emulator.revokeAccessTokens()
            environment.emulator.endSessions()
            #expect(try await host.call("test-tool")["result"] != nil)
            #expect(environment.emulator.authorizations.count == 2)
            await host.close()
        }
    }

    @Test func a401ForANotificationInALostSessionRestartsTheSessionWithoutANewSignIn() async throws {
        let settings = Self.settings { $0.rejectsUnknownSessions = true }
        try await ResourceEnvironment.with(.inProcess, settings) { environment in
            let (lines, line) = AsyncStream.makeStream(of: [UInt8].self)
            let client = try environment.client()
            let bridge = MCPBridge(client: client, transport: environment.transport) { line.yield($0) }
            let parameters = #"{"protocolVersion":"2025-11-25","capabilities":{}}"#
            bridge.receive(Array(#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":\#(parameters)}"#.utf8))
            for await _ in lines { break }
            environment.emulator.endSessions()
            bridge.receive(Array(#"{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}"#.utf8))
            await bridge.close(within: .seconds(60))
            #expect(environment.emulator.authorizations.count == 1)
        }
    }

    @Test(.timeLimit(.minutes(1)), arguments: [HTTPResponse.Status.unauthorized, .forbidden])
    func aRejectedListeningStreamIsOpenedAgainAfterANewSignIn(_ rejection: HTTPResponse.Status) async throws {
        try await ResourceEnvironment.with(.inProcess, Self.settings { $0.refreshes = false }) { environment in
            let (listeners, listener) = AsyncStream.makeStream(of: String.self)
            let first = Mutex<String?>(nil)
            let transport = StreamTransport { request in
                guard request.head.method == .get, request.head.headerFields[.accept] == "text/event-stream" else {
                    return try await environment.transport.stream(request)
                }
                let token = request.head.headerFields[.authorization] ?? ""
                let isFirst = first.withLock { first in
                    first = first ?? token
                    return first == token
                }
                listener.yield(token)
                guard isFirst else {
                    return ResponseStream(
                        head: HTTPResponse(status: .ok, headerFields: [.contentType: "text/event-stream"]),
                        body: ResponseBody(limit: 1000)
                    )
                }
                let challenge = #"Bearer error="invalid_token""#
                return ResponseStream(
                    head: HTTPResponse(status: rejection, headerFields: [.wwwAuthenticate: challenge]),
                    body: ResponseBody([])
                )
            }
            let host = Self.host(try environment.client(), transport)
            _ = try await host.initialize()
            var tokens = listeners.makeAsyncIterator()
            let rejected = await tokens.next()
            environment.emulator.revokeAccessTokens()
            #expect(try await host.call("test-tool")["result"] != nil)
            #expect(await tokens.next() != rejected)
            await host.close()
        }
    }

    /// The server has stored the messages that it sent in the meantime.
    @Test(.timeLimit(.minutes(1))) func theListeningStreamContinuesAfterTheLastEventWithTheTokenOfANewSignIn()
        async throws
    {
        try await ResourceEnvironment.with(.inProcess, Self.settings { $0.refreshes = false }) { environment in
            let (listeners, listener) = AsyncStream.makeStream(of: String?.self)
            let tokens = Mutex<[String]>([])
            let transport = StreamTransport { request in
                guard request.head.method == .get, request.head.headerFields[.accept] == "text/event-stream" else {
                    return try await environment.transport.stream(request)
                }
                let token = request.head.headerFields[.authorization] ?? ""
                let (isFirst, isRejected) = tokens.withLock { tokens in
                    tokens.append(token)
                    return (tokens.count == 1, tokens.count > 1 && tokens[0] == token)
                }
                listener.yield(request.head.headerFields[HTTPField.Name("Last-Event-ID")!])
                let fields: HTTPFields =
                    isRejected
                    ? [.wwwAuthenticate: #"Bearer error="invalid_token""#] : [.contentType: "text/event-stream"]
                let event = Array("id: e1\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"n\"}\n\n".utf8)
                return ResponseStream(
                    head: HTTPResponse(status: isRejected ? .unauthorized : .ok, headerFields: fields),
                    body: isFirst ? ResponseBody(event) : isRejected ? ResponseBody([]) : ResponseBody(limit: 1000)
                )
            }
            let (lines, line) = AsyncStream.makeStream(of: [UInt8].self)
            let client = try environment.client()
            let bridge = MCPBridge(client: client, transport: transport, clock: ShortSleepClock()) { line.yield($0) }
            let parameters = #"{"protocolVersion":"2025-11-25","capabilities":{}}"#
            bridge.receive(Array(#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":\#(parameters)}"#.utf8))
            for await _ in lines { break }
            bridge.receive(Array(#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#.utf8))
            var seen: [String?] = []
            for await id in listeners {
                seen.append(id)
                guard seen.count < 3 else { break }
                guard seen.count == 2 else { continue }
                environment.emulator.revokeAccessTokens()
                let call =
                    #"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"test-tool","arguments":{}}}"#
                bridge.receive(Array(call.utf8))
            }
            await bridge.close()
            #expect(seen == [nil, "e1", "e1"])
        }
    }

    @Test(.timeLimit(.minutes(1)), arguments: [0, 20])
    func anAlwaysRejectedListeningStreamIsNotReopenedAtEachCall(_ calls: Int) async throws {
        try await ResourceEnvironment.with(.inProcess, Self.settings()) { environment in
            let listeners = Mutex(0)
            let transport = StreamTransport { request in
                guard request.head.method == .get, request.head.headerFields[.accept] == "text/event-stream" else {
                    return try await environment.transport.stream(request)
                }
                listeners.withLock { $0 += 1 }
                let challenge = #"Bearer error="invalid_token""#
                return ResponseStream(
                    head: HTTPResponse(status: .unauthorized, headerFields: [.wwwAuthenticate: challenge]),
                    body: ResponseBody([])
                )
            }
            let host = Self.host(try environment.client(), transport)
            _ = try await host.initialize()
            for _ in 0..<calls { #expect(try await host.call("test-tool")["result"] != nil) }
            while listeners.withLock({ $0 }) < 2, !Task.isCancelled { await Task.yield() }
            for _ in 0..<5000 { await Task.yield() }
            await host.close()
            // The bridge listens at most once with the first token, and once with the refreshed token.
            #expect(listeners.withLock { $0 } <= 2)
        }
    }

    @Test(arguments: ["mcp/", "/mcp/", "https://mcp.example.com/mcp/", "./mcp/"])
    func aRedirectMayBeRelative(_ location: String) async throws {
        let transport = InProcessTransport(origin: "https://mcp.example.com") { request, _ in
            guard request.path == "/mcp/" else {
                return TransportResponse(
                    head: HTTPResponse(status: .permanentRedirect, headerFields: [.location: location])
                )
            }
            return Self.json(#"{"jsonrpc":"2.0","id":1,"result":{}}"#)
        }
        let answer = try await Self.answer(to: #"{"jsonrpc":"2.0","id":1,"method":"ping"}"#, transport)
        #expect(answer["result"] != nil)
    }

    /// A server behind a proxy that terminates TLS may not know that the request was sent with https.
    @Test(arguments: [
        ("http://mcp.example.com/mcp/", true), ("http://mcp.example.com:80/mcp/", false),
        ("http://a.example/mcp/", false),
    ])
    func aRedirectToHTTPAtTheSameHostIsFollowedWithTLS(_ location: String, _ isFollowed: Bool) async throws {
        let urls = Mutex<[String]>([])
        let transport = StreamTransport { request in
            urls.withLock { $0.append(request.url) }
            guard request.url == "https://mcp.example.com/mcp/" else {
                let head = HTTPResponse(status: .temporaryRedirect, headerFields: [.location: location])
                return ResponseStream(head: head, body: ResponseBody([]))
            }
            let response = Self.json(#"{"jsonrpc":"2.0","id":1,"result":{}}"#)
            return ResponseStream(head: response.head, body: ResponseBody(response.body))
        }
        let answer = try await Self.answer(to: #"{"jsonrpc":"2.0","id":1,"method":"ping"}"#, transport)
        #expect((answer["result"] != nil) == isFollowed)
        #expect(urls.withLock { $0.allSatisfy { $0.hasPrefix("https://mcp.example.com/") } })
    }

    /// Only redirects with status 307 or 308 are followed, and at most three per request.
    @Test(arguments: [302, 307]) func anErrorNamesTheTargetOfARedirectThatIsNotFollowed(_ status: Int) async throws {
        let transport = InProcessTransport(origin: "https://mcp.example.com") { _, _ in
            let fields: HTTPFields = [.location: "https://mcp.example.com/mcp"]
            return TransportResponse(
                head: HTTPResponse(status: HTTPResponse.Status(code: status), headerFields: fields)
            )
        }
        let answer = try await Self.answer(to: #"{"jsonrpc":"2.0","id":1,"method":"ping"}"#, transport)
        let text = "(\(status)), which is not followed. If https://mcp.example.com/mcp is the correct address"
        #expect(answer["error"]?["message"]?.string?.contains(text) == true, "\(answer)")
    }

    @Test func anErrorForAWholeBatchIsReturnedForEachOfItsRequests() async throws {
        let transport = InProcessTransport(origin: "https://mcp.example.com") { _, _ in
            var response = Self.json(#"{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"No batches"}}"#)
            response.head.status = .badRequest
            return response
        }
        let answers = AsyncStream<[UInt8]>.makeStream()
        let bridge = MCPBridge(client: try Self.client(transport), transport: transport) {
            answers.continuation.yield($0)
        }
        bridge.receive(Array(#"[{"jsonrpc":"2.0","id":1,"method":"a"},{"jsonrpc":"2.0","id":2,"method":"c"}]"#.utf8))
        var open: Set<Int64> = [1, 2]
        for await line in answers.stream {
            let json = try JSON(parsing: line)
            #expect(json["error"]?["code"]?.integer == -32600)
            open.remove(json["id"]?.integer ?? 0)
            if open.isEmpty { break }
        }
        await bridge.close()
    }

    @Test func everyRequestOfABatchReceivesAResponseWhenTheServerFails() async throws {
        let transport = InProcessTransport(origin: "https://mcp.example.com") { _, _ in
            TransportResponse(head: HTTPResponse(status: .badGateway))
        }
        let answers = AsyncStream<[UInt8]>.makeStream()
        let bridge = MCPBridge(client: try Self.client(transport), transport: transport) {
            answers.continuation.yield($0)
        }
        bridge.receive(
            Array(
                #"[{"jsonrpc":"2.0","id":1,"method":"a"},{"jsonrpc":"2.0","method":"b"},{"jsonrpc":"2.0","id":2,"method":"c"}]"#
                    .utf8
            )
        )
        var open: Set<Int64> = [1, 2]
        for await line in answers.stream {
            open.remove(try JSON(parsing: line)["id"]?.integer ?? 0)
            if open.isEmpty { break }
        }
        await bridge.close()
    }

    /// Calls in progress may be waiting for a response in such a batch.
    @Test(.timeLimit(.minutes(1))) func aRejectedBatchWithoutRequestsIsLoggedAndDoesNotQueueBehindCalls() async throws {
        let pool = Mutex<ConnectionPool?>(nil)
        let transport = StreamTransport { call in
            pool.withLock { $0 = call.pool }
            return ResponseStream(head: HTTPResponse(status: .badRequest), body: ResponseBody([]))
        }
        let (texts, text) = AsyncStream.makeStream(of: String.self)
        var options = MCPBridge.Options()
        options.log = { text.yield($0) }
        let bridge = MCPBridge(client: try Self.client(transport), transport: transport, options: options) { _ in }
        bridge.receive(Array(#"[{"jsonrpc":"2.0","method":"a"},{"jsonrpc":"2.0","id":1,"result":{}}]"#.utf8))
        var logged = texts.makeAsyncIterator()
        let message = await logged.next()
        #expect(message == "The server responded with status 400 to a batch.")
        #expect(pool.withLock { $0 } == .replies)
        await bridge.close()
    }

    @Test func closingTheBridgeStartsNoSignIn() async throws {
        try await ResourceEnvironment.with(.inProcess, Self.settings()) { environment in
            let host = environment.host(try environment.client())
            _ = try await host.initialize()
            #expect(try await host.call("test-tool")["result"] != nil)
            environment.emulator.revokeAccessTokens()
            environment.emulator.removeClients()
            let before = environment.emulator.authorizations.count
            await host.close()
            #expect(environment.emulator.authorizations.count == before)
        }
    }

    @Test func addsTheRequestIDToAnErrorResponseWithANullID() async throws {
        let transport = InProcessTransport(origin: "https://mcp.example.com") { _, _ in
            TransportResponse(
                head: HTTPResponse(status: .badRequest, headerFields: [.contentType: "application/json"]),
                body: Array(
                    #"{"jsonrpc":"2.0","id":null,"error":{"code":-32022,"message":"No","data":{"supported":["x"]}}}"#
                        .utf8
                )
            )
        }
        let answer = try await Self.answer(to: #"{"jsonrpc":"2.0","id":"a","method":"server/discover"}"#, transport)
        #expect(answer["id"]?.string == "a")
        #expect(answer["error"]?["code"]?.integer == -32022)
        #expect(answer["error"]?["data"]?["supported"]?.strings == ["x"])
    }

    struct Failure: CustomTestStringConvertible {
        let name: String
        let response: @Sendable () throws -> TransportResponse
        let code: Int64
        var testDescription: String { name }
    }

    static let failures: [Failure] = [
        Failure(
            name: "a page",
            response: { TransportResponse(head: HTTPResponse(status: .ok), body: Array("<html>".utf8)) },
            code: 200
        ),
        Failure(name: "nothing", response: { TransportResponse(head: HTTPResponse(status: .accepted)) }, code: 202),
        Failure(name: "not found", response: { TransportResponse(head: HTTPResponse(status: .notFound)) }, code: 404),
        Failure(
            name: "a server error",
            response: { TransportResponse(head: HTTPResponse(status: .badGateway)) },
            code: 502
        ),
        Failure(
            name: "a redirect to another origin",
            response: {
                TransportResponse(
                    head: HTTPResponse(
                        status: .temporaryRedirect,
                        headerFields: [.location: "https://evil.example.com/mcp"]
                    )
                )
            },
            code: 307
        ),
        Failure(
            name: "a stream that ends without the result",
            response: {
                TransportResponse(
                    head: HTTPResponse(status: .ok, headerFields: [.contentType: "text/event-stream"]),
                    body: Array("data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\"}\n\n".utf8)
                )
            },
            code: 1
        ),
        Failure(
            name: "a result without an id",
            response: { Self.json(#"{"jsonrpc":"2.0","id":null,"result":{}}"#) },
            code: 200
        ),
        Failure(
            name: "a result for a different request",
            response: { Self.json(#"{"jsonrpc":"2.0","id":2,"result":{}}"#) },
            code: 200
        ),
        Failure(
            name: "an OAuth error response",
            response: {
                var response = Self.json(#"{"error":"rate_limited","error_description":"Later."}"#)
                response.head.status = .tooManyRequests
                return response
            },
            code: 429
        ),
        Failure(name: "no network", response: { throw AuthError(.networkFailed, "No network.") }, code: 1),
    ]

    @Test(arguments: failures) func returnsAnErrorResponseForEveryKindOfServerFailure(_ failure: Failure) async throws {
        let transport = InProcessTransport(origin: "https://mcp.example.com") { request, _ in
            #expect(request.method == .post)
            return try failure.response()
        }
        let answer = try await Self.answer(to: #"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#, transport)
        #expect(answer["id"]?.integer == 1)
        #expect(answer["error"]?["code"]?.integer == failure.code)
        #expect(answer["error"]?["message"]?.string?.isEmpty == false)
    }

    @Test func followsAndCachesASameOriginRedirect() async throws {
        let paths = Mutex<[String]>([])
        let transport = InProcessTransport(origin: "https://mcp.example.com") { request, _ in
            paths.withLock { $0.append(request.path ?? "") }
            guard request.path == "/mcp/" else {
                return TransportResponse(
                    head: HTTPResponse(status: .temporaryRedirect, headerFields: [.location: "/mcp/"])
                )
            }
            return TransportResponse(
                head: HTTPResponse(status: .ok, headerFields: [.contentType: "application/json"]),
                body: Array(#"{"jsonrpc":"2.0","id":1,"result":{}}"#.utf8)
            )
        }
        let answers = try await Self.answers(
            to: Array(repeating: #"{"jsonrpc":"2.0","id":1,"method":"ping"}"#, count: 2),
            transport
        )
        #expect(answers.count == 2)
        #expect(paths.withLock { $0 } == ["/mcp", "/mcp/", "/mcp/"])
    }

    @Test(arguments: ["not JSON", "{}", "[1", "\"text\"", "{\"jsonrpc\":\"2.0\",\"id\":1}"])
    func rejectsALineThatIsNotAValidJSONRPCMessage(_ line: String) async throws {
        let transport = InProcessTransport(origin: "https://mcp.example.com") { _, _ in
            throw AuthError(.networkFailed, "Not asked.")
        }
        let answer = try await Self.answer(to: line, transport)
        #expect(answer["error"]?["code"]?.integer == -32700)
    }

    @Test func cancellingARequestInRevision20260728ClosesItsStreamWithoutAResponse() async throws {
        let body = ResponseBody(limit: 1000)
        let isCancelled = AsyncStream<Void>.makeStream()
        body.onCancel { isCancelled.continuation.finish() }
        let posts = Mutex(0)
        let transport = StreamTransport { _ in
            posts.withLock { $0 += 1 }
            return ResponseStream(
                head: HTTPResponse(status: .ok, headerFields: [.contentType: "text/event-stream"]),
                body: body
            )
        }
        let lines = Mutex<[String]>([])
        let bridge = MCPBridge(client: try Self.client(transport), transport: transport) { line in
            lines.withLock { $0.append(String(decoding: line, as: UTF8.self)) }
        }
        let meta =
            #""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}"#
        bridge.receive(Array(#"{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"x",\#(meta)}}"#.utf8))
        while posts.withLock({ $0 }) == 0 { await Task.yield() }
        bridge.receive(
            Array(#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":5,\#(meta)}}"#.utf8)
        )
        for await _ in isCancelled.stream {}
        await bridge.close(within: .seconds(60))
        #expect(lines.withLock { $0 }.isEmpty)
        #expect(posts.withLock { $0 } == 1)
    }

    @Test func aStalledEventStreamTimesOut() async throws {
        let body = ResponseBody(limit: 1000)
        let transport = StreamTransport { _ in
            ResponseStream(
                head: HTTPResponse(status: .ok, headerFields: [.contentType: "text/event-stream"]),
                body: body
            )
        }
        let answers = AsyncStream<[UInt8]>.makeStream()
        let meta = #""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}"#
        let bridge = MCPBridge(client: try Self.client(transport), transport: transport, clock: HastyClock()) {
            answers.continuation.yield($0)
        }
        bridge.receive(Array(#"{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"x",\#(meta)}}"#.utf8))
        for await line in answers.stream {
            let json = try JSON(parsing: line)
            #expect(json["id"]?.integer == 5)
            #expect(json["error"]?["data"]?["cause"]?.string == "timed_out")
            break
        }
        await bridge.close()
    }

    @Test func aCallInRevision20260728IsNotRetriedWhenItsStreamBreaks() async throws {
        let posts = Mutex(0)
        let transport = StreamTransport { _ in
            posts.withLock { $0 += 1 }
            let body = ResponseBody(limit: 1000)
            body.append(Array("id: 1\nretry: 1\ndata:\n\n".utf8))
            body.finish(throwing: AuthError(.networkFailed, "Broken."))
            return ResponseStream(
                head: HTTPResponse(status: .ok, headerFields: [.contentType: "text/event-stream"]),
                body: body
            )
        }
        let meta = #""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}"#
        let answer = try await Self.answer(
            to: #"{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"x",\#(meta)}}"#,
            transport
        )
        #expect(answer["error"] != nil)
        #expect(posts.withLock { $0 } == 1)
    }

    @Test func aBodyIsCancelledOnlyAfterTheWholeIdleTimeout() async throws {
        let clock = SkippingClock()
        let start = clock.now
        let body = ResponseBody(limit: 1000)
        let watch = IdleTimeout(body, limit: .seconds(8), clock: clock)
        await expectError(.timedOut) { try await body.collect(upTo: 1000) }
        watch.end()
        #expect(start.duration(to: clock.now) == .seconds(8))
    }

    @Test func waitingForTheHostToReadAMessageIsNotIdleTime() async throws {
        let clock = SkippingClock(isRunning: false)
        let start = clock.now
        let body = ResponseBody(limit: 1000)
        let watch = IdleTimeout(body, limit: .seconds(8), clock: clock)
        watch.pause()
        clock.run()
        while start.duration(to: clock.now) < .seconds(80) { await Task.yield() }
        #expect(body.append([1]))
        watch.resume()
        await expectError(.timedOut) { try await body.collect(upTo: 1000) }
        watch.end()
    }

    /// The server resumes the stream without sending anything further, is not available, or no longer has the stream.
    @Test(arguments: [(200, 5), (503, 6), (404, 1)])
    func aStreamThatCannotBeResumedFailsAfterAFewAttempts(_ status: Int, _ attempts: Int) async throws {
        let count = Mutex(0)
        let transport = InProcessTransport(origin: "https://mcp.example.com") { request, _ in
            var response = TransportResponse(
                head: HTTPResponse(status: .ok, headerFields: [.contentType: "text/event-stream"]),
                body: Array("id: 1\ndata:\n\n".utf8)
            )
            guard request.method == .get else { return response }
            let number = count.withLock { count in
                count += 1
                return count
            }
            // Without a limit, the attempts would never end.
            guard number <= 20 else {
                response.body = Array("data: {\"jsonrpc\":\"2.0\",\"id\":5,\"result\":{}}\n\n".utf8)
                return response
            }
            response.head.status = HTTPResponse.Status(code: status)
            response.body = []
            return response
        }
        let line = #"{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"x"}}"#
        let answer = try #require(try await Self.answers(to: [line], transport, clock: ShortSleepClock()).first)
        let text = status == 200 ? "ended the stream before it sent the response" : "did not resume it"
        #expect(answer["error"]?["message"]?.string?.contains(text) == true, "\(answer)")
        #expect(count.withLock { $0 } == attempts)
    }

    /// The server assigns the session ID in the response whose stream is interrupted.
    @Test func theRequestThatResumesTheInitializeStreamHasTheSessionID() async throws {
        let name = try #require(HTTPField.Name("Mcp-Session-Id"))
        let transport = InProcessTransport(origin: "https://mcp.example.com") { request, _ in
            var response = TransportResponse(
                head: HTTPResponse(status: .ok, headerFields: [.contentType: "text/event-stream"]),
                body: Array("id: 1\ndata:\n\n".utf8)
            )
            if request.method == .post {
                response.head.headerFields[name] = "session"
            } else if request.headerFields[name] == "session" {
                response.body = Array("data: {\"jsonrpc\":\"2.0\",\"id\":0,\"result\":{}}\n\n".utf8)
            } else {
                response.head.status = .badRequest
            }
            return response
        }
        let line = String(decoding: Self.initialize, as: UTF8.self)
        let answer = try #require(try await Self.answers(to: [line], transport, clock: ShortSleepClock()).first)
        #expect(answer["result"] != nil, "\(answer)")
    }

    @Test func rejectsAResponseThatExceedsTheMaximumSize() async throws {
        let transport = StreamTransport { _ in
            let body = ResponseBody(limit: 65 << 20)
            let part = [UInt8](repeating: 0x20, count: 1 << 20)
            for _ in 0..<65 { body.append(part) }
            body.finish()
            return ResponseStream(head: HTTPResponse(status: .ok), body: body)
        }
        let answer = try await Self.answer(to: #"{"jsonrpc":"2.0","id":1,"method":"ping"}"#, transport)
        #expect(answer["error"]?["message"]?.string?.contains("exceeds 64 MiB") == true, "\(answer)")
    }

    @Test func aBlankEventIsIgnoredWithoutALogMessage() async throws {
        let transport = InProcessTransport(origin: "https://mcp.example.com") { _, _ in
            TransportResponse(
                head: HTTPResponse(status: .ok, headerFields: [.contentType: "text/event-stream"]),
                body: Array("data:  \n\ndata: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n\n".utf8)
            )
        }
        let log = Mutex<[String]>([])
        var options = MCPBridge.Options()
        options.log = { text in log.withLock { $0.append(text) } }
        let (lines, line) = AsyncStream.makeStream(of: [UInt8].self)
        let bridge = MCPBridge(client: try Self.client(transport), transport: transport, options: options) {
            line.yield($0)
        }
        bridge.receive(Array(#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#.utf8))
        for await bytes in lines {
            #expect(try JSON(parsing: bytes)["result"] != nil)
            break
        }
        #expect(log.withLock { $0 }.isEmpty)
        await bridge.close()
    }

    /// RFC 8259 allows all of these values.
    @Test(arguments: [#""a\u0000b""#, #""abc\ud83d""#, #""\ude00\ud83d""#, "18446744073709551616", "1e400"])
    func forwardsMessagesByteForByte(_ value: String) async throws {
        let line = #"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"x":\#(value)}}"#
        let reply = #"{"jsonrpc":"2.0","id":7,"result":{"x":\#(value)}}"#
        let heard = Mutex<[UInt8]>([])
        let transport = InProcessTransport(origin: "https://mcp.example.com") { _, body in
            heard.withLock { $0 = body }
            return Self.json(reply)
        }
        let answers = AsyncStream<[UInt8]>.makeStream()
        let bridge = MCPBridge(client: try Self.client(transport), transport: transport) {
            answers.continuation.yield($0)
        }
        bridge.receive(Array(line.utf8))
        for await answer in answers.stream {
            #expect(answer == Array(reply.utf8))
            break
        }
        #expect(heard.withLock { $0 } == Array(line.utf8))
        await bridge.close()
    }

    /// A host that parses the line would reject it.
    @Test func forwardsMessagesWithoutTheirByteOrderMark() async throws {
        let line = #"{"jsonrpc":"2.0","id":7,"method":"tools/list"}"#
        let reply = #"{"jsonrpc":"2.0","id":7,"result":{"tools":[]}}"#
        let mark = "\u{FEFF}"
        let heard = Mutex<[UInt8]>([])
        let transport = InProcessTransport(origin: "https://mcp.example.com") { _, body in
            heard.withLock { $0 = body }
            return Self.json(mark + reply)
        }
        let answers = AsyncStream<[UInt8]>.makeStream()
        let bridge = MCPBridge(client: try Self.client(transport), transport: transport) {
            answers.continuation.yield($0)
        }
        bridge.receive(Array((mark + line).utf8))
        for await answer in answers.stream {
            #expect(answer == Array(reply.utf8))
            break
        }
        #expect(heard.withLock { $0 } == Array(line.utf8))
        await bridge.close()
    }

    /// Only a tool list of revision 2026-07-28 is changed, and only if a tool must be removed from it.
    @Test(arguments: [
        ("tools/call", true, #"{"x-mcp-header":"A"}"#), ("tools/list", false, #"{"x-mcp-header":"A"}"#),
        ("tools/list", true, "{}"),
    ])
    func aResponseWithoutToolsToRemoveIsForwardedByteForByte(
        _ method: String,
        _ isModern: Bool,
        _ schema: String
    ) async throws {
        let reply = #"{ "jsonrpc":"2.0", "id":1, "result":{"tools":[{"name":"x","inputSchema":\#(schema)}]} }"#
        let transport = InProcessTransport(origin: "https://mcp.example.com") { _, _ in Self.json(reply) }
        let (lines, line) = AsyncStream.makeStream(of: [UInt8].self)
        let bridge = MCPBridge(client: try Self.client(transport), transport: transport) { line.yield($0) }
        let meta = isModern ? #""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}"# : ""
        bridge.receive(Array(#"{"jsonrpc":"2.0","id":1,"method":"\#(method)","params":{\#(meta)}}"#.utf8))
        for await answer in lines {
            #expect(String(decoding: answer, as: UTF8.self) == reply)
            break
        }
        await bridge.close()
    }

    @Test func aCallIsNotRepeatedWhenTheToolsCannotBeListedAgain() async throws {
        let methods = Mutex<[String]>([])
        let transport = InProcessTransport(origin: "https://mcp.example.com") { _, body in
            let message = try JSON(parsing: body)
            methods.withLock { $0.append(message["method"]?.string ?? "") }
            let error: JSON = ["code": message["id"] == 5 ? -32020 : -32603, "message": "No"]
            return jsonResponse(.ok, ["jsonrpc": "2.0", "id": message["id"] ?? .null, "error": error])
        }
        let meta = #""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}"#
        let line = #"{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"x",\#(meta)}}"#
        let answer = try await Self.answer(to: line, transport)
        #expect(answer["error"]?["code"]?.integer == -32020)
        #expect(methods.withLock { $0 } == ["tools/call", "tools/list"])
    }

    /// The bridge reads the exact values from the bytes of a message, because header fields derived from it must match
    /// the body.
    @Test(arguments: [
        (#""x-1e999-20250101123000000001\u0000""#, #""x-1e999-20250101123000000001\ufffd""#),
        (#"["-1e999",-1e999,18446744073709551616,-5]"#, #"["-1e999",-1e308,18446744073709551616.0,-5]"#),
        (#""\ud83d\ude00\ud83d""#, #""\ud83d\ude00\ufffd""#), (#""a\"-1\\""#, #""a\"-1\\""#),
        (#""\u+000""#, #""\u+000""#), (#""\n0000""#, #""\n0000""#), (#""\ud83d\u0041""#, #""\ufffd\u0041""#),
        (#""\ud83dxude00""#, #""\ufffdxude00""#), (#""\ud83d\ude"#, #""\ufffd\ude"#), (#""\u00"#, #""\u00"#),
        (#""\"#, #""\"#),
    ]) func replacesOnlyValuesThatTheJSONParserRejects(_ text: String, _ readable: String) {
        #expect(String(decoding: ReadableJSON.bytes(Array(text.utf8)), as: UTF8.self) == readable)
    }

    @Test func aBatchOfServerRequestsIsForwardedToTheHost() async throws {
        let batch =
            #"[{"jsonrpc":"2.0","method":"notifications/progress","params":{}},{"jsonrpc":"2.0","id":7,"method":"ping"}]"#
        let transport = InProcessTransport(origin: "https://mcp.example.com") { _, _ in
            TransportResponse(
                head: HTTPResponse(status: .ok, headerFields: [.contentType: "text/event-stream"]),
                body: Array("data: \(batch)\n\ndata: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n\n".utf8)
            )
        }
        let answers = AsyncStream<[UInt8]>.makeStream()
        let bridge = MCPBridge(client: try Self.client(transport), transport: transport) {
            answers.continuation.yield($0)
        }
        bridge.receive(Array(#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#.utf8))
        for await line in answers.stream {
            #expect(line == Array(batch.utf8))
            break
        }
        await bridge.close()
    }

    @Test(arguments: ["tasks/get", "tasks/update", "tasks/cancel"])
    func aTaskRequestContainsTheTaskIDInTheMcpNameHeader(_ method: String) async throws {
        let names = Mutex<[String?]>([])
        let transport = InProcessTransport(origin: "https://mcp.example.com") { request, _ in
            names.withLock { $0.append(request.headerFields[HTTPField.Name("Mcp-Name")!]) }
            return Self.json(#"{"jsonrpc":"2.0","id":1,"result":{}}"#)
        }
        let meta = #""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}"#
        let line = #"{"jsonrpc":"2.0","id":1,"method":"\#(method)","params":{"taskId":"task 7",\#(meta)}}"#
        _ = try await Self.answer(to: line, transport)
        #expect(names.withLock { $0 } == ["task 7"])
    }

    @Test func theRequestTimeoutEqualsTheIdleTimeoutOfAStream() async throws {
        let timeouts = Mutex<[Duration]>([])
        let transport = StreamTransport { request in
            timeouts.withLock { $0.append(request.timeout) }
            return ResponseStream(
                head: HTTPResponse(status: .ok, headerFields: [.contentType: "application/json"]),
                body: ResponseBody(Array(#"{"jsonrpc":"2.0","id":1,"result":{}}"#.utf8))
            )
        }
        var options = MCPBridge.Options()
        options.idleTimeout = .seconds(3600)
        let answers = AsyncStream<[UInt8]>.makeStream()
        let bridge = MCPBridge(client: try Self.client(transport), transport: transport, options: options) {
            answers.continuation.yield($0)
        }
        bridge.receive(Array(#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#.utf8))
        for await _ in answers.stream { break }
        #expect(timeouts.withLock { $0 } == [.seconds(3600)])
        await bridge.close()
    }

    @Test func aResponseToAnotherRequestDoesNotReachTheHost() async throws {
        let transport = InProcessTransport(origin: "https://mcp.example.com") { _, _ in
            let events = [2, 1, 1].map { "data: {\"jsonrpc\":\"2.0\",\"id\":\($0),\"result\":{}}\n\n" }
            return TransportResponse(
                head: HTTPResponse(status: .ok, headerFields: [.contentType: "text/event-stream"]),
                body: Array(events.joined().utf8)
            )
        }
        let answer = try await Self.answer(to: #"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#, transport)
        #expect(answer["id"] == 1)
    }

    @Test func aBatchWithResponsesToOtherRequestsDoesNotReachTheHost() async throws {
        let transport = InProcessTransport(origin: "https://mcp.example.com") { _, _ in
            let answer = #"{"jsonrpc":"2.0","id":1,"result":{}}"#
            let other = #"{"jsonrpc":"2.0","id":99,"result":{}}"#
            return TransportResponse(
                head: HTTPResponse(status: .ok, headerFields: [.contentType: "text/event-stream"]),
                body: Array("data: [\(answer),\(answer),\(other)]\n\ndata: \(answer)\n\n".utf8)
            )
        }
        let answer = try await Self.answer(to: #"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#, transport)
        #expect(answer["id"] == 1)
    }

    @Test func rejectsAResponseBatchWithADuplicateID() async throws {
        let transport = InProcessTransport(origin: "https://mcp.example.com") { _, _ in
            Self.json(#"[{"jsonrpc":"2.0","id":1,"result":{}},{"jsonrpc":"2.0","id":1,"result":{}}]"#)
        }
        let answer = try await Self.answer(to: #"[{"jsonrpc":"2.0","id":1,"method":"tools/list"}]"#, transport)
        #expect(answer["id"] == 1 && answer["error"] != nil)
    }

    /// Some servers send 5 as "5".
    @Test func aResponseToABatchHasTheIDsOfTheRequests() async throws {
        let transport = InProcessTransport(origin: "https://mcp.example.com") { _, _ in
            Self.json(#"[{"jsonrpc":"2.0","id":"1","result":{}}]"#)
        }
        let answer = try await Self.answer(to: #"[{"jsonrpc":"2.0","id":1,"method":"tools/list"}]"#, transport)
        #expect(answer.array?.first == ["jsonrpc": "2.0", "id": 1, "result": [:]])
        let single = try await Self.answer(to: #"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#, transport)
        #expect(single.array?.first?["id"] == 1)
    }

    @Test("The responses to a batch of thousands of requests are matched in time", .timeLimit(.minutes(1)))
    func aLargeBatchIsMatchedInTime() throws {
        let ids = (0..<2000).map { JSON.integer($0) }
        let answered = Array(ids.reversed())
        let responses = answered.map { JSON.object(["jsonrpc": "2.0", "id": $0, "result": [:]]) }
        let batch = try #require(MCPMessage(.array(responses)))
        #expect(batch.responding(to: ids)?.ids == answered)
        #expect(batch.responding(to: Array(ids.dropFirst()))?.ids == nil)
    }

    @Test func aBatchReceivesOnlyOneResponseToEachOfItsRequests() async throws {
        let transport = InProcessTransport(origin: "https://mcp.example.com") { _, _ in
            let events = [99, 1, 1, 2].map { "data: {\"jsonrpc\":\"2.0\",\"id\":\($0),\"result\":{}}\n\n" }
            return TransportResponse(
                head: HTTPResponse(status: .ok, headerFields: [.contentType: "text/event-stream"]),
                body: Array(events.joined().utf8)
            )
        }
        let ids = Mutex<[Int64?]>([])
        let client = try Self.client(transport)
        let bridge = MCPBridge(client: client, transport: transport, clock: StoppedClock()) { line in
            ids.withLock { $0.append((try? JSON(parsing: line))?["id"]?.integer) }
        }
        bridge.receive(Array(#"[{"jsonrpc":"2.0","id":1,"method":"a"},{"jsonrpc":"2.0","id":2,"method":"c"}]"#.utf8))
        await bridge.close(within: .seconds(60))
        #expect(ids.withLock { $0 } == [1, 2])
    }

    @Test(arguments: [#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#, #"{"jsonrpc":"2.0","method":"n"}"#])
    func aClosedBridgeSendsNothing(_ line: String) async throws {
        let server = SessionServer { _, _ in nil }
        let bridge = MCPBridge(client: try Self.client(server), transport: server, clock: StoppedClock()) { _ in }
        await bridge.close()
        bridge.receive(Array(line.utf8))
        await bridge.close(within: .seconds(60))
        #expect(server.received.isEmpty)
    }

    @Test(arguments: ["", "\n", " \t\r\n"]) func aBlankLineIsIgnored(_ line: String) async throws {
        let server = SessionServer { _, _ in nil }
        let lines = Mutex<[[UInt8]]>([])
        let bridge = MCPBridge(client: try Self.client(server), transport: server, clock: StoppedClock()) { line in
            lines.withLock { $0.append(line) }
        }
        bridge.receive(Array(line.utf8))
        await bridge.close(within: .seconds(60))
        #expect(lines.withLock { $0 }.isEmpty)
    }

    @Test(.timeLimit(.minutes(1))) func aCancelledLargeMessageIsNotWritten() async throws {
        var ends: [Int32] = [-1, -1]
        #expect(unsafe pipe(&ends) == 0)
        let (reader, writer) = (ends[0], ends[1])
        defer { close(reader) }
        let output = MessageOutput(descriptor: writer)
        let task = Task {
            while !Task.isCancelled { await Task.yield() }
            await output.write([UInt8](repeating: UInt8(ascii: "a"), count: 1 << 20))
        }
        let collected = Task { await Self.onThread { Self.contents(of: reader) } }
        task.cancel()
        await task.value
        await output.write(Array("small".utf8))
        for _ in 0..<10 { await output.finish() }
        close(writer)
        let written = await collected.value
        #expect(written == Array("small\n".utf8))
    }

    /// Large messages that the host reads slowly do not delay small messages.
    @Test(.timeLimit(.minutes(1))) func aSmallMessageIsWrittenBeforeAQueuedLargeMessage() async throws {
        var ends: [Int32] = [-1, -1]
        #expect(unsafe pipe(&ends) == 0)
        let (reader, writer) = (ends[0], ends[1])
        defer { close(reader) }
        let output = MessageOutput(descriptor: writer)
        let first = Task { await output.write([UInt8](repeating: UInt8(ascii: "a"), count: 1 << 20)) }
        let count = await Self.onThread {
            var byte: UInt8 = 0
            return unsafe read(reader, &byte, 1)
        }
        #expect(count == 1)
        let second = Task { await output.write([UInt8](repeating: UInt8(ascii: "b"), count: 1 << 20)) }
        while output.waitingCount < 2 { await Task.yield() }
        await output.write(Array("small".utf8))
        let collected = Task { await Self.onThread { Self.contents(of: reader) } }
        await first.value
        await second.value
        await output.finish()
        close(writer)
        let lines = await collected.value.split(separator: 0x0A).map { String(decoding: $0.prefix(5), as: UTF8.self) }
        #expect(lines == ["aaaaa", "small", "bbbbb"])
    }

    @Test(.timeLimit(.minutes(1)), arguments: [5, 1 << 20])
    func reportsOnlyTheFirstFailedWriteAndDiscardsLaterMessages(_ size: Int) async throws {
        var ends: [Int32] = [-1, -1]
        #expect(unsafe pipe(&ends) == 0)
        let (reader, writer) = (ends[0], ends[1])
        defer {
            close(reader)
            close(writer)
        }
        let failures = Mutex<[Int32]>([])
        // Writing to the read end of a pipe fails without a SIGPIPE.
        let output = MessageOutput(descriptor: reader) { number in failures.withLock { $0.append(number) } }
        for _ in 0..<3 {
            await output.write([UInt8](repeating: UInt8(ascii: "a"), count: size))
            await output.finish()
        }
        let numbers = failures.withLock { $0 }
        #expect(numbers == [EBADF])
        #expect(output.waitingCount == 0)
    }

    // MARK: Help

    private static let initialize = Array(#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{}}"#.utf8)

    /// A bridge, and the lines that it writes.
    private static func bridge(to server: SessionServer) throws -> (bridge: MCPBridge, lines: AsyncStream<[UInt8]>) {
        let (lines, line) = AsyncStream.makeStream(of: [UInt8].self)
        let bridge = MCPBridge(client: try client(server), transport: server, clock: StoppedClock()) { line.yield($0) }
        return (bridge, lines)
    }

    /// Begins a session, sends a request in it, and, when the request has arrived, begins another session.
    private nonisolated(nonsending) static func beginTwoSessions(
        of bridge: MCPBridge,
        answers: inout AsyncStream<[UInt8]>.Iterator,
        afterRequestIn arrivals: AsyncStream<Void>
    ) async {
        bridge.receive(initialize)
        _ = await answers.next(isolation: #isolation)
        bridge.receive(Array(#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#.utf8))
        for await _ in arrivals { break }
        bridge.receive(initialize)
        _ = await answers.next(isolation: #isolation)
    }

    private static let notFound = TransportResponse(head: HTTPResponse(status: .notFound))

    /// A server that numbers its sessions, and answers each message to which its closure gives no other response.
    private final class SessionServer: HTTPTransport {
        typealias Response = @Sendable (_ message: JSON, _ session: String?) async throws -> TransportResponse?
        private let response: Response
        private let state = Mutex((sessions: 0, received: [String]()))

        init(_ response: @escaping Response) { self.response = response }

        /// The messages that were received, each as its method and its session.
        var received: [String] { state.withLock { $0.received } }

        func send(_ call: TransportRequest) async throws -> TransportResponse {
            let message = (try? JSON(parsing: call.body)) ?? .null
            let method = message["method"]?.string ?? call.head.method.rawValue
            let session = call.head.headerFields[HTTPField.Name("Mcp-Session-Id")!]
            state.withLock { $0.received.append("\(method) \(session ?? "-")") }
            if let response = try await response(message, session) { return response }
            guard let id = message["id"] else {
                let isListener = call.head.method == .get
                return TransportResponse(head: HTTPResponse(status: isListener ? .methodNotAllowed : .accepted))
            }
            guard method == "initialize" else { return try BridgeTests.answer(id) }
            let number = state.withLock { state in
                state.sessions += 1
                return state.sessions
            }
            return try BridgeTests.answer(id, session: number)
        }
    }

    /// Runs a blocking function on a separate thread, so that it blocks no other test.
    private static func onThread<Value: Sendable>(_ body: @escaping @Sendable () -> Value) async -> Value {
        await withCheckedContinuation { continuation in
            _ = DetachedThread.run { continuation.resume(returning: body()) }
        }
    }

    /// Reads from a descriptor until its other end is closed.
    private static func contents(of descriptor: Int32) -> [UInt8] {
        var bytes: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 1 << 16)
        while true {
            let count = unsafe read(descriptor, &buffer, buffer.count)
            guard count > 0 else { return bytes }
            bytes += buffer[..<count]
        }
    }

    private static func json(_ text: String) -> TransportResponse {
        TransportResponse(
            head: HTTPResponse(status: .ok, headerFields: [.contentType: "application/json"]),
            body: Array(text.utf8)
        )
    }

    private struct StreamTransport: HTTPTransport {
        let body: @Sendable (TransportRequest) async throws -> ResponseStream
        init(_ body: @escaping @Sendable (TransportRequest) async throws -> ResponseStream) { self.body = body }
        func stream(_ call: TransportRequest) async throws -> ResponseStream { try await body(call) }
        func send(_ call: TransportRequest) async throws -> TransportResponse {
            let response = try await body(call)
            return TransportResponse(head: response.head, body: try await response.body.collect(upTo: 1 << 20))
        }
    }

    /// A successful response to a request.
    /// - Parameter session: The number of the session that the response starts.
    private static func answer(_ id: JSON, session: Int? = nil) throws -> TransportResponse {
        var response = json("{}")
        response.body = try JSON.object(["jsonrpc": "2.0", "id": id, "result": ["protocolVersion": "2025-11-25"]])
            .serialized()
        if let session { response.head.headerFields[HTTPField.Name("Mcp-Session-Id")!] = "session\(session)" }
        return response
    }

    /// A server that answers each message, and opens listening streams with the given bodies.
    private static func listening(
        _ body: @escaping @Sendable (TransportRequest) -> ResponseBody
    ) -> StreamTransport {
        StreamTransport { request in
            guard request.head.method == .get, request.head.headerFields[.accept] == "text/event-stream" else {
                let response = try answer(try JSON(parsing: request.body)["id"] ?? .null)
                return ResponseStream(head: response.head, body: ResponseBody(response.body))
            }
            return ResponseStream(
                head: HTTPResponse(status: .ok, headerFields: [.contentType: "text/event-stream"]),
                body: body(request)
            )
        }
    }

    private static func host(_ client: ResourceClient, _ transport: any HTTPTransport) -> BridgedHost {
        BridgedHost(client: client, transport: transport, version: nil)
    }

    private static func client(_ transport: any HTTPTransport) throws -> ResourceClient {
        try ResourceClient("https://mcp.example.com/mcp", methods: [], transport: transport)
    }

    private static func answer(to line: String, _ transport: any HTTPTransport) async throws -> JSON {
        try #require(try await answers(to: [line], transport).first)
    }

    /// The responses to lines, each of which is sent after the response to the previous line.
    private static func answers(
        to lines: [String],
        _ transport: any HTTPTransport,
        clock: any Clock<Duration> = ContinuousClock()
    ) async throws -> [JSON] {
        let answers = AsyncStream<[UInt8]>.makeStream()
        let bridge = MCPBridge(client: try client(transport), transport: transport, clock: clock) {
            answers.continuation.yield($0)
        }
        var rest = lines[...]
        bridge.receive(Array(rest.removeFirst().utf8))
        var found: [JSON] = []
        for await line in answers.stream {
            let json = try JSON(parsing: line)
            guard json["method"] == nil else { continue }
            found.append(json)
            guard !rest.isEmpty else { break }
            bridge.receive(Array(rest.removeFirst().utf8))
        }
        await bridge.close()
        return found
    }
}

/// A clock whose sleeps return immediately.
private struct HastyClock: Clock {
    var now: ContinuousClock.Instant { .now }
    var minimumResolution: Duration { .zero }
    func sleep(until deadline: ContinuousClock.Instant, tolerance: Duration?) async throws {
        try Task.checkCancellation()
    }
}

/// A clock whose sleeps return immediately and advance its time.
private final class SkippingClock: Clock {
    private let time = Mutex(ContinuousClock.now)
    private let beginning = FirstResult<Void>()

    /// - Parameter isRunning: Whether sleeps return before ``run()`` is called.
    init(isRunning: Bool = true) { if isRunning { run() } }

    func run() { beginning.finish(.success(())) }

    var now: ContinuousClock.Instant { time.withLock { $0 } }
    var minimumResolution: Duration { .zero }
    func sleep(until deadline: ContinuousClock.Instant, tolerance: Duration?) async throws {
        try await beginning.value(begin: {})
        try Task.checkCancellation()
        time.withLock { $0 = max($0, deadline) }
        await Task.yield()
    }
}

/// A clock whose short sleeps, such as the delays between attempts, return immediately. Its long sleeps, such as
/// timeouts, end only when they are cancelled.
private struct ShortSleepClock: Clock {
    /// The duration of the longest short sleep.
    var limit = Duration.seconds(100)
    /// Called before each long sleep.
    var onLongSleep: @Sendable (Duration) -> Void = { _ in }
    var now: ContinuousClock.Instant { .now }
    var minimumResolution: Duration { .zero }
    func sleep(until deadline: ContinuousClock.Instant, tolerance: Duration?) async throws {
        let duration = now.duration(to: deadline)
        if duration > limit {
            onLongSleep(duration)
            try await Task<Never, Never>.never()
        }
        try Task.checkCancellation()
    }
}
