// An MCP server (Streamable HTTP) with one tool, which requires an access token: clients need only its URL.
//
//     mcp-server CONFIGURATION PORT
//
// The file lists its issuers: {"resource_server": {"resource": "https://mcp.example.com/mcp", "issuers": [...]}}.

import AuthFlowHummingbird
import AuthFlowResourceServerConfiguration
import HTTPTypes
import Hummingbird
import SampleStart

struct MCPContext: AuthorizedRequestContext {
    var coreContext: CoreRequestContextStorage
    var authorization: Authorization?
    init(source: Source) { coreContext = .init(source: source) }
}

let (path, port) = arguments("mcp-server CONFIGURATION PORT")
let api = configured { try ResourceServer(configuration: ConfigurationFile(path: path)) }
let tools = MCPTools(origin: api.resource.origin)

let router = Router(context: MCPContext.self)
router.add(middleware: ResourceMetadataMiddleware(api))
router.group("/mcp").authorize(by: api, requiring: ["mcp:tools"])
    .post { request, context in
        let body = try await request.body.collect(upTo: MCPTools.maximumSize)
        return tools.response(
            to: Array(body.readableBytesView),
            request.headers,
            from: try context.requireAuthorization()
        )
    }
    // Streamable HTTP: a server that offers no SSE stream at its endpoint "MUST return HTTP 405 Method Not Allowed".
    .get { _, _ in Response(status: .methodNotAllowed, headers: [.allow: "POST"]) }
    .delete { _, _ in Response(status: .methodNotAllowed, headers: [.allow: "POST"]) }

let application = Application(router: router, configuration: .init(address: .hostname("127.0.0.1", port: port)))
await serving { try await application.runService() }
