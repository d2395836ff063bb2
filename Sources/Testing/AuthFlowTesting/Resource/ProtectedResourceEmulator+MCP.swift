import AuthFlow
import AuthFlowEssentials
import Synchronization

// The MCP server of a protected resource.

extension ProtectedResourceEmulator {
    private static let session = HTTPField.Name(known: "Mcp-Session-Id")
    private static let version = HTTPField.Name(known: "MCP-Protocol-Version")
    private static let method = HTTPField.Name(known: "Mcp-Method")
    private static let name = HTTPField.Name(known: "Mcp-Name")
    private static let versionKey = "io.modelcontextprotocol/protocolVersion"

    func mcp(_ received: ReceivedRequest, _ body: [UInt8], _ settings: ResourceSettings) -> TransportResponse {
        let message = try? JSON(parsing: body)
        let isCall = message?["method"]?.string == "tools/call"
        if settings.supportsOnlyPOST, received.request.method != .post {
            if received.request.headerFields[.authorization] == nil, received.request.method == .get {
                // A probe from a client that has not yet determined what kind of server this is.
                return Self.notFound
            }
            return settings.version == nil
                ? Self.notFound : TransportResponse(head: HTTPResponse(status: .methodNotAllowed))
        }
        expect(received.query["access_token"] == nil, "a token in the query")
        if let refusal = refusal(received, isCall, settings) { return refusal }
        if isCall { state.withLock { $0.calls += 1 } }
        switch received.request.method {
        case .get: return listen(received, settings)
        case .delete:
            let id = received.request.headerFields[Self.session] ?? ""
            return TransportResponse(
                head: HTTPResponse(status: state.withLock { $0.sessions.remove(id) } == nil ? .notFound : .noContent)
            )
        case .post: break
        default: return TransportResponse(head: HTTPResponse(status: .methodNotAllowed))
        }
        guard let message else { return error(nil, -32700, "Parse error", .badRequest) }
        let accept = received.request.headerFields[.accept] ?? ""
        expect(
            accept.contains("application/json") && accept.contains("text/event-stream"),
            "Accept does not list both media types"
        )
        expect(received.request.headerFields[HTTPField.Name(known: "Origin")] == nil, "an Origin field")
        let response =
            message["params"]?["_meta"]?[Self.versionKey] != nil
            ? modern(received, message, settings) : legacy(received, message, settings)
        guard settings.streams, response.status == 200, !response.body.isEmpty else { return response }
        return stream(response, message, settings)
    }

    // MARK: Tokens

    /// The response (401, 403 or 410) to a request whose token is invalid or insufficient; nil when the token is accepted.
    private func refusal(_ received: ReceivedRequest, _ isCall: Bool, _ settings: ResourceSettings)
        -> TransportResponse?
    {
        let parts = (received.request.headerFields[.authorization] ?? "").split(separator: " ").map(String.init)
        let grant = parts.count == 2 ? state.withLock { $0.accessTokens[parts[1]] } : nil
        let scheme = settings.dpop == .none ? "Bearer" : "DPoP"
        if settings.growsScopes {
            let number = state.withLock { state in
                state.refusals += 1
                return state.refusals
            }
            return challenge(scheme, #"error="insufficient_scope""#, ["scope\(number)"], settings, .forbidden)
        }
        if settings.forbids, parts.count == 2 { return challenge(scheme, nil, nil, settings, .forbidden) }
        if settings.rejectsTokens { return challenge(scheme, #"error="invalid_token""#, nil, settings) }
        if parts.count == 2, grant == nil || (grant?.expiresAt ?? now()) <= now() {
            return challenge(scheme, #"error="invalid_token""#, settings.challengeScopes, settings)
        }
        guard let grant else { return challenge(scheme, nil, settings.challengeScopes, settings) }
        if let acr = settings.requiredACR, state.withLock({ $0.requestedACR }) != acr {
            let demand = #"error="insufficient_user_authentication", acr_values="\#(acr)", max_age="300""#
            return challenge(scheme, demand, nil, settings)
        }
        if settings.dpop != .none {
            let nonce = settings.dpop == .requiredWithNonce ? "nonce-of-the-resource" : nil
            expect(parts[0].lowercased() == "dpop", "a bound token was sent with a scheme other than DPoP")
            switch proof(received, at: origin + received.path, accessToken: parts[1], nonce: nonce) {
            case .valid(grant.thumbprint ?? ""): break
            case .refused(EmulatedProof.missingNonce, _):
                var response = challenge("DPoP", #"error="use_dpop_nonce""#, nil, settings)
                response.head.headerFields[.dpopNonce] = nonce
                return response
            case .valid:
                note("a proof signed with a different key")
                return challenge("DPoP", #"error="invalid_token""#, nil, settings)
            case .refused(_, let reason):
                note("a DPoP proof was rejected: \(reason)")
                return challenge("DPoP", #"error="invalid_dpop_proof""#, nil, settings)
            }
        }
        let trusted =
            settings.migratesAfterFirstCall && state.withLock { $0.calls } > 0
            ? settings.issuerPaths.last : settings.issuerPaths.first
        if grant.issuer != trusted {
            return challenge(scheme, #"error="invalid_token""#, settings.challengeScopes, settings)
        }
        guard isCall else { return nil }
        let missing = settings.toolScopes.filter { !grant.scopes.contains($0) }
        guard settings.refusesCalls || !missing.isEmpty else { return nil }
        let refusals = state.withLock { state in
            state.refusals += 1
            return state.refusals
        }
        // Conformance "scope-retry-limit": a client that continues to retry receives a different response, so that the
        // test ends.
        guard refusals <= 3 || !settings.refusesCalls else {
            return TransportResponse(head: HTTPResponse(status: .gone))
        }
        let asked = settings.stepsUpAsBearer ? "Bearer" : scheme
        return challenge(asked, #"error="insufficient_scope""#, settings.toolScopes, settings, .forbidden)
    }

    private func challenge(
        _ scheme: String,
        _ error: String?,
        _ scopes: [String]?,
        _ settings: ResourceSettings,
        _ status: HTTPResponse.Status = .unauthorized
    ) -> TransportResponse {
        var response = TransportResponse(head: HTTPResponse(status: status))
        guard settings.challenges else { return response }
        var parameters = [error].compactMap { $0 }
        if let scopes { parameters.append("scope=\"\(scopes.joined(separator: " "))\"") }
        if settings.challengeNamesMetadata {
            let place =
                switch settings.metadataPlace {
                case .path, .none: Self.wellKnown + settings.endpoint
                case .root: Self.wellKnown
                case .custom(let path): path
                }
            parameters.append("resource_metadata=\"\(origin)\(place)\"")
        }
        response.head.headerFields[.wwwAuthenticate] =
            parameters.isEmpty ? scheme : "\(scheme) \(parameters.joined(separator: ", "))"
        return response
    }

    // MARK: Messages

    /// Handles a request in protocol version 2026-07-28 or later, whose header fields repeat values from its body.
    private func modern(_ received: ReceivedRequest, _ message: JSON, _ settings: ResourceSettings) -> TransportResponse
    {
        let fields = received.request.headerFields
        let meta = message["params"]?["_meta"]
        let id = message["id"]
        expect(fields[Self.session] == nil, "a session in a protocol version without sessions")
        expect(
            meta?["io.modelcontextprotocol/clientCapabilities"]?.object != nil,
            "a request without clientCapabilities"
        )
        guard fields[Self.version] == meta?[Self.versionKey]?.string else {
            return error(id, -32020, "Header mismatch", .badRequest)
        }
        if let refusal = refusedVersion(fields[Self.version], id, settings) { return refusal }
        let subject = message["params"]?["name"]?.string ?? message["params"]?["uri"]?.string
        let namesSubject = ["tools/call", "prompts/get", "resources/read"].contains(message["method"]?.string)
        guard fields[Self.method] == message["method"]?.string,
            !namesSubject || Self.decoded(fields[Self.name]) == subject
        else {
            return error(id, -32020, "Header mismatch", .badRequest)
        }
        if message["method"]?.string == "tools/call" {
            let tool = settings.tools.first { $0["name"]?.string == subject }
            for (name, property) in tool?["inputSchema"]?["properties"]?.object ?? [:] {
                guard let annotation = property["x-mcp-header"]?.string,
                    let field = HTTPField.Name("Mcp-Param-\(annotation)")
                else { continue }
                let value = message["params"]?["arguments"]?[name]
                let text = value?.string ?? value?.integer.map { "\($0)" } ?? value?.bool.map { "\($0)" }
                guard Self.decoded(fields[field]) == text else {
                    return error(id, -32020, "Header mismatch", .badRequest)
                }
            }
        }
        guard id != nil else { return TransportResponse(head: HTTPResponse(status: .accepted)) }
        return result(message, settings)
    }

    /// The response to a request in a protocol version that the server does not support; nil for a supported version.
    private func refusedVersion(_ version: String?, _ id: JSON?, _ settings: ResourceSettings) -> TransportResponse? {
        guard let supported = settings.version, version != supported else { return nil }
        return error(id, -32022, "Unsupported protocol version", .badRequest, ["supported": [.string(supported)]])
    }

    private static func decoded(_ value: String?) -> String? {
        guard let value, value.hasPrefix("=?base64?"), value.hasSuffix("?=") else { return value }
        return Data(base64Encoded: String(value.dropFirst(9).dropLast(2))).map { String(decoding: $0, as: UTF8.self) }
    }

    /// Handles a message in protocol version 2025-11-25 or earlier.
    private func legacy(_ received: ReceivedRequest, _ message: JSON, _ settings: ResourceSettings) -> TransportResponse
    {
        let fields = received.request.headerFields
        guard message["method"]?.string != "initialize" else {
            expect(fields[Self.session] == nil, "an initialize request with a session")
            let asked = message["params"]?["protocolVersion"]?.string ?? "2025-11-25"
            var response = TransportResponse.json([
                "jsonrpc": "2.0", "id": message["id"] ?? .null,
                "result": [
                    "protocolVersion": .string(settings.version ?? asked), "capabilities": ["tools": [:]],
                    "serverInfo": ["name": "emulator", "version": "1"],
                ],
            ])
            if settings.hasSessions {
                let id = random(16)
                state.withLock { _ = $0.sessions.insert(id) }
                response.head.headerFields[Self.session] = id
            }
            return response
        }
        if settings.hasSessions {
            guard let id = fields[Self.session] else {
                return error(message["id"], -32600, "Missing session ID", .badRequest)
            }
            guard state.withLock({ $0.sessions.contains(id) }) else {
                if settings.rejectsUnknownSessions {
                    return challenge("Bearer", #"error="invalid_token""#, nil, settings)
                }
                return error(message["id"], -32600, "Session not found", .notFound)
            }
        }
        expect(
            fields[Self.version] != nil || message["method"]?.string == "ping",
            "a request without MCP-Protocol-Version"
        )
        if let version = fields[Self.version], let refusal = refusedVersion(version, message["id"], settings) {
            return refusal
        }
        guard message["id"] != nil, message["method"] != nil else {
            return TransportResponse(head: HTTPResponse(status: .accepted))
        }
        return result(message, settings)
    }

    private func result(_ message: JSON, _ settings: ResourceSettings) -> TransportResponse {
        let id = message["id"] ?? .null
        func reply(_ result: JSON) -> TransportResponse { .json(["jsonrpc": "2.0", "id": id, "result": result]) }
        switch message["method"]?.string {
        case "ping": return reply([:])
        case "server/discover":
            return reply([
                "supportedVersions": [.string(settings.version ?? "2026-07-28")], "capabilities": ["tools": [:]],
            ])
        case "tools/list":
            let tool: JSON = ["name": "test-tool", "inputSchema": ["type": "object"]]
            return reply(["tools": .array([tool] + settings.tools)])
        case "tools/call":
            let name = message["params"]?["name"]?.string ?? ""
            guard name == "test-tool" || settings.tools.contains(where: { $0["name"]?.string == name }) else {
                return error(id, -32602, "Unknown tool: \(name)", .ok)
            }
            let arguments = message["params"]?["arguments"]
            if name == "add_numbers", let a = arguments?["a"]?.number, let b = arguments?["b"]?.number {
                return reply(["content": [["type": "text", "text": .string("\(a + b)")]]])
            }
            // A tool that requests input first (MRTR): the client must return its state unchanged.
            if name == "asks", arguments?["answered"] == nil {
                if message["params"]?["requestState"] == nil {
                    return reply(["resultType": "input_required", "requestState": "a \"b\" =?", "inputRequests": [:]])
                }
                expect(message["params"]?["requestState"]?.string == "a \"b\" =?", "requestState is not echoed exactly")
            }
            return reply(["content": [["type": "text", "text": "done"]]])
        default: return error(id, -32601, "Method not found", .notFound)
        }
    }

    private func error(
        _ id: JSON?,
        _ code: Int64,
        _ message: String,
        _ status: HTTPResponse.Status,
        _ data: JSON? = nil
    ) -> TransportResponse {
        var error: [String: JSON] = ["code": .integer(code), "message": .string(message)]
        error["data"] = data
        return .json(["jsonrpc": "2.0", "id": id ?? .null, "error": .object(error)], status: status)
    }

    // MARK: Streams

    private static let streamHead = HTTPResponse(
        status: .ok,
        headerFields: [.contentType: "text/event-stream", .cacheControl: "no-store"]
    )

    private func stream(_ response: TransportResponse, _ message: JSON, _ settings: ResourceSettings)
        -> TransportResponse
    {
        let text = String(decoding: response.body, as: UTF8.self)
        var result = response
        result.head = Self.streamHead
        result.head.headerFields[Self.session] = response.head.headerFields[Self.session]
        guard settings.breaksStreams, message["method"]?.string == "tools/call" else {
            let notification =
                #"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"working"}}"#
            result.body = Array(
                "\u{FEFF}: comment\r\nid: 1\r\ndata:\r\n\r\ndata: \(notification)\r\n\r\ndata: \(text)\n\n".utf8
            )
            return result
        }
        state.withLock { $0.streams["\(message["id"] ?? .null)"] = text }
        result.body = Array("id: \(message["id"] ?? .null)\nretry: 500\ndata:\n\n".utf8)
        state.withLock { $0.brokenAt = now() }
        return result
    }

    /// Resumes a stream. Other requests for a stream are rejected.
    private func listen(_ received: ReceivedRequest, _ settings: ResourceSettings) -> TransportResponse {
        guard let last = received.request.headerFields[HTTPField.Name(known: "Last-Event-ID")],
            let text = state.withLock({ $0.streams.removeValue(forKey: last) })
        else { return TransportResponse(head: HTTPResponse(status: .methodNotAllowed)) }
        // Conformance "sse-retry": the client must wait for the `retry` time before it resumes the stream.
        let waited = now().timeIntervalSince(state.withLock { $0.brokenAt })
        expect(waited >= 0.45, "the stream was resumed after \(Int(waited * 1000)) ms")
        return TransportResponse(head: Self.streamHead, body: Array("id: 2\ndata: \(text)\n\n".utf8))
    }
}
