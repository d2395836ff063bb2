public import AuthFlow
public import AuthFlowHeadless
public import AuthFlowJSON
import AuthFlowMCP
import AuthFlowOIDC
public import AuthFlowTesting
import Synchronization

/// An emulated MCP server, its transport and its clients.
public struct ResourceEnvironment: Sendable {
    /// The server.
    public let emulator: ProtectedResourceEmulator

    /// The transport to the server.
    public let transport: any HTTPTransport

    /// Creates an environment.
    public init(emulator: ProtectedResourceEmulator, transport: any HTTPTransport) {
        self.emulator = emulator
        self.transport = transport
    }

    /// Runs `body` with a server.
    /// - Parameters:
    ///   - setting: The location of the server.
    ///   - settings: Its behavior.
    public static func with<Return: Sendable>(
        _ setting: EmulatorEnvironment.Setting,
        _ settings: ResourceSettings = ResourceSettings(),
        _ body: @Sendable (ResourceEnvironment) async throws -> Return
    ) async throws -> Return {
        switch setting {
        case .inProcess:
            let emulator = ProtectedResourceEmulator(origin: "https://api.example.com", settings: settings)
            return try await body(ResourceEnvironment(emulator: emulator, transport: InProcessTransport(emulator)))
        case .sockets:
            return try await EmulatorServer.run { origin in
                ProtectedResourceEmulator(origin: origin, settings: settings)
            } _: { emulator in
                try await body(ResourceEnvironment(emulator: emulator, transport: SystemTransport()))
            }
        }
    }

    /// A user agent whose user consents to everything.
    public func userAgent() throws -> HeadlessUserAgent {
        HeadlessUserAgent(
            driver: HTMLFormDriver(username: "alice", password: Secret("wonderland"), origins: []),
            transport: transport
        )
    }

    /// A client of the server whose user consents to everything.
    public func client(
        methods: [SignInMethod]? = nil,
        registered: OAuthClient? = nil,
        store: any TokenStore = MemoryTokenStore(),
        options: ResourceClient.Options = ResourceClient.Options(),
        host: HostServices = .system
    ) throws -> ResourceClient {
        try ResourceClient(
            emulator.resource,
            methods: methods ?? [.userAgent(try userAgent())],
            registered: registered,
            store: store,
            options: options,
            transport: transport,
            host: host
        )
    }

    /// A host that communicates with the server through a bridge.
    public func host(_ client: ResourceClient, version: String? = nil) -> BridgedHost {
        BridgedHost(client: client, transport: transport, version: version)
    }

    /// A preregistered client of the authorization server.
    public func registered(_ clientID: String, _ change: (inout ClientRegistration.Values) throws -> Void) throws
        -> OAuthClient
    {
        OAuthClient(
            server: AuthorizationServer(
                issuer: emulator.origin + emulator.settings.issuerPaths[0],
                transport: transport
            ),
            registration: try ClientRegistration(clientID: clientID) {
                $0.scopes = []
                try change(&$0)
            }
        )
    }
}

/// An MCP host at the other end of a bridge.
public final class BridgedHost: Sendable {
    private let bridge: MCPBridge
    private let inbox: Inbox
    private let version: String?

    /// The messages received from the bridge.
    private final class Inbox: Sendable {
        struct State {
            var number: Int64 = 0
            var waiting: [Int64: CheckedContinuation<JSON, any Error>] = [:]
            var others: [JSON] = []
        }
        let state = Mutex(State())

        func take(_ line: [UInt8]) {
            guard let json = try? JSON(parsing: line) else { return }
            let waiter = state.withLock { state -> CheckedContinuation<JSON, any Error>? in
                if json["method"] == nil, let id = json["id"]?.integer,
                    let waiter = state.waiting.removeValue(forKey: id)
                {
                    return waiter
                }
                state.others.append(json)
                return nil
            }
            waiter?.resume(returning: json)
        }
    }

    /// Creates a host.
    public init(client: ResourceClient, transport: any HTTPTransport, version: String?) {
        let inbox = Inbox()
        self.inbox = inbox
        self.version = version
        self.bridge = MCPBridge(client: client, transport: transport) { inbox.take($0) }
    }

    /// The server's unsolicited messages.
    public var notifications: [JSON] { inbox.state.withLock { $0.others } }

    /// Sends a request and returns its response.
    /// - Parameter version: The protocol version in its `_meta`; default: the host's.
    public func ask(_ method: String, _ params: [String: JSON] = [:], version: String? = nil) async throws -> JSON {
        var params = params
        if let version = version ?? self.version {
            params["_meta"] = [
                "io.modelcontextprotocol/protocolVersion": .string(version),
                "io.modelcontextprotocol/clientCapabilities": [:],
                "io.modelcontextprotocol/clientInfo": ["name": "host", "version": "1"],
            ]
        }
        let id = inbox.state.withLock { state in
            state.number += 1
            return state.number
        }
        let message: JSON = [
            "jsonrpc": "2.0", "id": .integer(id), "method": .string(method), "params": .object(params),
        ]
        let line = try message.serialized()
        return try await withCheckedThrowingContinuation { continuation in
            inbox.state.withLock { $0.waiting[id] = continuation }
            bridge.receive(line)
        }
    }

    /// Initializes a session with protocol version 2025-11-25 or earlier.
    public func initialize(_ version: String = "2025-11-25") async throws -> JSON {
        let response = try await ask(
            "initialize",
            ["protocolVersion": .string(version), "capabilities": [:], "clientInfo": ["name": "host", "version": "1"]]
        )
        bridge.receive(Array(#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#.utf8))
        return response
    }

    /// Sends a message without waiting for a response.
    public func tell(_ message: JSON) throws { bridge.receive(try message.serialized()) }

    /// Calls a tool.
    public func call(_ tool: String, _ arguments: [String: JSON] = [:], _ more: [String: JSON] = [:]) async throws
        -> JSON
    {
        try await ask(
            "tools/call",
            ["name": .string(tool), "arguments": .object(arguments)].merging(more) { own, _ in own }
        )
    }

    /// Closes the bridge.
    public func close() async { await bridge.close() }
}
