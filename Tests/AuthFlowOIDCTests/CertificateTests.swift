import AuthFlow
import AuthFlowJSON
import AuthFlowOIDC
import AuthFlowTesting
import Expectations
import Foundation
import Testing

/// Clients that authenticate by a certificate, and what their tokens are bound to (RFC 8705).
@Suite struct CertificateTests {
    /// Written by OpenSSL 3.0.
    private static let pem = """
        -----BEGIN CERTIFICATE-----
        MIIBdjCCARugAwIBAgIUMJ8dMGiXUgC8m7fx4IDJcKd3AAAwCgYIKoZIzj0EAwIw
        -----END CERTIFICATE-----
        """

    private static let certificate: [UInt8] = [1, 2, 3]

    private static func scene() throws -> EmulatorScene {
        var client = OIDCEmulator.Client(id: "machine", authenticationMethod: "tls_client_auth")
        client.certificateThumbprint = try CertificateBinding(certificate: certificate).thumbprint()
        return EmulatorScene(try OIDCEmulator(issuer: "https://id.example.com", clients: [client]))
    }

    private static func machine(_ scene: EmulatorScene) throws -> AuthClient {
        var values = ClientRegistration.Values(clientID: "machine")
        values.authentication = .tlsClientAuth
        values.scopes = ["reports"]
        values.certificate = CertificateBinding(certificate: certificate)
        return try scene.client(
            registration: values,
            flows: [.clientCredentials],
            transport: CertificateTransport(scene.transport, certificate: certificate)
        )
    }

    private static func token(boundTo thumbprint: JSON?) -> JSON {
        var claims: [String: JSON] = ["sub": "machine"]
        if let thumbprint { claims["cnf"] = ["x5t#S256": thumbprint] }
        let parts: [JSON] = [["alg": "RS256", "typ": "at+jwt"], .object(claims)]
        let text = parts.map { Base64URL.encode((try? $0.serialized()) ?? []) }.joined(separator: ".")
        return .string("\(text).AAAA")
    }

    /// RFC 8705 section 5: the aliases are also for clients that authenticate by other means.
    @Test(arguments: [nil, SecurityProfile.fapi2])
    func aKeyAuthenticatesTheClientAndTheCertificateBindsTheTokens(_ profile: SecurityProfile?) async throws {
        let key = try PrivateKey()
        var registered = ClientAssertionTests.client(key)
        registered.certificateThumbprint = try CertificateBinding(certificate: Self.certificate).thumbprint()
        let scene = EmulatorScene(try OIDCEmulator(issuer: "https://id.example.com", clients: [registered]))
        scene.emulator.pushedRequests = .always
        var values = try EmulatorScene.registration()
        values.clientID = "machine"
        values.authentication = .privateKeyJWT(SigningKeySource(key))
        values.securityProfile = profile
        values.certificate = CertificateBinding(certificate: Self.certificate)
        values.bindsTokensToCertificate = true
        let client = try scene.client(
            registration: values,
            transport: CertificateTransport(scene.transport, certificate: Self.certificate)
        )
        #expect(try await client.signIn().credential.tokens.tokenType == "Bearer")
        _ = try await client.userInfo()
        let called = Set(scene.emulator.receivedRequests.map(\.path))
        #expect(called.isSuperset(of: ["/mtls/par", "/mtls/token", "/mtls/userinfo"]) && !called.contains("/token"))
    }

    @Test func acceptsATokenThatIsBoundToItsCertificateOrSaysNothing() async throws {
        let own = try CertificateBinding(certificate: Self.certificate).thumbprint()
        for token in [Self.token(boundTo: .string(own)), Self.token(boundTo: nil), "opaque"] {
            let scene = try Self.scene()
            scene.emulator.fault = .tokenResponse(.member("access_token", token))
            #expect(try await Self.machine(scene).freshTokens().accessToken.exposed == token.string)
        }
    }

    @Test(arguments: ["another", "", nil] as [String?]) func refusesATokenThatIsBoundToAnother(_ thumbprint: String?)
        async throws
    {
        let scene = try Self.scene()
        let bound = thumbprint.map(JSON.string) ?? 7
        scene.emulator.fault = .tokenResponse(.member("access_token", Self.token(boundTo: bound)))
        let error = await #expect(throws: AuthError.self) { try await Self.machine(scene).freshTokens() }
        #expect(error?.code == .invalidResponse && error?.message.contains("another certificate") == true)
    }

    /// A profile demands sender-constrained tokens: one that says that it is not bound is a plain bearer token.
    @Test func aClientOfAProfileRefusesATokenThatSaysNothing() throws {
        let binding = CertificateBinding(certificate: Self.certificate)
        let unbound = Secret(Self.token(boundTo: nil).string ?? "")
        expectError(.invalidResponse) { try binding.check(unbound, isRequired: true) }
        try binding.check(unbound, isRequired: false)
        // One that cannot be read is the server's alone.
        try binding.check(Secret("opaque"), isRequired: true)
    }

    @Test func theFileIsReadAgainForEachComparison() throws {
        let path = FileManager.default.temporaryDirectory.appendingPathComponent("cert-\(UUID().uuidString)").path
        defer { try? FileManager.default.removeItem(atPath: path) }
        let binding = CertificateBinding.file(path: path)
        expectError(.invalidConfiguration) { try binding.thumbprint() }
        try "nothing".write(toFile: path, atomically: true, encoding: .utf8)
        expectError(.invalidConfiguration) { try binding.thumbprint() }
        try Self.pem.write(toFile: path, atomically: true, encoding: .utf8)
        let first = try binding.thumbprint()
        #expect(first.utf8.count == 43)
        try Self.pem.replacing("MIIB", with: "MIIC").write(toFile: path, atomically: true, encoding: .utf8)
        #expect(try binding.thumbprint() != first)
    }
}
