import AuthFlow
import AuthFlowHeadless
import AuthFlowJSON
import AuthFlowOIDC
import AuthFlowTesting
import Foundation
import Testing

/// Non-exportable keys in a PKCS #11 token. Run by `Tests/Interop/softhsm.sh` and `tpm.sh`, which create the token.
@Suite(.serialized, .enabled(if: ProcessInfo.processInfo.environment["AUTHFLOW_PKCS11_MODULE"] != nil))
struct PKCS11Tests {
    private let variables = ProcessInfo.processInfo.environment
    /// The TPM has one token with one key.
    private static let isSoftware = ProcessInfo.processInfo.environment["AUTHFLOW_PKCS11_TPM"] == nil

    private var module: String { variables["AUTHFLOW_PKCS11_MODULE"] ?? "" }
    private var pin: String { variables["AUTHFLOW_PKCS11_PIN"] ?? "" }

    private func source(
        _ attributes: String = "token=AuthFlow;object=signing",
        module: String? = nil,
        pin: String? = nil
    ) throws -> SigningKeySource {
        try .pkcs11(
            "pkcs11:\(attributes)?module-path=\(module ?? self.module)",
            pin: Secret(pin ?? self.pin)
        )
    }

    private static let keys: [(String, SignatureAlgorithm)] =
        [("signing", .es256)] + (isSoftware ? [("large", .es384), ("rsa", .ps256), ("rsa", .rs256)] : [])

    @Test(arguments: keys) func authenticatesAClientWithAPKCS11Key(_ name: String, _ algorithm: SignatureAlgorithm)
        async throws
    {
        let source = try source("token=AuthFlow;object=\(name)")
        var registered = OIDCEmulator.Client(id: "machine", authenticationMethod: "private_key_jwt")
        registered.jwks = ["keys": [try source.key().publicJWK]]
        let emulator = try OIDCEmulator(issuer: "https://id.example.com", clients: [registered])
        var values = ClientRegistration.Values(clientID: "machine")
        values.authentication = .privateKeyJWT(source, algorithm: algorithm)
        values.scopes = ["reports"]
        let client = OAuthClient(
            server: EmulatorEnvironment(emulator).server(),
            registration: try ClientRegistration(values)
        )
        // The requests are concurrent, as in a server.
        try await withThrowingTaskGroup(of: Void.self) { group in
            for _ in 0..<8 { group.addTask { _ = try await client.clientCredentials() } }
            try await group.waitForAll()
        }
        #expect(emulator.requests.count { $0 == "POST /token" } == 8)
    }

    /// A client configured from a file signs assertions and proofs with the same key, and stores no key material.
    @Test func bindsTokensToAPKCS11KeyFromAConfigurationFile() async throws {
        var registered = OIDCEmulator.Client(id: "machine", authenticationMethod: "private_key_jwt")
        registered.jwks = ["keys": [try source().key().publicJWK]]
        registered.redirectURIs = ["http://127.0.0.1:8400/callback"]
        let client = registered
        try await EmulatorEnvironment.with(.sockets, clients: [client]) { environment in
            environment.emulator.dpop = .requiredWithNonce
            let folder = try #require(variables["AUTHFLOW_PKCS11_FOLDER"])
            let key = """
                {"pkcs11": "pkcs11:token=AuthFlow;object=signing?module-path=\(module)", "pin": {"env": "PIN"}}
                """
            let configuration = """
                {"profiles": {"hardware": {
                  "provider": "oidc", "issuer": "\(environment.emulator.issuer)", "client_id": "machine",
                  "client_key": \(key), "dpop_key": \(key), "scopes": ["openid", "offline_access"],
                  "redirect_uri": "http://127.0.0.1:8400/callback",
                  "store": {"name": "file", "directory": "\(folder)/store"},
                  "user_agent": {
                    "name": "headless", "username": "alice", "password": {"env": "PASSWORD"}, "origins": ["\(environment.emulator.issuer)"]
                  }
                }}}
                """
            func authClient() throws -> AuthClient {
                try AuthClient(
                    profile: try ConfigurationFile(text: Array(configuration.utf8)).profile(),
                    providers: [.oidc],
                    userAgents: [.headless],
                    host: HostServices(environment: ["PASSWORD": "wonderland", "PIN": pin])
                )
            }
            let tokens = try await authClient().signIn().credential.tokens
            #expect(tokens.tokenType == "DPoP")
            let stored = try FileManager.default.subpathsOfDirectory(atPath: "\(folder)/store").compactMap {
                try? String(contentsOfFile: "\(folder)/store/\($0)", encoding: .utf8)
            }.joined()
            #expect(stored.contains("dpop_key") && !stored.contains("\"d\""))
            // Another process refreshes with the same key.
            let other = try authClient()
            _ = try await other.refresh()
            _ = try await other.userInfo()
        }
    }

    struct Failing: Sendable, CustomTestStringConvertible {
        let testDescription: String
        let attributes: String
        var module: String?
        var pin: String?
        let words: String
    }

    private static let failing = [
        Failing(testDescription: "a missing token", attributes: "token=Elsewhere;object=signing", words: "not present"),
        Failing(testDescription: "a wrong serial number", attributes: "serial=0;object=signing", words: "not present"),
        Failing(
            testDescription: "a missing key",
            attributes: "token=AuthFlow;object=nothing",
            words: "no such private key"
        ),
        Failing(testDescription: "a wrong ID", attributes: "token=AuthFlow;id=%ff", words: "no such private key"),
        Failing(
            testDescription: "a missing library",
            attributes: "token=AuthFlow;object=signing",
            module: "/nowhere/libnothing.so",
            words: "cannot be loaded"
        ),
        Failing(
            testDescription: "not a PKCS #11 library",
            attributes: "token=AuthFlow;object=signing",
            module: "libc.so.6",
            words: "not a PKCS #11 library"
        ),
    ]

    /// Failures that only the software token can cause.
    private static let failingInSoftware = [
        Failing(testDescription: "several tokens", attributes: "object=signing", words: "several tokens match"),
        Failing(
            testDescription: "several keys",
            attributes: "token=AuthFlow;object=twin",
            words: "several such keys"
        ),
        Failing(
            testDescription: "RSA with 1024 bits",
            attributes: "token=AuthFlow;object=short",
            words: "fewer than 2048 bits"
        ),
    ]

    @Test(arguments: failing + (isSoftware ? failingInSoftware : []))
    func reportsWhyAPKCS11KeyCannotBeUsed(_ failing: Failing) throws {
        let source = try source(failing.attributes, module: failing.module, pin: failing.pin)
        let error = #expect(throws: AuthError.self) { try source.key() }
        #expect(error?.code == .keyUnavailable)
        #expect(error?.message.contains(failing.words) == true, "\(error?.message ?? "")")
        #expect(error?.message.contains(pin) == false)
    }

    @Test func rejectsAnAlgorithmThatThePKCS11KeyDoesNotSupport() async throws {
        let key = try source().key()
        let error = await #expect(throws: AuthError.self) { try await key.signature(over: [1], by: .rs256) }
        #expect(error?.code == .unsupported && error?.message.contains("cannot sign with RS256") == true)
    }

    @Test(.enabled(if: isSoftware)) func requiresAPINAndDoesNotRetryAWrongPIN() throws {
        let without = try SigningKeySource.pkcs11("pkcs11:token=Fragile;object=x?module-path=\(module)")
        #expect(#expect(throws: AuthError.self) { try without.key() }?.message.contains("requires a PIN") == true)
        let wrong = try source("token=Fragile;object=x", pin: "9999")
        #expect(#expect(throws: AuthError.self) { try wrong.key() }?.message.contains("PIN is wrong") == true)
        for _ in 0..<5 {
            let again = try source("token=Fragile;object=x", pin: "9999")
            let error = #expect(throws: AuthError.self) { try again.key() }
            #expect(error?.message.contains("not retried") == true)
        }
        // The wrong PIN was tried only once, so the token is not locked and accepts the correct PIN.
        let right = try source("token=Fragile;object=x", pin: "0000")
        #expect(#expect(throws: AuthError.self) { try right.key() }?.message.contains("no such private key") == true)
    }

    @Test(.enabled(if: isSoftware)) func encryptsSessionsWithAPKCS11Key() async throws {
        let uri = "pkcs11:token=AuthFlow;object=sessions;type=secret-key?module-path=\(module)"
        func store(_ id: String, over base: MemoryTokenStore) throws -> EncryptedSessionStore {
            EncryptedSessionStore(
                base,
                keys: try EncryptionKeys([EncryptionKeys.inHardwareToken(id: id, uri: uri, pin: Secret(pin))])
            )
        }
        let (base, place) = (
            MemoryTokenStore(), RecordKey(name: "user", issuer: "https://id.example.com", clientID: "client")
        )
        let first = try store("2026", over: base)
        try await first.withLease(on: place) { try await first.write(Array("secret".utf8), under: $0) }
        #expect(
            await base.bytes(for: place).map { String(decoding: $0, as: UTF8.self) }?.contains("secret") == false
        )
        // A second store accesses the hardware token again, as another process would.
        #expect(try await store("2026", over: base).bytes(for: place) == Array("secret".utf8))
        // A different ID results in a different key.
        #expect(
            try EncryptionKeys.inHardwareToken(id: "2027", uri: uri, pin: Secret(pin)).key
                != EncryptionKeys.inHardwareToken(id: "2026", uri: uri, pin: Secret(pin)).key
        )
        let error = #expect(throws: AuthError.self) {
            try EncryptionKeys.inHardwareToken(
                id: "2026",
                uri: "pkcs11:token=AuthFlow;object=signing?module-path=\(module)",
                pin: Secret(pin)
            )
        }
        #expect(error?.message.contains("no such secret key") == true)
    }

    @Test(.enabled(if: isSoftware)) func aStoreConfigurationCanUseAPKCS11EncryptionKey() throws {
        func text(_ key: String) -> [UInt8] {
            Array(
                """
                {"profiles": {"web": {"provider": "oidc", "issuer": "https://id.example.com", "client_id": "web", \
                "store": {"name": "memory", "encryption_keys": [\(key)]}}}}
                """.utf8
            )
        }
        func store(_ key: String) throws -> any TokenStore {
            try ConfigurationFile(text: text(key)).profile().makeStore(ProfileComponents(providers: [.oidc]))
        }
        let uri = "pkcs11:token=AuthFlow;object=sessions?module-path=\(module)"
        let pin = #"{"env": "AUTHFLOW_PKCS11_PIN"}"#
        #expect(try store(#"{"id": "2026", "pkcs11": "\#(uri)", "pin": \#(pin)}"#) is EncryptedSessionStore)
        for wrong in [
            #"{"id": "2026"}"#, #"{"id": "2026", "pkcs11": "\#(uri)", "key": \#(pin), "pin": \#(pin)}"#,
            #"{"id": "2026", "pkcs11": "pkcs11:token=AuthFlow;object=no?module-path=\#(module)", "pin": \#(pin)}"#,
        ] {
            let error = #expect(throws: ConfigurationError.self) { try store(wrong) }
            #expect(error?.description.contains("profiles.web.store.encryption_keys[0]") == true, "\(error as Any)")
        }
    }

    /// A URI as printed by `p11tool --list-all`.
    @Test(.enabled(if: isSoftware)) func parsesAFullPKCS11URI() throws {
        let source = try source(
            "model=SoftHSM%20v2;manufacturer=SoftHSM%20project;token=AuthFlow;id=%01;object=signing;type=private"
        )
        #expect(try source.key().publicJWK["crv"] == "P-256")
        let other = try self.source("model=Other;token=AuthFlow;object=signing")
        #expect(throws: AuthError.self) { try other.key() }
    }
}
