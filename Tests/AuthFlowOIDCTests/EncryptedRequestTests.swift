import AuthFlow
import AuthFlowJSON
import AuthFlowOIDC
import AuthFlowTesting
import Testing

/// Authorization requests that are signed and then encrypted for the provider (RFC 9101 section 4).
@Suite struct EncryptedRequestTests {
    private static let signingKey = Result { try PrivateKey(generatedFor: .es256) }

    private func client(_ change: (inout OIDCEmulator.Client) -> Void = { _ in }) throws -> OIDCEmulator.Client {
        var client = OIDCEmulator.Client.demo
        client.jwks = ["keys": [try Self.signingKey.get().publicJWK]]
        client.mustSignRequests = true
        client.mustEncryptRequests = true
        change(&client)
        return client
    }

    private func registration(
        _ encryption: RequestObjectEncryption? = RequestObjectEncryption(),
        pushed: PushedRequests = .never
    ) throws -> ClientRegistration.Values {
        var values = try EmulatorEnvironment.registration()
        values.requestObjectKey = SigningKeySource(try Self.signingKey.get())
        values.requestObjectEncryption = encryption
        values.pushedRequests = pushed
        return values
    }

    @Test(
        arguments: [PushedRequests.never, .always],
        [KeyManagementAlgorithm.rsaOAEP256, .rsaOAEP, .ecdhESA256KW, .ecdhES]
    )
    func signsInWithAnEncryptedRequestObject(_ pushed: PushedRequests, _ algorithm: KeyManagementAlgorithm)
        async throws
    {
        try await EmulatorEnvironment.with(.sockets, clients: [client()]) { environment in
            environment.emulator.pushedRequests = pushed
            environment.emulator.requestDecryptionKey = try DecryptionKey(generatedFor: algorithm)
            let client = try environment.client(registration: registration(pushed: pushed))
            #expect(try await client.signIn().credential.identity != nil)
            let path = pushed == .always ? "/par" : "/authorize"
            let received = try #require(environment.emulator.receivedRequests.first { $0.path == path })
            let sent = pushed == .always ? received.form : received.query
            let parts = (sent["request"] ?? "").split(separator: ".", omittingEmptySubsequences: false)
            #expect(parts.count == 5)
            let header = try #require(parts.first.flatMap { Base64URL.decode($0) }.flatMap { try? JSON(parsing: $0) })
            #expect(header["alg"]?.string == algorithm.rawValue)
            #expect(header["enc"] == "A256GCM" && header["cty"] == "JWT" && header["kid"] != nil)
        }
    }

    @Test func anUnencryptedRequestObjectIsRejectedIfEncryptionIsRequired() async throws {
        try await EmulatorEnvironment.with(.inProcess, clients: [client()]) { environment in
            environment.emulator.requestDecryptionKey = try DecryptionKey()
            let request = try await OAuthClient(
                server: environment.server(),
                registration: ClientRegistration(registration(nil))
            ).authorizationRequest()
            await #expect(throws: (any Error).self) { try await environment.visit(request.url) }
        }
    }

    struct Refusal: CustomTestStringConvertible {
        let name: String
        var encryption = RequestObjectEncryption()
        var hasKey = true
        var metadata: MetadataFault?
        /// Words of the message; nil for any message.
        var words: String?
        var testDescription: String { name }
    }

    @Test(arguments: [
        Refusal(name: "no key", hasKey: false),
        Refusal(name: "no key for the algorithm", encryption: .init(algorithm: .rsaOAEP256)),
        Refusal(
            name: "an algorithm that is not advertised",
            encryption: .init(algorithm: .ecdhESA256KW),
            metadata: .member("request_object_encryption_alg_values_supported", ["RSA-OAEP-256"]),
            words: "does not advertise ECDH-ES+A256KW"
        ),
        Refusal(name: "no algorithm", metadata: .member("request_object_encryption_alg_values_supported", ["RSA1_5"])),
        Refusal(
            name: "no supported content encryption",
            metadata: .member("request_object_encryption_enc_values_supported", ["X"]),
            words: "supports none of the implemented content encryption algorithms"
        ),
        Refusal(
            name: "a content encryption that is not advertised",
            encryption: .init(content: .a128GCM),
            metadata: .member("request_object_encryption_enc_values_supported", ["A256GCM"]),
            words: "does not accept request objects encrypted with A128GCM"
        ),
    ]) func rejectsRequestObjectEncryptionThatTheProviderDoesNotSupport(_ refusal: Refusal) async throws {
        try await EmulatorEnvironment.with(.inProcess, clients: [client()]) { environment in
            if refusal.hasKey { environment.emulator.requestDecryptionKey = try DecryptionKey() }
            environment.emulator.fault = refusal.metadata.map { .metadata($0) }
            let client = OAuthClient(
                server: environment.server(),
                registration: try ClientRegistration(registration(refusal.encryption))
            )
            let error = await #expect(throws: AuthError.self) { try await client.authorizationRequest() }
            #expect(error?.code == .unsupported)
            if let words = refusal.words { #expect(error?.message.contains(words) == true, "\(error?.message ?? "")") }
        }
    }

    @Test func usesA128CBCHS256IfNoContentEncryptionIsAdvertised() async throws {
        try await EmulatorEnvironment.with(.inProcess, clients: [client()]) { environment in
            environment.emulator.requestDecryptionKey = try DecryptionKey(generatedFor: .ecdhES)
            environment.emulator.fault = .metadata(.member("request_object_encryption_enc_values_supported", nil))
            let client = OAuthClient(server: environment.server(), registration: try ClientRegistration(registration()))
            let url = try await client.authorizationRequest().url
            let request = FormURLEncoding.decode(url.drop { $0 != "?" }.dropFirst())?["request"] ?? ""
            let header = request.split(separator: ".").first.flatMap { Base64URL.decode($0) } ?? []
            #expect(try JSON(parsing: header)["enc"] == "A128CBC-HS256")
        }
    }

    @Test func anEncryptedRequestObjectRequiresASigningKey() throws {
        var values = try registration()
        values.requestObjectKey = nil
        let error = #expect(throws: AuthError.self) { try ClientRegistration(values) }
        #expect(error?.code == .invalidConfiguration)
    }
}
