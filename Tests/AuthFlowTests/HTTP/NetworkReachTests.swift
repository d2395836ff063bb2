import AuthFlow
import AuthFlowJSON
import AuthFlowTesting
import Expectations
import HTTPTypes
import Testing

@testable import AuthFlowHTTP

@Suite struct NetworkReachTests {
    struct Host: CustomTestStringConvertible {
        let host: String
        let reach: NetworkReach
        var testDescription: String { host }
    }

    static let hosts: [Host] = [
        Host(host: "id.example.com", reach: .anywhere), Host(host: "8.8.8.8", reach: .anywhere),
        Host(host: "[2001:db8::1]", reach: .anywhere),
        Host(host: "127.example.com", reach: .anywhere), Host(host: "127.0.0.1.example.com", reach: .anywhere),
        Host(host: "localhost.example.com", reach: .anywhere), Host(host: "172.32.0.1", reach: .anywhere),
        Host(host: "100.128.0.1", reach: .anywhere),
        Host(host: "10.1.2.3", reach: .privateNetwork), Host(host: "172.16.0.1", reach: .privateNetwork),
        Host(host: "192.168.1.1", reach: .privateNetwork),
        Host(host: "169.254.169.254", reach: .privateNetwork), Host(host: "100.64.0.1", reach: .privateNetwork),
        Host(host: "[fd00::1]", reach: .privateNetwork),
        Host(host: "[fe80::1]", reach: .privateNetwork), Host(host: "[::ffff:10.0.0.1]", reach: .privateNetwork),
        Host(host: "[64:ff9b::a00:1]", reach: .privateNetwork),
        Host(host: "127.0.0.1", reach: .loopback), Host(host: "127.1.2.3", reach: .loopback),
        Host(host: "0.0.0.0", reach: .loopback),
        Host(host: "localhost", reach: .loopback),
        Host(host: "localhost.", reach: .loopback), Host(host: "foo.localhost", reach: .loopback),
        Host(host: "[::1]", reach: .loopback), Host(host: "[::]", reach: .loopback),
        Host(host: "[::ffff:127.0.0.1]", reach: .loopback), Host(host: "[::127.0.0.1]", reach: .loopback),
        Host(host: "127.0.0.1.", reach: .loopback),
        Host(host: "192.0.0.8", reach: .privateNetwork), Host(host: "198.18.0.1", reach: .privateNetwork),
        Host(host: "198.19.255.255", reach: .privateNetwork), Host(host: "198.20.0.1", reach: .anywhere),
        Host(host: "224.0.0.1", reach: .privateNetwork), Host(host: "239.255.255.255", reach: .privateNetwork),
        Host(host: "240.0.0.1", reach: .privateNetwork), Host(host: "255.255.255.255", reach: .privateNetwork),
        Host(host: "[fec0::1]", reach: .privateNetwork), Host(host: "[ff02::1]", reach: .privateNetwork),
        Host(host: "[2002:7f00:1::]", reach: .loopback), Host(host: "[2002:a00:1::]", reach: .privateNetwork),
        Host(host: "[2002:808:808::]", reach: .anywhere), Host(host: "[64:ff9b:1::a00:1]", reach: .privateNetwork),
        Host(host: "[64:ff9b::808:808]", reach: .anywhere), Host(host: "[2001:0:1::]", reach: .privateNetwork),
        Host(host: "[2001:2:0:1::]", reach: .privateNetwork), Host(host: "[2606:4700::1]", reach: .anywhere),
        Host(host: "[100::1]", reach: .privateNetwork),
    ]

    @Test(arguments: hosts) func classifiesHostsByTheirReach(_ test: Host) {
        #expect(NetworkReach(host: test.host) == test.reach)
    }

    @Test(arguments: [
        "https://127.1/", "https://2130706433/", "https://0x7f.0.0.1/", "https://0177.0.0.1/", "https://0x7f000001/",
        "https://127.0.0.01/",
    ])
    func rejectsAmbiguousIPAddresses(_ url: String) {
        expectError(.invalidConfiguration) { try Endpoint(url) }
    }

    static let names = [
        "authorization_endpoint", "token_endpoint", "jwks_uri", "userinfo_endpoint", "end_session_endpoint",
        "revocation_endpoint", "introspection_endpoint", "device_authorization_endpoint", "registration_endpoint",
    ]

    @Test(arguments: names) func rejectsLocalEndpointsInTheMetadataOfAPublicIssuer(_ name: String) throws {
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

    @Test func aLocalIssuerMayAdvertiseEndpointsOfTheSameReach() throws {
        _ = try ProviderMetadata(["issuer": "http://127.0.0.1:8080", "token_endpoint": "http://localhost:9090/token"])
        _ = try ProviderMetadata(["issuer": "https://10.0.0.5", "token_endpoint": "https://192.168.0.1/token"])
        expectError(.discoveryFailed) {
            try ProviderMetadata(["issuer": "https://10.0.0.5", "token_endpoint": "https://127.0.0.1/token"])
        }
        // Even an https issuer on loopback must not advertise a plain http endpoint.
        expectError(.discoveryFailed) {
            try ProviderMetadata(["issuer": "https://localhost", "token_endpoint": "http://localhost/token"])
        }
    }

    @Test func webFingerRejectsALocalIssuerForAPublicHost() async throws {
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
