import AuthFlow
import AuthFlowJSON
import Expectations
import Foundation
import Testing

@Suite struct PrivateKeyTests {
    // Written by OpenSSL 3.0; they are used for nothing else.
    private static let sec1 = """
        -----BEGIN EC PARAMETERS-----
        BggqhkjOPQMBBw==
        -----END EC PARAMETERS-----
        -----BEGIN EC PRIVATE KEY-----
        MHcCAQEEIHyXtiOikNfrHeM6cI6pGFRnEFtWjeKFpg6i7e4X5XuAoAoGCCqGSM49
        AwEHoUQDQgAEUlnl/RXQR6ITvLNEm/SWZVn8r30PicWrCWpO9NiIvNzn3WM1faHD
        74LuFRxXDlVlldelqKdbob0UcyRl3dJegQ==
        -----END EC PRIVATE KEY-----
        """
    private static let p384 = """
        -----BEGIN EC PRIVATE KEY-----
        MIGkAgEBBDAU0HUPbGot6IvpR/02WB04jLUguukM6CWyIx0VpqKqEx0KWwRl4bzM
        Zk60u3U14Z6gBwYFK4EEACKhZANiAASlrTx8qOrXIsKk7yutetB/Sv0D0qIHUB6N
        OnMzsNK5hFlB/hXEK+dfly6Kf+rjBVdPOeVjcmyVdT4mO3gJC05CjJLv/QLjqEwC
        hCSBMX4AwywrO4r9sql6v5AX7QQQBR8=
        -----END EC PRIVATE KEY-----
        """
    private static let ed25519 = """
        -----BEGIN PRIVATE KEY-----
        MC4CAQAwBQYDK2VwBCIEIGZ11D63/+CuEla9fTmDngxpxbjhNmfOILhGtzTSnZIp
        -----END PRIVATE KEY-----
        """
    private static let publicKey = """
        -----BEGIN PUBLIC KEY-----
        MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEUlnl/RXQR6ITvLNEm/SWZVn8r30P
        icWrCWpO9NiIvNzn3WM1faHD74LuFRxXDlVlldelqKdbob0UcyRl3dJegQ==
        -----END PUBLIC KEY-----
        """
    private static let shortRSA = """
        -----BEGIN RSA PRIVATE KEY-----
        MIICXQIBAAKBgQC9HR/Zb6Ot+Xrq4wH2bf+zi3II+Z0HMVB4H2ApkFF9hz9Sh2N1
        KkFQJYcb03MMFwyZMAZb3UN4cwKGPTa7fXc3sZIz61LQu+g81pAd6rnfZTwIXUgr
        kMLNsXreDfQur8WZ+IpBILusMDQmNVG1ce54HYdKSnxZcH041Omd8KOcLwIDAQAB
        AoGBAJFmVxqCb0JP0mXN67Bgmnyc9ixYXpctH0V8Oh86yqzM067MUXe/6T+J2vtV
        89qTzifpeLogwMNXCdXUMsSsjn97qg6HJdiy0T0QI9BTcmuSSuO3QN9BWsMx/hU3
        t6PfIThfrFuO/cOA0W4vWGpSM89wWfaJr/3gNlBXFiRmVdABAkEA8kFFGRaKrkln
        1hwFO7DNCE4RpuPFPTTJ2Pqp/BEUy3EuQWukfgRlLYbC93FEAKPODIzzigzd/Sf6
        V1n2pPYaLwJBAMfX+9d6CK0uaOFQtoKtoFnt/oFeSk+aGp+H6NkPxYpRFyZRyY0b
        SoNadRnfayZP1pJC3/MGcEB8UjIsUhokHgECQQCyF3+nsOWkuPwn8BN8zT39s/7Q
        FLQkidE1vRkH4LrL0NmzaGHV7n8/F8nuxIq8ea95lIlZXJo5iJFGdDGZFf8rAkA7
        n5v6yOUHzl3qQ2uAh47c5d3V+SzQnRiuWh1FjagRQWpXu3UXzXmowPdJFdhhINbS
        4nLwjg41nyHi6EhCll4BAkA5vzVsgrOz62Ahc/415eFXzzifDWrjjnJFFOJvoMyF
        uOvQd/NpXW8EN2g4/4g6ZLPLNMBGXFskPJKo/J8N0XtK
        -----END RSA PRIVATE KEY-----
        """

    struct Readable: CustomTestStringConvertible {
        let name: String
        let text: String
        let algorithm: SignatureAlgorithm
        var testDescription: String { name }
    }

    static func generated(_ algorithm: SignatureAlgorithm) -> String {
        (try? PrivateKey(generatedFor: algorithm))?.pem.exposed ?? ""
    }

    static let readable = [
        Readable(name: "SEC 1 behind its parameters", text: sec1, algorithm: .es256),
        Readable(name: "SEC 1, P-384", text: p384, algorithm: .es384),
        Readable(name: "PKCS #8, Ed25519", text: ed25519, algorithm: .edDSA),
        Readable(name: "a certificate beside it", text: "\(certificate)\n\(ed25519)", algorithm: .edDSA),
        Readable(name: "line ends of Windows", text: ed25519.replacing("\n", with: "\r\n"), algorithm: .edDSA),
        Readable(name: "PKCS #8, RSA", text: generated(.ps256), algorithm: .ps256),
        Readable(name: "PKCS #8, P-521", text: generated(.es512), algorithm: .es512),
    ]
    static let certificate = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----"

    private static func pem(_ base64: String, _ label: String = "PRIVATE KEY") -> String {
        "-----BEGIN \(label)-----\n\(base64)\n-----END \(label)-----"
    }

    /// Keys that OpenSSL made: secp256k1, brainpoolP256r1, brainpoolP384r1, SM2, X25519, and secp256k1 in SEC 1 form.
    static let otherCurves = [
        pem(
            "MIGEAgEAMBAGByqGSM49AgEGBSuBBAAKBG0wawIBAQQgekuyhuOzGtad3l3Dbr5fvX4tQLlpqaouSc9i2YX6NyehRANCAAQwpx1/vMq/HGfx3pjRptwGebb93X0ElQb/zC/F99vDupWZOaddNZniloxA0w4oODptJqa9ZF7lYEC1VZoLoj/Y"
        ),
        pem(
            "MIGIAgEAMBQGByqGSM49AgEGCSskAwMCCAEBBwRtMGsCAQEEIKBjEsWCoZIhO2mZI++gGePtYcTQ1R56oIRpT+TCxYDBoUQDQgAEkHOzyZHxaohqSYbmsOKxEpRc5XtEP6q3AyuQhYUr4IVJhcsXFYDZOYNJ38ghnOqq+lY5Tmv0NegAIH4hv1HfUA=="
        ),
        pem(
            "MIG6AgEAMBQGByqGSM49AgEGCSskAwMCCAEBCwSBnjCBmwIBAQQwcPLRM44xK3/Lt7ROeGerYFyWCWTWsHktGIfeZQUihrAed+3kyw6w4Ub3C0MRvnkGoWQDYgAEJe85DlnlfK0/KrZ3h3mV3FfFSHjEjJ8TPBoIC/5salbCcDBANGNnamCxUHvGDptAgpgNK7cvWi6usiwkdxJPGHzPHCd7OrUfqxbW/eiXT8qxyfSV5+H0nPTngDjOp74X"
        ),
        pem(
            "MIGHAgEAMBMGByqGSM49AgEGCCqBHM9VAYItBG0wawIBAQQg9Pt0KBzTium5zUSScOYOJZwbV5gKrmOpc5DpEIqplv2hRANCAAR8uLgsrEfQkYSsKOJg3R9TH4KM5dCBjLFSoL0VV+J3p1YIlQZS9GdqPd1cx7mUN76m66qFFmgi5txo3KxOYg99"
        ),
        pem("MC4CAQAwBQYDK2VuBCIEIEAtruNuyPNjcOISZ2/yZRcGjVcTwSD7cliwdHbkEzp2"),
        pem(
            "MHQCAQEEIFONKOtwlCE/C3pu6erKznypyulFeBhBQPKFOlxCrVjioAcGBSuBBAAKoUQDQgAEMIQ4NXF78o6VGaEHoSdl4DZEhsBKYAZtciLMOMl1WisGtDf7R4zOfFOb09xmYZMfDuoaQAbpy/d9tfzxiyOYog==",
            "EC PRIVATE KEY"
        ),
    ]

    @Test(arguments: otherCurves) func aKeyOnAnotherCurveIsNotReadAsOneOfOurs(_ text: String) {
        let error = #expect(throws: AuthError.self) { try PrivateKey(pem: Secret(text)) }
        #expect(error?.code == .invalidConfiguration)
        expectError(.invalidConfiguration) { try DecryptionKey(pem: Secret(text)) }
    }

    @Test(arguments: readable) func signsWithTheKeyOfAFile(_ readable: Readable) async throws {
        let key = try PrivateKey(text: Secret(readable.text))
        #expect(key.algorithms.first == readable.algorithm)
        #expect(key.publicJWK["d"] == nil && key.publicJWK["use"] == "sig")
        #expect(key.keyID == key.publicJWK.jwkThumbprint)
        let text = try await key.jwt(["a": 1], type: "JWT", algorithm: readable.algorithm)
        let jws = try JWS(Secret(text))
        let jwk = try #require(JWK(key.publicJWK))
        #expect(jwk.isValid(jws.signature, for: jws.signedBytes, algorithm: readable.algorithm))
        #expect(jws.header.keyID == key.keyID)
        #expect(!"\(key) \(String(reflecting: key))".contains(readable.text.dropFirst(40).prefix(20)))
        // What it writes it reads.
        #expect(try PrivateKey(pem: key.pem).publicJWK == key.publicJWK)
    }

    struct Unusable: CustomTestStringConvertible {
        let name: String
        let text: String
        let words: String
        var testDescription: String { name }
    }

    static let unusable = [
        Unusable(name: "empty", text: "", words: "no private key"),
        Unusable(name: "a public key", text: publicKey, words: "public key"),
        Unusable(name: "a certificate", text: certificate, words: "certificate"),
        Unusable(name: "RSA with 1024 bits", text: shortRSA, words: "2048 bits"),
        Unusable(
            name: "with a passphrase",
            text: "-----BEGIN ENCRYPTED PRIVATE KEY-----\nMIGb\n-----END ENCRYPTED PRIVATE KEY-----",
            words: "passphrase"
        ),
        Unusable(
            name: "OpenSSH",
            text: "-----BEGIN OPENSSH PRIVATE KEY-----\nb3Bl\n-----END OPENSSH PRIVATE KEY-----",
            words: "OpenSSH"
        ),
        Unusable(name: "damaged", text: ed25519.replacing("MC4C", with: "MC4D"), words: "damaged"),
        Unusable(name: "two keys", text: "\(ed25519)\n\(p384)", words: "several"),
        Unusable(name: "a public JWK", text: #"{"kty":"EC","crv":"P-256","x":"a","y":"b"}"#, words: "public"),
        Unusable(name: "a JWK to encrypt with", text: #"{"kty":"EC","use":"enc","d":"AA"}"#, words: "not for signing"),
        Unusable(name: "an unknown curve", text: #"{"kty":"EC","crv":"secp256k1","d":"AA"}"#, words: "not supported"),
        Unusable(name: "a short Ed25519 key", text: #"{"kty":"OKP","crv":"Ed25519","d":"AA"}"#, words: "damaged"),
        // Without the primes they would have to be found, for such a key for ever.
        Unusable(name: "RSA without primes", text: #"{"kty":"RSA","n":"AAcH","e":"AQ","d":"AQ"}"#, words: "p, q"),
        Unusable(
            name: "RSA that is damaged",
            text: #"{"kty":"RSA","n":"AAcH","e":"AQ","d":"AQ","p":"AQ","q":"AQ"}"#,
            words: "damaged"
        ),
        Unusable(name: "an empty set", text: #"{"keys":[]}"#, words: "no key of the set"),
        Unusable(name: "JSON that is cut off", text: #"{"keys":["#, words: "not JSON"),
    ]

    @Test(arguments: unusable) func refusesWhatCannotSign(_ unusable: Unusable) throws {
        let error = #expect(throws: AuthError.self) { try PrivateKey(text: Secret(unusable.text)) }
        #expect(error?.code == .invalidConfiguration)
        #expect(error?.message.contains(unusable.words) == true, "\(error?.message ?? "")")
    }

    private static func jwk(_ key: PrivateKey, _ d: [UInt8], _ change: [String: JSON] = [:]) -> JSON {
        var members = key.publicJWK.object ?? [:]
        members["d"] = .string(Base64URL.encode(d))
        return .object(members.merging(change) { $1 })
    }

    /// RFC 7517 appendix A.2: the elliptic key of the set.
    private static let example: JSON = [
        "kty": "EC", "crv": "P-256", "kid": "1", "x": "MKBCTNIcKUSDii11ySs3526iDZ8AiTo7Tu6KPAqv7D4",
        "y": "4Etl6SRW2YiLUrN5vfvVHuhp7x8PxltmWWlbbM4IFyM", "d": "870MB6gfuTJ4HtUnUvYMyJpr5eUZNP4Bk43bVdj3eAE",
    ]

    @Test func choosesAKeyOfASetByItsID() throws {
        var other = Self.example.object ?? [:]
        other["kid"] = "2"
        var encryption = other
        (encryption["kid"], encryption["use"]) = ("3", "enc")
        var verification = other
        (verification["kid"], verification["d"]) = ("4", nil)
        func text(_ keys: [JSON]) throws -> Secret {
            Secret(String(decoding: try JSON.object(["keys": .array(keys)]).serialized(), as: UTF8.self))
        }
        let both = try text([Self.example, .object(other), .object(encryption), .object(verification)])
        #expect(try PrivateKey(text: both, keyID: "2").keyID == "2")
        let error = #expect(throws: AuthError.self) { try PrivateKey(text: both) }
        #expect(error?.message.contains("1, 2") == true)
        for id in ["3", "4", "5"] { #expect(throws: AuthError.self) { try PrivateKey(text: both, keyID: id) } }
        // One candidate needs no name.
        #expect(try PrivateKey(text: try text([Self.example, .object(encryption)])).keyID == "1")
    }

    @Test func refusesAPrivatePartOfAnotherKey() throws {
        var members = Self.example.object ?? [:]
        members["x"] = "gI0GAILBdu7T53akrFmMyGcsF3n5dO7MmwNBHKW5SV0"
        let error = #expect(throws: AuthError.self) { try PrivateKey(jwk: .object(members)) }
        #expect(error?.message.contains("does not belong") == true)
    }

    @Test(arguments: ["RS256", "ES384", "none", "HS256"]) func refusesAnAlgorithmThatDoesNotFit(_ name: String) throws {
        var members = Self.example.object ?? [:]
        members["alg"] = .string(name)
        expectError(.invalidConfiguration) { try PrivateKey(jwk: .object(members)) }
    }

    /// RFC 7638 section 3.1.
    @Test func makesTheThumbprintOfTheRFC() {
        let key: JSON = [
            "kty": "RSA", "e": "AQAB", "alg": "RS256", "kid": "2011-04-29",
            "n":
                "0vx7agoebGcQSuuPiLJXZptN9nndrQmbXEps2aiAFbWhM78LhWx4cbbfAAtVT86zwu1RK7aPFFxuhDR1L6tSoc_BJECPebWKRXjBZCiFV4n3oknjhMstn64tZ_2W-5JsGY4Hc5n9yBXArwl93lqt7_RN5w6Cf0h4QyQ5v-65YGjQR0_FDW2QvzqY368QQMicAtaSqzs8KJZgnYb9c7d0zgdAZHzu6qMQvRL5hajrn1n91CbOpbISD08qNLyrdkt-bFTWhAI4vMQFh6WeZu0fM4lFd2NcRwr3XPksINHaQ-G_xBniIqbw0Ls1jF44-csFCur-kEgU8awapJzKnqDKgw",
        ]
        #expect(key.jwkThumbprint == "NzbLsXh8uDCcd-6MNwXF4W_7noWXFZAfHkxZsRGC9Xs")
    }

    // MARK: Files

    private func withKeyFile(_ text: String, _ body: (_ path: String) throws -> Void) throws {
        let path = "\(NSTemporaryDirectory())/authflow-key-\(UUID().uuidString)"
        defer { try? FileManager.default.removeItem(atPath: path) }
        #expect(
            FileManager.default.createFile(
                atPath: path,
                contents: Data(text.utf8),
                attributes: [.posixPermissions: 0o600]
            )
        )
        try body(path)
    }

    @Test func aReplacedFileRotatesTheKey() throws {
        try withKeyFile(Self.ed25519) { path in
            let source = SigningKeySource.file(path: path)
            let first = try source.key()
            #expect(try source.key().keyID == first.keyID)
            try FileManager.default.removeItem(atPath: path)
            expectError(.invalidConfiguration) { try source.key() }
            _ = FileManager.default.createFile(
                atPath: path,
                contents: Data(Self.sec1.utf8),
                attributes: [.posixPermissions: 0o600]
            )
            #expect(try source.key().algorithms == [.es256])
        }
    }

    @Test(arguments: [0o644, 0o604, 0o666]) func refusesAKeyFileThatOthersCanRead(_ mode: Int) throws {
        try withKeyFile(Self.ed25519) { path in
            try FileManager.default.setAttributes([.posixPermissions: mode], ofItemAtPath: path)
            let error = #expect(throws: AuthError.self) { try SigningKeySource.file(path: path).key() }
            #expect(error?.message.contains("chmod 600") == true)
        }
    }

    @Test(arguments: ["/dev/zero", "/", "/no/such/file"]) func refusesAPathThatIsNoFile(_ path: String) {
        let error = #expect(throws: AuthError.self) { try SigningKeySource.file(path: path).key() }
        #expect(error?.code == .invalidConfiguration)
    }
}
