import AuthFlowJSON
import AuthFlowTesting
import Foundation
import Synchronization
import Testing

@testable import AuthFlow

@Suite struct JWKSetTests {
    private let keys: EmulatorKeys
    private let published: [JSON]

    init() throws {
        keys = try EmulatorKeys()
        published = try keys.jwks()["keys"]?.array ?? []
    }

    private func header(_ algorithm: SignatureAlgorithm, keyID: String? = nil) -> JWSHeader {
        var json: [String: JSON] = ["alg": .string(algorithm.rawValue)]
        json["kid"] = keyID.map(JSON.string)
        return JWSHeader(.object(json))
    }

    private func without(_ names: String..., from key: JSON) -> JSON {
        .object((key.object ?? [:]).filter { !names.contains($0.key) })
    }

    @Test func choosesByKeyIDAndKind() throws {
        let set = try JWKSet(["keys": .array(published)])
        #expect(set.keys.count == 2)
        #expect(set.candidates(for: header(.rs256, keyID: keys.keyID(for: .rs256))).count == 1)
        #expect(set.candidates(for: header(.es256, keyID: keys.keyID(for: .rs256))).isEmpty)
        #expect(set.candidates(for: header(.es256, keyID: "unknown")).isEmpty)
    }

    @Test func choosesByKindWhenThereAreNoKeyIDs() throws {
        // Row 6: keys without kid and alg, beside keys that cannot be used here.
        let others: [JSON] = [
            ["kty": "EC", "crv": "secp256k1", "x": "AA", "y": "AA"],
            ["kty": "OKP", "crv": "X25519", "use": "enc", "x": "AA"],
            ["kty": "oct", "k": "AAAA"],
            ["kty": "new"],
            ["no": "kty"],
            nil,
        ]
        let set = try JWKSet(["keys": .array(published.map { without("kid", "alg", from: $0) } + others)])
        #expect(set.candidates(for: header(.rs256)).count == 1)
        #expect(set.candidates(for: header(.es256)).count == 1)
    }

    @Test(arguments: [["use": "enc"], ["key_ops": ["encrypt"]], ["alg": "RSA-OAEP"]] as [[String: JSON]])
    func skipsKeysForOtherUses(_ change: [String: JSON]) throws {
        // Row O9.
        let rsa = JSON.object((published[0].object ?? [:]).merging(change) { $1 })
        #expect(try JWKSet(["keys": [rsa]]).candidates(for: header(.rs256)).isEmpty)
    }

    @Test func skipsShortRSAKeys() throws {
        let short = JSON.object(["kty": "RSA", "n": .string(String(repeating: "A", count: 171)), "e": "AQAB"])
        #expect(try JWKSet(["keys": [short]]).keys.isEmpty)
    }

    @Test(arguments: [[:], ["keys": 5], ["keys": nil]] as [JSON]) func refusesWhatIsNoKeySet(_ json: JSON) {
        #expect(throws: AuthError.self) { try JWKSet(json) }
    }

    @Test(arguments: SignatureAlgorithm.supported) func verifiesAndRefusesSignatures(_ algorithm: SignatureAlgorithm)
        throws
    {
        let token = try keys.sign(["sub": "x"], header: ["alg": .string(algorithm.rawValue)], with: algorithm)
        let jws = try JWS(Secret(token))
        let set = try JWKSet(["keys": .array(published)])
        #expect(IDTokenValidation.hasValidSignature(jws, by: set.candidates(for: jws.header)))
        let stranger = try JWKSet(try EmulatorKeys().jwks())
        if algorithm == .es256 {
            #expect(!IDTokenValidation.hasValidSignature(jws, by: stranger.candidates(for: jws.header)))
        }
        let forged = try JWS(
            Secret(
                token.split(separator: ".")[0] + "." + Base64URL.encode(#"{"sub":"y"}"#.utf8) + "."
                    + token.split(separator: ".")[2]
            )
        )
        #expect(!IDTokenValidation.hasValidSignature(forged, by: set.candidates(for: forged.header)))
    }

    @Test func triesEveryKeyOfOneID() throws {
        // Rows 7 and O7: decoys with the same kid.
        let decoys = try (0..<3).map { _ in
            JSON.object((try EmulatorKeys().jwks()["keys"]?.array?[1].object ?? [:]).merging(["kid": "same"]) { $1 })
        }
        let real = JSON.object((published[1].object ?? [:]).merging(["kid": "same"]) { $1 })
        let set = try JWKSet(["keys": .array(decoys + [real])])
        let token = try keys.sign([:], header: ["alg": "ES256", "kid": "same"], with: .es256)
        let jws = try JWS(Secret(token))
        #expect(IDTokenValidation.hasValidSignature(jws, by: set.candidates(for: jws.header)))
    }

    @Test func refetchesOnceForAnUnknownKeyAndThenWaits() async throws {
        // Rows 18, 19 and O12.
        let source = KeySource()
        let fetches = Mutex(0)
        let start = Date(timeIntervalSince1970: 1_800_000_000)
        let endpoint = try Endpoint("https://id.example.com/jwks")
        let set = try keys.jwks()
        func candidates(_ keyID: String, after seconds: TimeInterval) async throws -> Int {
            try await source.candidates(for: header(.es256, keyID: keyID), at: endpoint, now: start + seconds) { _ in
                fetches.withLock { $0 += 1 }
                return set
            }.count
        }
        #expect(try await candidates(keys.keyID(for: .es256), after: 0) == 1)
        #expect(try await candidates(keys.keyID(for: .es256), after: 1) == 1)
        #expect(fetches.withLock { $0 } == 1)
        for second in 2..<20 { #expect(try await candidates("unknown", after: Double(second)) == 0) }
        #expect(fetches.withLock { $0 } == 2)
        #expect(try await candidates("unknown", after: 33) == 0)
        #expect(fetches.withLock { $0 } == 3)
    }
}
