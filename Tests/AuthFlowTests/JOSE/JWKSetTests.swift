import AuthFlow
import AuthFlowJSON
import AuthFlowTesting
import Crypto
import Expectations
import Testing

@testable import AuthFlowJOSE

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

    /// Glewlwyd's keys omit leading zeros.
    @Test func aCoordinateWithoutItsLeadingZeroIsPadded() throws {
        var key = P256.Signing.PrivateKey()
        // The x coordinate of about one key in 256 has a leading zero octet.
        while key.publicKey.rawRepresentation.first != 0 { key = P256.Signing.PrivateKey() }
        let point = Array(key.publicKey.rawRepresentation)
        let json: JSON = [
            "kty": "EC", "crv": "P-256", "x": .string(Base64URL.encode(Array(point[1..<32]))),
            "y": .string(Base64URL.encode(Array(point[32...]))),
        ]
        let message = Array("message".utf8)
        let signature = Array(try key.signature(for: message).rawRepresentation)
        #expect(JWK(json)?.isValid(signature, for: message, algorithm: .es256) == true)
        // Some servers include every member, even without a value.
        let full = (json.object ?? [:]).merging(["d": .null, "use": .null, "key_ops": [], "kid": .null]) { $1 }
        #expect(JWK(.object(full))?.isValid(signature, for: message, algorithm: .es256) == true)
        #expect(JWK(.object(full.merging(["d": "AQ"]) { $1 })) == nil)
        // A coordinate that is too long and a point that is not on the curve are both rejected.
        var wrong = json.object ?? [:]
        wrong["x"] = .string(Base64URL.encode([0] + Array(point[0..<32])))
        #expect(JWK(.object(wrong)) == nil)
        wrong["x"] = .string(Base64URL.encode([1]))
        wrong["y"] = .string(Base64URL.encode([1]))
        #expect(JWK(.object(wrong)) == nil)
    }

    @Test func choosesKeysByKeyIDAndType() throws {
        let set = try JWKSet(["keys": .array(published)])
        #expect(set.keys.count == 5)
        #expect(Array(set.candidates(for: header(.rs256, keyID: keys.keyID(for: .rs256)))).count == 1)
        #expect(Array(set.candidates(for: header(.es256, keyID: keys.keyID(for: .rs256)))).isEmpty)
        #expect(Array(set.candidates(for: header(.es256, keyID: "unknown"))).isEmpty)
    }

    @Test func choosesKeysByTypeWhenThereAreNoKeyIDs() throws {
        // Row 6: keys without kid and alg, together with keys that cannot be used here.
        let others: [JSON] = [
            ["kty": "EC", "crv": "secp256k1", "x": "AA", "y": "AA"],
            ["kty": "OKP", "crv": "X25519", "use": "enc", "x": "AA"],
            ["kty": "oct", "k": "AAAA"],
            ["kty": "new"],
            ["no": "kty"],
            .null,
        ]
        let set = try JWKSet(["keys": .array(published.map { without("kid", "alg", from: $0) } + others)])
        #expect(Array(set.candidates(for: header(.rs256))).count == 1)
        #expect(Array(set.candidates(for: header(.es256))).count == 1)
    }

    @Test(arguments: [["use": "enc"], ["key_ops": ["encrypt"]], ["alg": "RSA-OAEP"]] as [[String: JSON]])
    func skipsKeysForOtherUses(_ change: [String: JSON]) throws {
        // Row O9.
        let rsa = JSON.object((published[0].object ?? [:]).merging(change) { $1 })
        #expect(Array(try JWKSet(["keys": [rsa]]).candidates(for: header(.rs256))).isEmpty)
    }

    /// RFC 7518 section 3.3 requires at least 2048 bits. Beyond 8192 bits, the cost exceeds the benefit.
    @Test(arguments: [(1024, 0), (2047, 0), (2048, 1), (8192, 1), (8208, 0), (16384, 0)])
    func skipsRSAKeysThatAreTooShortOrTooLong(_ bits: Int, _ count: Int) throws {
        var modulus = HostServices.systemRandomBytes((bits + 7) / 8)
        modulus[0] = bits % 8 == 0 ? modulus[0] | 0x80 : modulus[0] & 0x7F | 0x40
        modulus[modulus.count - 1] |= 1
        let key = JSON.object(["kty": "RSA", "n": .string(Base64URL.encode(modulus)), "e": "AQAB"])
        #expect(try JWKSet(["keys": [key]]).keys.count == count)
    }

    @Test func rejectsACoordinateThatIsTooLong() throws {
        // The same bytes, split at a different position.
        let key = published[1].object ?? [:]
        let point = ["x", "y"].flatMap { Base64URL.decode(key[$0]?.string ?? "") ?? [] }
        let shifted = key.merging([
            "x": .string(Base64URL.encode(point.prefix(33))), "y": .string(Base64URL.encode(point.suffix(31))),
        ]) { $1 }
        #expect(try JWKSet(["keys": [.object(shifted)]]).keys.isEmpty)
    }

    /// A provider can replace its keys several times without changing their IDs.
    @Test func decoysDifferFromTheirKeysEvenIfTheseAreDecoysThemselves() throws {
        let decoys = try keys.decoys()
        let sets = try [keys, decoys, decoys.decoys()].map { try $0.jwks()["keys"]?.array ?? [] }
        for index in published.indices {
            let members = sets.map { $0[index] }
            #expect(Set(members.map { $0["kid"]?.string }).count == 1)
            #expect(Set(members.map { $0["n"]?.string ?? $0["x"]?.string }).count == 3)
        }
    }

    @Test(arguments: SignatureAlgorithm.symmetric) func verifiesHMACSignatures(_ algorithm: SignatureAlgorithm) throws {
        // Rows 43 and 75.
        let secret = String(repeating: "s", count: 64)
        let token = try keys.sign([:], header: ["alg": .string(algorithm.rawValue)], with: algorithm, secret: secret)
        let jws = try JWS(Secret(token))
        let hash = try #require(algorithm.definition?.hash)
        func isValid(_ secret: String) -> Bool {
            HMACSignature.isValid(jws.signature, for: jws.signedBytes, hash: hash, secret: Secret(secret))
        }
        #expect(isValid(secret))
        #expect(!isValid("\(secret)s"))
        #expect(!HMACSignature.isValid([], for: jws.signedBytes, hash: hash, secret: Secret(secret)))
    }

    @Test(arguments: [[:], ["keys": 5], ["keys": .null]] as [JSON]) func rejectsInvalidKeySets(_ json: JSON) {
        expectError(.invalidResponse) { try JWKSet(json) }
    }

    private func verifies(_ jws: JWS, _ set: JWKSet) -> Bool {
        set.candidates(for: jws.header).contains {
            $0.isValid(jws.signature, for: jws.signedBytes, algorithm: jws.header.algorithm)
        }
    }

    @Test(arguments: SignatureAlgorithm.asymmetric) func verifiesValidSignaturesAndRejectsOthers(
        _ algorithm: SignatureAlgorithm
    ) throws {
        // Rows 8, 10, 42, 74 and 125.
        let token = try keys.sign(["sub": "x"], header: ["alg": .string(algorithm.rawValue)], with: algorithm)
        let set = try JWKSet(["keys": .array(published)])
        #expect(verifies(try JWS(Secret(token)), set))
        let strangers = try JWKSet(try keys.decoys().jwks())
        #expect(!verifies(try JWS(Secret(token)), strangers))
        let parts = token.split(separator: ".")
        let forged = "\(parts[0]).\(Base64URL.encode(#"{"sub":"y"}"#.utf8)).\(parts[2])"
        #expect(!verifies(try JWS(Secret(forged)), set))
        #expect(!verifies(try JWS(Secret("\(parts[0]).\(parts[1]).")), set))
        // The same signature under every other algorithm name.
        let jws = try JWS(Secret(token))
        for other in SignatureAlgorithm.asymmetric
        where other.definition?.scheme != jws.header.algorithm.definition?.scheme {
            #expect(!set.keys.contains { $0.isValid(jws.signature, for: jws.signedBytes, algorithm: other) })
        }
    }

    @Test func triesEveryKeyWithTheSameKeyID() throws {
        // Rows 7 and O7: decoys with the same kid.
        let decoys = try (0..<3).flatMap { _ in try keys.decoys().jwks()["keys"]?.array ?? [] }
        let set = try JWKSet(["keys": .array(decoys + published + decoys)])
        for algorithm in SignatureAlgorithm.asymmetric {
            let header: JSON = ["alg": .string(algorithm.rawValue), "kid": .string(keys.keyID(for: algorithm))]
            #expect(verifies(try JWS(Secret(try keys.sign([:], header: header, with: algorithm))), set))
        }
    }

    @Test func triesABoundedNumberOfKeys() throws {
        let decoys = try (0..<20).map { _ in try keys.decoys().jwks()["keys"]?.array?[1] ?? .null }
        let set = try JWKSet(["keys": .array(decoys + published)])
        #expect(
            Array(set.candidates(for: header(.es256, keyID: keys.keyID(for: .es256)))).count == JWKSet.maximumAttempts
        )
        expectError(.invalidResponse) { try JWKSet(["keys": .array((0..<101).map { .integer($0) })]) }
    }

    @Test func skipsKeysWhosePrivateHalfIsPublished() throws {
        let leaked = JSON.object((published[1].object ?? [:]).merging(["d": "AAAA"]) { $1 })
        #expect(try JWKSet(["keys": [leaked]]).keys.isEmpty)
    }

    @Test(arguments: [("x", "AAAA"), ("x", "!"), ("y", "AAAA"), ("crv", "P-384"), ("crv", "P-192"), ("kty", "RSA")])
    func skipsMalformedECKeys(_ member: String, _ value: String) throws {
        let bad = JSON.object((published[1].object ?? [:]).merging([member: .string(value)]) { $1 })
        #expect(try JWKSet(["keys": [bad]]).keys.isEmpty)
    }
}
