// A web application on plain SwiftNIO whose users sign in with a provider: nio-login CONFIGURATION PORT

import AuthFlow
import AuthFlowOIDC
import AuthFlowServerConfiguration
import HTTPTypes
import NIOCore
import NIOHTTP1
import NIOHTTPTypes
import NIOHTTPTypesHTTP1
import NIOPosix
import SampleStart
import UnixSignals

let (path, port) = arguments("nio-login CONFIGURATION PORT")
let server = configured {
    try SessionServer(configuration: ConfigurationFile(path: path), providers: [.oidc], stores: [.memory])
}

func response(to request: HTTPRequest, _ body: [UInt8]) async throws -> TransportResponse {
    do {
        if let response = await server.response(to: request, body: body) { return response }
        let name = try await server.session(of: request).map { $0.identity?.displayName ?? "" }
        let form = "<form method=post action=/logout><button>Sign out</button></form>"
        let fields: HTTPFields = [.contentType: "text/html; charset=utf-8", .cacheControl: "no-store"]
        let page = name.map { "Signed in as \(DisplayText.escapedForHTML($0)) \(form)" } ?? "<a href=/login>Sign in</a>"
        return TransportResponse(head: HTTPResponse(status: .ok, headerFields: fields), body: Array(page.utf8))
    } catch let error as AuthError {
        return SessionServer.response(for: error) ?? TransportResponse(head: HTTPResponse(status: .internalServerError))
    }
}

func serve(_ connection: NIOAsyncChannel<HTTPRequestPart, HTTPResponsePart>) async throws {
    try await connection.executeThenClose { parts, writer in
        var (head, body): (HTTPRequest?, [UInt8]) = (nil, [])
        for try await part in parts {
            if case .head(let request) = part { (head, body) = (request, []) }
            if case .body(let bytes) = part { body += bytes.readableBytesView.prefix(65_537 - body.count) }  // bounded
            guard case .end = part, let head else { continue }
            var answer = try await response(to: head, body)
            answer.head.headerFields[.contentLength] = "\(answer.body.count)"
            let content = ByteBuffer(bytes: head.method == .head ? [] : answer.body)  // RFC 9110 section 9.3.2
            try await writer.write(contentsOf: [.head(answer.head), .body(content), .end(nil)])
        }
    }
}

let bootstrap = ServerBootstrap(group: .singletonMultiThreadedEventLoopGroup)
let listener = try await bootstrap.bind(host: "127.0.0.1", port: port) { channel in
    channel.eventLoop.makeCompletedFuture {
        try channel.pipeline.syncOperations.configureHTTPServerPipeline()
        try channel.pipeline.syncOperations.addHandler(HTTP1ToHTTPServerCodec(secure: false))
        return try NIOAsyncChannel<HTTPRequestPart, HTTPResponsePart>(wrappingChannelSynchronously: channel)
    }
}
let serving = Task {
    try await listener.executeThenClose { for try await connection in $0 { Task { try? await serve(connection) } } }
}
for await _ in await UnixSignalsSequence(trapping: .sigterm, .sigint) { break }
serving.cancel()
_ = await server.drain()  // stores refreshed tokens
