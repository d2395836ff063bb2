import AuthFlow
import AuthFlowJSON
import AuthFlowOIDC
import AuthFlowTesting
import Crypto
import CryptoExtras
import Foundation
import HTTPTypes

/// Compares client assertions and encrypted tokens with the bare swift-crypto operations.
enum ProofBench {
    static func run() async throws {
        print(
            "\nA token request with private_key_jwt, compared with a request with a client secret and with the bare signature\n"
        )
        print("| algorithm | with an assertion | with a secret, plus the signature | ratio |")
        print("|---|---|---|---|")
        for algorithm in [SignatureAlgorithm.es256, .ps256, .edDSA] { try await assertion(algorithm) }
        print(
            "\nVerification of an encrypted ID Token, compared with a signed-only ID Token and with the bare decryption\n"
        )
        print("| algorithm | encrypted | signed only, plus decryption | ratio |")
        print("|---|---|---|---|")
        let ways: [(KeyManagementAlgorithm, String)] = [
            (.ecdhESA256KW, "A256GCM"), (.ecdhES, "A128CBC-HS256"), (.rsaOAEP256, "A256GCM"),
        ]
        for (algorithm, encryption) in ways { try await decryption(algorithm, encryption) }
    }

    private static func assertion(_ algorithm: SignatureAlgorithm) async throws {
        let key = try PrivateKey(generatedFor: algorithm)
        let signed = try client(.privateKeyJWT(SigningKeySource(key), algorithm: algorithm))
        let secret = try client(.clientSecretPost(Secret("a-secret-of-some-length")))
        // The approximate size of an assertion, in bytes.
        let bytes = [UInt8](repeating: 7, count: 420)
        let result = try await Comparison.of {
            _ = try await signed.clientCredentials()
        } baseline: {
            _ = try await secret.clientCredentials()
            _ = try key.signature(over: bytes, by: algorithm)
        }
        show(algorithm.rawValue, result)
    }

    private static func client(_ authentication: ClientAuthentication) throws -> OAuthClient {
        let issuer = "https://id.example.com"
        let metadata = ProviderMetadata(issuer: issuer, tokenEndpoint: try Endpoint("\(issuer)/token"))
        let body = try JSON.object(["access_token": "abc", "token_type": "Bearer", "expires_in": 3600]).serialized()
        let transport = InProcessTransport(origin: issuer) { _, _ in
            TransportResponse(head: HTTPResponse(status: .ok), body: body)
        }
        return OAuthClient(
            server: AuthorizationServer(OIDCProvider(metadata: metadata), transport: transport),
            registration: try ClientRegistration(clientID: "client") { $0.authentication = authentication }
        )
    }

    private static func decryption(_ algorithm: KeyManagementAlgorithm, _ encryption: String) async throws {
        let bench = try ValidationBench()
        let key = try DecryptionKey(generatedFor: algorithm)
        let plain = try bench.token(.es256)
        guard let content = ContentEncryption(rawValue: encryption) else { return }
        let encrypted = Secret(
            try EmulatedEncryption(to: key.publicJWK, algorithm: algorithm, encryption: content).encrypted(plain)
        )
        let source = DecryptionKeySource([key])
        let bare = try bareDecryption(algorithm, encryption, size: plain.utf8.count)
        let server = bench.client.server
        let result = try await Comparison.of {
            _ = try await server.verify(
                encrypted,
                audience: "client",
                nonce: bench.nonce,
                algorithms: [.es256],
                decryptionKeys: source
            )
        } baseline: {
            _ = try await server.verify(Secret(plain), audience: "client", nonce: bench.nonce, algorithms: [.es256])
            try bare()
        }
        show("\(algorithm.rawValue), \(encryption)", result)
    }

    /// The bare swift-crypto operations, with keys in memory.
    private static func bareDecryption(
        _ algorithm: KeyManagementAlgorithm,
        _ encryption: String,
        size: Int
    ) throws -> () throws -> Void {
        let content = SymmetricKey(size: .bits256)
        let plain = [UInt8](repeating: 7, count: size)
        let open: () throws -> Void
        if encryption.hasSuffix("GCM") {
            let box = try AES.GCM.seal(plain, using: content)
            open = { _ = try AES.GCM.open(box, using: content) }
        } else {
            let vector = AES._CBC.IV()
            let half = SymmetricKey(size: .bits128)
            let sealed = try AES._CBC.encrypt(plain, using: half, iv: vector)
            open = {
                _ = HMAC<SHA256>.authenticationCode(for: sealed, using: half)
                _ = try AES._CBC.decrypt(sealed, using: half, iv: vector)
            }
        }
        if algorithm == .rsaOAEP256 {
            let own = try _RSA.Encryption.PrivateKey(keySize: .bits3072)
            let wrapped = try own.publicKey.encrypt(Array(repeating: UInt8(1), count: 32), padding: .PKCS1_OAEP_SHA256)
            return {
                _ = try own.decrypt(wrapped, padding: .PKCS1_OAEP_SHA256)
                try open()
            }
        }
        let (own, other) = (P256.KeyAgreement.PrivateKey(), P256.KeyAgreement.PrivateKey().publicKey)
        let wrapping = SymmetricKey(size: .bits256)
        let wrapped = try AES.KeyWrap.wrap(content, using: wrapping)
        return {
            _ = try own.sharedSecretFromKeyAgreement(with: other)
            if algorithm != .ecdhES { _ = try AES.KeyWrap.unwrap(wrapped, using: wrapping) }
            try open()
        }
    }

    private static func show(_ name: String, _ result: Comparison) {
        func us(_ nanoseconds: Double) -> String { String(format: "%.0f us", nanoseconds / 1000) }
        print(
            "| \(name) | \(us(result.subject)) | \(us(result.baseline)) | \(String(format: "%.2f", result.ratio)) |"
        )
    }
}
