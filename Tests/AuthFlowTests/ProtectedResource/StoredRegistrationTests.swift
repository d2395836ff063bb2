import AuthFlow
import AuthFlowJSON
import AuthFlowTesting
import Foundation
import HTTPTypes
import Testing

@testable import AuthFlowResourceClient

/// The dynamic registrations in a store.
@Suite struct StoredRegistrationTests {
    private static let json: [String: JSON] = [
        "issuer": "https://id.example", "client_id": "client", "redirect_uris": ["http://127.0.0.1/callback"],
        "token_endpoint_auth_method": "none", "registered_at": 1_800_000_000,
    ]
    private let store = MemoryTokenStore()
    private var registrations: StoredRegistrations { StoredRegistrations(store: store, for: "https://api.example") }

    struct Damage: CustomTestStringConvertible {
        let member: String
        /// The damaged value; nil for none.
        var value: JSON?
        var testDescription: String { "\(member): \(value?.kind ?? "none")" }
    }

    @Test(arguments: [
        Damage(member: "issuer"), Damage(member: "client_id"), Damage(member: "client_id", value: ""),
        Damage(member: "redirect_uris"), Damage(member: "redirect_uris", value: []),
        Damage(member: "redirect_uris", value: ["http://127.0.0.1/callback", "x"]), Damage(member: "registered_at"),
    ])
    func aDamagedRegistrationIsNotUsed(_ damage: Damage) throws {
        var json = Self.json
        json[damage.member] = damage.value
        #expect(StoredRegistration(.object(Self.json)) != nil)
        #expect(StoredRegistration(.object(json)) == nil)
    }

    /// Otherwise, the secret of one authorization server would be sent to another.
    @Test func aRegistrationWithAnotherIssuerIsNotUsed() async throws {
        try await registrations.save(try #require(StoredRegistration(.object(Self.json))), for: .loopback)
        func key(_ issuer: String) -> RecordKey {
            RecordKey(
                name: "\(RedirectURI.loopback.uri) https://api.example",
                issuer: issuer,
                clientID: "",
                kind: .registration
            )
        }
        let bytes = try #require(await store.bytes(for: key("https://id.example")))
        try await store.set(bytes, for: key("https://other.example"))
        #expect(try await registrations.registration(at: "https://id.example") != nil)
        #expect(try await registrations.registration(at: "https://other.example") == nil)
    }

    /// RFC 7592 section 2.3: "204 No Content"; 401 if the registration no longer exists; 405 if the server does not support deletion.
    @Test(arguments: [
        (204, "true"), (401, "false"), (403, "provider_rejected"), (404, "unsupported"), (405, "unsupported"),
    ]) func theStatusOfADeletionDeterminesItsResult(_ status: Int, _ expected: String) async throws {
        var json = Self.json
        json["registration_client_uri"] = "https://id.example/register/client"
        json["registration_access_token"] = "token"
        let registration = try #require(StoredRegistration(.object(json)))
        let transport = InProcessTransport(origin: "https://id.example") { _, _ in
            TransportResponse(head: HTTPResponse(status: .init(code: status)))
        }
        let result: String
        do {
            result = "\(try await registration.unregister(transport: transport))"
        } catch let error as AuthError {
            result = error.code.rawValue
        }
        #expect(result == expected)
    }

    @Test(
        "A registration is new for a limited time, even if the clock is set back",
        arguments: [(0, true), (60, true), (61, false), (-86_400, false)] as [(Double, Bool)]
    )
    func aRegistrationIsNewForALimitedTime(_ age: Double, _ isNew: Bool) throws {
        let registration = try #require(StoredRegistration(.object(Self.json)))
        #expect(registration.isNew(at: registration.registeredAt + age, for: 60) == isNew)
    }

    @Test func retiringAReplacedRegistrationKeepsTheCurrentOne() async throws {
        try await registrations.save(try #require(StoredRegistration(.object(Self.json))), for: .loopback)
        try await registrations.retire(at: "https://id.example", for: .loopback, clientID: "replaced")
        #expect(try await registrations.registration(at: "https://id.example")?.isRetired == false)
    }
}
