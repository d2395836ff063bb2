import AuthFlowJSON
import AuthFlowTesting
import HTTPTypes
import Testing

@testable import AuthFlow

@Suite struct NetworkReachTests {
    static let hosts: [(host: String, reach: NetworkReach)] = [
        ("id.example.com", .anywhere), ("8.8.8.8", .anywhere), ("[2001:db8::1]", .anywhere),
        ("127.example.com", .anywhere),
        ("localhost.example.com", .anywhere), ("172.32.0.1", .anywhere), ("100.128.0.1", .anywhere),
        ("10.1.2.3", .privateNetwork), ("172.16.0.1", .privateNetwork), ("192.168.1.1", .privateNetwork),
        ("169.254.169.254", .privateNetwork), ("100.64.0.1", .privateNetwork), ("[fd00::1]", .privateNetwork),
        ("[fe80::1]", .privateNetwork), ("[::ffff:10.0.0.1]", .privateNetwork), ("[64:ff9b::a00:1]", .privateNetwork),
        ("127.0.0.1", .thisMachine), ("127.1.2.3", .thisMachine), ("0.0.0.0", .thisMachine),
        ("localhost", .thisMachine),
        ("localhost.", .thisMachine), ("foo.localhost", .thisMachine), ("[::1]", .thisMachine), ("[::]", .thisMachine),
        ("[::ffff:127.0.0.1]", .thisMachine), ("[::127.0.0.1]", .thisMachine), ("127.0.0.1.", .thisMachine),
    ]

    @Test(arguments: hosts) func classifiesHostsByTheirReach(_ test: (host: String, reach: NetworkReach)) {
        #expect(NetworkReach(host: test.host) == test.reach)
    }

    @Test(arguments: [
        "https://127.1/", "https://2130706433/", "https://0x7f.0.0.1/", "https://0177.0.0.1/", "https://0x7f000001/",
        "https://127.0.0.01/",
    ])
    func refusesAmbiguousIPAddresses(_ url: String) {
        #expect(throws: AuthError.self) { try Endpoint(url) }
    }

    static let names = [
        "authorization_endpoint", "token_endpoint", "jwks_uri", "userinfo_endpoint", "end_session_endpoint",
        "revocation_endpoint", "introspection_endpoint", "device_authorization_endpoint", "registration_endpoint",
    ]

    @Test(arguments: names) func aPublicIssuerNamesNoLocalService(_ name: String) throws {
        for address in [
            "http://127.0.0.1:9200/x", "http://localhost/x", "http://[::1]/x", "https://localhost/x",
            "https://10.0.0.1/x",
            "https://169.254.169.254/latest", "https://[fd00::1]/x", "https://127.0.0.1/x",
        ] {
            let error = #expect(throws: AuthError.self) {
                try ProviderMetadata(["issuer": "https://id.example.com", name: .string(address)])
            }
            #expect(error?.code == .discoveryFailed)
        }
        _ = try ProviderMetadata(["issuer": "https://id.example.com", name: "https://api.example.net/x"])
    }

    @Test func aLocalIssuerMayNameEndpointsOfTheSameReach() throws {
        _ = try ProviderMetadata(["issuer": "http://127.0.0.1:8080", "token_endpoint": "http://localhost:9090/token"])
        _ = try ProviderMetadata(["issuer": "https://10.0.0.5", "token_endpoint": "https://192.168.0.1/token"])
        #expect(throws: AuthError.self) {
            try ProviderMetadata(["issuer": "https://10.0.0.5", "token_endpoint": "https://127.0.0.1/token"])
        }
        // By https on this machine, plain http is still not named.
        #expect(throws: AuthError.self) {
            try ProviderMetadata(["issuer": "https://localhost", "token_endpoint": "http://localhost/token"])
        }
    }

    @Test func webFingerOfAPublicHostNamesNoLocalProvider() async throws {
        let transport = InProcessTransport(origin: "https://example.com") { _, _ in
            TransportResponse(
                head: HTTPResponse(status: .ok),
                body: Array(
                    #"{"links": [{"rel": "http://openid.net/specs/connect/1.0/issuer", "href": "http://127.0.0.1:8080"}]}"#
                        .utf8
                )
            )
        }
        let error = await #expect(throws: AuthError.self) {
            try await WebFinger(transport: transport).issuer(of: "joe@example.com")
        }
        #expect(error?.code == .discoveryFailed)
    }
}
