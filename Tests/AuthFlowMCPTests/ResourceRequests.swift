import AuthFlow
import AuthFlowTesting
import HTTPTypes

/// The settings of a resource whose authorization server issues refresh tokens.
func refreshing(_ change: (inout ResourceSettings) -> Void = { _ in }) -> ResourceSettings {
    var settings = ResourceSettings()
    settings.refreshes = true
    change(&settings)
    return settings
}

/// Sends a request for which the resource requires a token.
/// - Returns: The status of the response.
func listTools(_ client: ResourceClient) async throws -> Int {
    try await send(#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}"#, client)
}

/// Sends a request for which the resource may require more scopes.
func callTool(_ client: ResourceClient) async throws -> Int {
    try await send(#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"test-tool"}}"#, client)
}

private func send(_ message: String, _ client: ResourceClient) async throws -> Int {
    let fields: HTTPFields = [
        .contentType: "application/json", .accept: "application/json, text/event-stream",
        HTTPField.Name("MCP-Protocol-Version")!: "2025-11-25",
    ]
    let request = TransportRequest(.post, client.address, headerFields: fields, body: Array(message.utf8))
    return try await client.send(request).status
}
