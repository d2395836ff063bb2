import AuthFlowHTTP
import AuthFlowJSON
import AuthFlowStorage
import AuthFlowTesting
import Testing

@testable import AuthFlowResourceClient

/// The lists of resources and registrations in a store.
@Suite struct KnownResourcesTests {
    private let store = MemoryTokenStore()
    private var lists: KnownResources { KnownResources(store: store) }

    private func write(_ text: String) async throws {
        let key = RecordKey(name: "resources", issuer: "", clientID: "", kind: .list)
        try await store.withLease(on: key) { try await store.write(Array(text.utf8), under: $0) }
    }

    @Test(arguments: ["", "{", "[]", #"{"entries":"x"}"#, #"{"entries":[1]}"#])
    func aListThatWasDamagedIsIncompleteEvenAfterTheNextEntry(_ text: String) async throws {
        try await write(text)
        #expect(try await lists.lacksResources())
        await lists.add(record: "https://api.example.com/mcp")
        #expect(try await lists.addresses() == ["https://api.example.com/mcp"])
        #expect(try await lists.lacksResources())
    }

    @Test func aListThatHasDroppedAnEntryIsIncomplete() async throws {
        #expect(try await !lists.lacksResources())
        let entries = JSON.object(["entries": .array((0..<1000).map { .string("\($0)") })])
        try await write(String(decoding: try entries.serialized(), as: UTF8.self))
        #expect(try await !lists.lacksResources())
        await lists.remove(record: "7")
        #expect(try await !lists.lacksResources())
        for record in ["a", "b"] { await lists.add(record: record) }
        #expect(try await lists.lacksResources())
        await lists.remove(record: "8")
        #expect(try await lists.lacksResources())
    }

    @Test func aListThatDoesNotChangeIsNotWritten() async throws {
        let text = #"{ "entries": ["a"] }"#
        try await write(text)
        await lists.add(record: "a")
        await lists.remove(record: "b")
        let key = RecordKey(name: "resources", issuer: "", clientID: "", kind: .list)
        #expect(await store.bytes(for: key) == Array(text.utf8))
    }

    /// A sign-in in another process starts after a sign-out has emptied the record, and finds the record still in the list.
    @Test func aResourceWithASignInThatStartedDuringASignOutRemainsInTheList() async throws {
        let address = "https://api.example.com/mcp"
        let client = try ResourceClient(address, methods: [], store: store)
        await client.list()
        let known = KnownResource(
            resource: address,
            issuer: "https://id.example.com",
            clientID: "client",
            identification: .dynamic,
            scopes: [],
            usesDPoP: false
        )
        try await client.changeRecord { $0.use(known) }
        await client.removeFromList()
        #expect(try await lists.addresses() == [address])
        try await client.changeRecord { $0 = ResourceRecord() }
        await client.removeFromList()
        #expect(try await lists.addresses().isEmpty)
    }

    @Test func listsTheResourcesOfAClientByItsName() async throws {
        for record in ["work https://a.example", "https://b.example", "workshop https://c.example"] {
            await lists.add(record: record, isRegistered: true)
        }
        await lists.add(record: "https://d.example")
        #expect(try await lists.addresses(registered: "work") == ["https://a.example"])
        #expect(try await lists.addresses(registered: "default") == ["https://b.example"])
        #expect(try await lists.addresses() == ["https://d.example"])
    }

    @Test(arguments: [
        ("/mcp", "/mcp", true), ("/mcp", "/mcp/part", true), ("/mcp", "/mcp2", false), ("/mcp", "/", false),
        ("/", "/mcp", true), ("/a//b", "/a//b/c", true), ("/a/b", "/a//b", true), ("/%62%63", "/bc/x", true),
        ("/bc", "/%62c/x", true), ("/d%2Fe", "/d%2fe/x", true), ("/mcp", "/mcp%2Fx", true),
        ("/mcp", "/mcp;v=1/x", true),
        ("/mcp", "/mcp%252Fx", true), ("/s?t=1", "/s?t=1&u=2", true), ("/mcp", #"/mcp%5Cx"#, true),
        ("/mcp", "/MCP/x", true),
    ])
    func aResourceMayCoverEveryPathThatAServerCouldTreatAsBelowIt(_ resource: String, _ path: String, _ covers: Bool)
        throws
    {
        let (resource, target) = (
            try Endpoint("https://a.example\(resource)"), try Endpoint("https://a.example\(path)")
        )
        #expect(resource.mayCover(target) == covers)
        #expect(try !resource.mayCover(Endpoint("https://b.example\(path)")))
    }
}
