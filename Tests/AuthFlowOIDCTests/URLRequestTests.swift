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
