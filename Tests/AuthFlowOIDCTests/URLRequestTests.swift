import AuthFlow
import AuthFlowTesting
import AuthFlowURLSession
import Foundation
import Testing

#if canImport(FoundationNetworking)
import FoundationNetworking
#endif

/// Requests from programs that use `URLSession`.
@Suite struct URLRequestTests {
    private func client(usesDPoP: Bool) throws -> AuthClient {
        var registration = try EmulatorEnvironment.registration()
        registration.usesDPoP = usesDPoP
        var options = AuthClient.Options()
        options.apiOrigins = ["https://api.example.com"]
        let environment = EmulatorEnvironment(try OIDCEmulator(issuer: "https://id.example.com"))
        return try environment.client(registration: registration, options: options)
    }

    @Test(arguments: [false, true]) func addsAnAccessTokenAndItsDPoPProof(_ usesDPoP: Bool) async throws {
        let client = try client(usesDPoP: usesDPoP)
        let tokens = try await client.signIn().credential.tokens
        var request = URLRequest(url: try #require(URL(string: "https://api.example.com/mail?page=2")))
        request.httpMethod = "POST"
        try await client.authorize(&request)
        let scheme = usesDPoP ? "DPoP" : "Bearer"
        #expect(request.value(forHTTPHeaderField: "Authorization") == "\(scheme) \(tokens.accessToken.exposed)")
        let proof = request.value(forHTTPHeaderField: "DPoP")
        #expect((proof != nil) == usesDPoP)
        guard let parts = proof?.split(separator: ".") else { return }
        let claims = try JSON(parsing: try #require(Base64URL.decode(parts[1])))
        #expect(claims["htm"] == "POST")
        #expect(claims["htu"] == "https://api.example.com/mail")
        #expect(claims["ath"]?.string?.isEmpty == false)
    }

    /// `URLSession` does not send the fragment.
    @Test("A request whose URL has a fragment is authorized without the fragment")
    func authorizesARequestWhoseURLHasAFragment() async throws {
        let client = try client(usesDPoP: true)
        _ = try await client.signIn()
        var request = URLRequest(url: try #require(URL(string: "https://api.example.com/mail?page=2#unread")))
        try await client.authorize(&request)
        #expect(request.value(forHTTPHeaderField: "Authorization") != nil)
        let proof = try #require(request.value(forHTTPHeaderField: "DPoP"))
        let claims = try JSON(parsing: try #require(Base64URL.decode(proof.split(separator: ".")[1])))
        #expect(claims["htu"] == "https://api.example.com/mail")
    }

    /// RFC 9449 section 4.2: `htu` is the target URI of the request as it is sent (RFC 9110 section 7.1).
    @Test(arguments: [
        ("https://api.example.com", "https://api.example.com/"),
        ("https://api.example.com?page=2", "https://api.example.com/"),
        ("https://API.example.com/mail", "https://api.example.com/mail"),
        ("https://api.example.com:443/mail", "https://api.example.com/mail"),
        ("https://api.example.com/mail[1]?page=2", "https://api.example.com/mail%5B1%5D"),
    ])
    func theProofContainsTheTargetURIAsSent(_ url: String, _ target: String) async throws {
        let client = try client(usesDPoP: true)
        _ = try await client.signIn()
        let fields = try await client.authorizationFields(method: .get, url: url)
        let proof = try #require(fields[HTTPField.Name("DPoP")!])
        let claims = try JSON(parsing: try #require(Base64URL.decode(proof.split(separator: ".")[1])))
        #expect(claims["htu"]?.string == target)
        let request = TransportRequest(.get, try Endpoint(url))
        #expect(String(request.url.prefix { $0 != "?" }) == target)
    }

    @Test(arguments: [
        "https://evil.example.com/", "http://api.example.com/", "https://api.example.com.evil.example.com/",
    ])
    func addsNoTokenToARequestForAnotherOrigin(_ address: String) async throws {
        let client = try client(usesDPoP: false)
        _ = try await client.signIn()
        var request = URLRequest(url: try #require(URL(string: address)))
        let error = await #expect(throws: AuthError.self) { try await client.authorize(&request) }
        #expect(error?.code == .invalidConfiguration)
        #expect(request.value(forHTTPHeaderField: "Authorization") == nil)
    }
}
