import AuthFlow
import AuthFlowJSON
import Crypto
import Expectations
import Foundation
import Testing

@testable import AuthFlowJOSE
@testable import AuthFlowOAuth

/// Encrypted tokens (RFC 7516), tested with tokens from another library.
@Suite struct JWETests {
    private func key(_ token: EncryptedTokens.Token) throws -> DecryptionKey {
        let text = try #require(EncryptedTokens.keys[token.keyID])
        var members = try #require(try JSON(parsing: Array(text.utf8)).object)
        // The SHA-1 variant must be configured explicitly.
        if token.algorithm == "RSA-OAEP" { members["alg"] = "RSA-OAEP" }
        return try DecryptionKey(jwk: .object(members))
    }

    @Test(arguments: EncryptedTokens.all) func decryptsTokensEncryptedByAnotherLibrary(_ token: EncryptedTokens.Token)
        throws
    {
        let content = try JWE(Secret(token.text)).decrypted(with: [try key(token)])
        #expect(content.exposed == EncryptedTokens.content)
    }

    /// Tokens whose ECDH-ES shared secret begins with a zero octet.
    /// RFC 7518 section 4.6.2: the key is derived from all octets of the shared secret, including leading zeros. The tokens were created with joserfc.
    @Test(arguments: [
        "eyJhbGciOiJFQ0RILUVTIiwiZW5jIjoiQTEyOEdDTSIsImVwayI6eyJjcnYiOiJQLTI1NiIsIngiOiJSNVhsZkxNUDU4Q2pFWGQ1TklERTZnYnNDbU9GOWJMZmZlNTMzWHBhRDFrIiwieSI6ImZxTnQ0b2kxQzF2MUYxWE5RVUhfMW14aVhXVzU1OUZYSUtHT0Z3VHdIUkkiLCJrdHkiOiJFQyJ9fQ..YTvYxOyV2TaU9T6O.1xIkJpPgvrQ1yFzx_EJ-QvZGGz0UTrFYMF5YMw.2bINzGfG85r1qkeavc3XGA",
        "eyJhbGciOiJFQ0RILUVTK0EyNTZLVyIsImVuYyI6IkEyNTZHQ00iLCJlcGsiOnsiY3J2IjoiUC0yNTYiLCJ4IjoiNGp5dVUzaElQejczelUxQmRkdUtJZHlqZEdxbGZOaWpUcUJnY19qUWtNWSIsInkiOiJaTGFqZ2w2aG0xelB5YTVfLWtPYVlYeUlYMlNMQ1dUMHg1SVlRY294ZEdVIiwia3R5IjoiRUMifX0.8xbDs9i5tOaV_Qsb1xK6A5Oc7OHIyldKAq-9okwMOmBWQ-KYm50PNg.BUJur2nTP52pPbB0.IW90WJrsiWxW_SX0VBRp1rOoIIo1zpYtfk37cg.f9VjdWIo8iHGX6T9kd5iCQ",
    ])
    func decryptsATokenWhoseSharedSecretBeginsWithZero(_ text: String) throws {
        let key = try DecryptionKey(jwk: [
            "kty": "EC", "crv": "P-256", "x": "vv_r9yMSsxxDtVua69aTF6Ab9B1Y8RemuRaotjKJvv4",
            "y": "mqos6aNuIFT3WuLBpqVNYnfn4hmMbJ44e0VkO55Xt5I", "d": "YTVnNf1iD5hAeAHkjjYGUFqJJkH8Q54EubZPsJmCwbQ",
        ])
        #expect(try JWE(Secret(text)).decrypted(with: [key]).exposed == "eyJhbGciOiJub25lIn0.e30.c2ln")
    }

    @Test func derivesTheKeyOfRFC7518AppendixC() throws {
        let bob = try DecryptionKey(
            jwk: [
                "kty": "EC", "crv": "P-256", "x": "weNJy2HscCSM6AEDTDg04biOvhFhyyWvOHQfeF_PxMQ",
                "y": "e8lnCO-AlStT-NJVX-crhB7QRYhiix03illJOVAOyck",
                "d": "VEmDZpDXXK8p8N0Cndsxs924q6nS1RXFASRl6BfUqdw",
            ]
        )
        let secret = try bob.agreement(with: [
            "kty": "EC", "crv": "P-256", "x": "gI0GAILBdu7T53akrFmMyGcsF3n5dO7MmwNBHKW5SV0",
            "y": "SLW_xSffzlPWrHEVI30DHM_4egVwt3NQqeUD7nMFpps",
        ])
        let key = ConcatKDF.derive(
            from: secret,
            algorithm: "A128GCM",
            partyU: Array("Alice".utf8),
            partyV: Array("Bob".utf8),
            size: 16
        )
        let encoded = unsafe key.withUnsafeBytes { unsafe Base64URL.encode($0) }
        #expect(encoded == "VqqN6vgjbSBcIijNcacQGg")
    }

    @Test(arguments: KeyManagementAlgorithm.all, ContentEncryption.allCases)
    func decryptsTokensThatItEncrypts(_ algorithm: KeyManagementAlgorithm, _ content: ContentEncryption) throws {
        let curves = ["P-256", "P-384", "P-521", "X25519"]
        let wanted = EncryptedTokens.keys.keys.sorted().compactMap { name -> DecryptionKey? in
            guard let text = EncryptedTokens.keys[name], var members = try? JSON(parsing: Array(text.utf8)).object,
                algorithm.usesRSA ? members["kty"] == "RSA" : curves.contains(members["crv"]?.string ?? "")
            else { return nil }
            members["alg"] = .string(algorithm.rawValue)
            return try? DecryptionKey(jwk: .object(members))
        }
        #expect(!wanted.isEmpty)
        for key in wanted {
            let text = try #require(EncryptionKey(key.publicJWK)).encrypted(EncryptedTokens.content, algorithm, content)
            #expect(try JWE(Secret(text)).decrypted(with: [key]).exposed == EncryptedTokens.content)
            let again = try #require(EncryptionKey(key.publicJWK)).encrypted(
                EncryptedTokens.content,
                algorithm,
                content
            )
            #expect(text != again)
        }
    }

    /// Keys without `use` may be signing keys.
    @Test func prefersAKeyMarkedForEncryption() throws {
        var signing = try #require(DecryptionKey(generatedFor: .ecdhES).publicJWK.object)
        for name in ["use", "alg"] { signing[name] = nil }
        let own = try DecryptionKey(generatedFor: .rsaOAEP256)
        let keys = [JSON.object(signing), own.publicJWK].compactMap(EncryptionKey.init)
        let metadata = try ProviderMetadata(["issuer": "https://id.example.com"])
        let text = try RequestObjectEncryption().encrypted("a.b.c", with: keys, metadata, .system)
        #expect(try JWE(Secret(text)).decrypted(with: [own]).exposed == "a.b.c")
        let unmarked = try RequestObjectEncryption().encrypted("a.b.c", with: Array(keys.prefix(1)), metadata, .system)
        #expect(JWE.isEncrypted(Secret(unmarked)))
    }

    struct Example: CustomTestStringConvertible {
        let name: String
        let header: [String: JSON]
        let content: ContentEncryption
        let text: String
        let key: [UInt8]
        let vector: [UInt8]
        let end: String
        var testDescription: String { name }
    }

    @Test(arguments: [
        Example(
            name: "RFC 7516 appendix A.1",
            header: ["alg": "RSA-OAEP", "enc": "A256GCM"],
            content: .a256GCM,
            text: "The true sign of intelligence is not knowledge but imagination.",
            key: [
                177, 161, 244, 128, 84, 143, 225, 115, 63, 180, 3, 255, 107, 154, 212, 246, 138, 7, 110, 91, 112, 46,
                34, 105, 47, 130, 203, 46, 122, 234, 64, 252,
            ],
            vector: [227, 197, 117, 252, 2, 219, 233, 68, 180, 225, 77, 219],
            end:
                "48V1_ALb6US04U3b.5eym8TW_c8SuK0ltJ3rpYIzOeDQz7TALvtu6UG9oMo4vpzs9tX_EFShS8iB7j6jiSdiwkIr3ajwQzaBtQD_A.XFBoMYUZodetZdvTiFvSkQ"
        ),
        Example(
            name: "RFC 7516 appendix A.2",
            header: ["alg": "RSA1_5", "enc": "A128CBC-HS256"],
            content: .a128CBCHS256,
            text: "Live long and prosper.",
            key: [
                4, 211, 31, 197, 84, 157, 252, 254, 11, 100, 157, 250, 63, 170, 106, 206, 107, 124, 212, 45, 111, 107,
                9, 219, 200, 177, 0, 240, 143, 156, 44, 207,
            ],
            vector: [3, 22, 60, 12, 43, 67, 104, 105, 108, 108, 105, 99, 111, 116, 104, 101],
            end: "AxY8DCtDaGlsbGljb3RoZQ.KDlTtXchhZTGufMYmOYGS4HffxPSUrfmqCHXaI9wOGY.9hH0vgRfYgPnAHOd8stkvw"
        ),
    ]) func encryptsTheContentOfTheExamples(_ example: Example) throws {
        let key = try #require(EncryptionKey(DecryptionKey(generatedFor: .rsaOAEP256).publicJWK))
        let text = try key.encrypted(
            example.text,
            .rsaOAEP256,
            example.content,
            header: { $0 = example.header },
            randomBytes: { $0 == example.key.count ? example.key : example.vector }
        )
        #expect(text.hasPrefix(Base64URL.encode(try JSON.object(example.header).serialized()) + "."))
        #expect(text.split(separator: ".").dropFirst(2).joined(separator: ".") == example.end)
    }

    @Test(
        arguments: [
            ["use": "sig"], ["key_ops": ["verify"]], ["key_ops": "encrypt"], ["alg": "RSA1_5"], ["alg": "RS256"],
            ["alg": 1],
            ["kty": "oct", "k": "AAAA"], ["crv": "secp256k1"], ["x": "AA"], ["y": "="], ["d": "AAAA"],
            ["x": "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"],
        ] as [[String: JSON]]
    ) func rejectsKeysThatAreNotUsableForEncryption(_ change: [String: JSON]) throws {
        let own = try DecryptionKey(generatedFor: .ecdhES).publicJWK.object ?? [:]
        #expect(EncryptionKey(.object(own)) != nil)
        #expect(EncryptionKey(.object(own.merging(change) { $1 })) == nil)
    }

    @Test(arguments: EncryptedTokens.all) func rejectsTamperedTokensWithoutRevealingTheCause(
        _ token: EncryptedTokens.Token
    ) throws {
        let key = try key(token)
        let parts = token.text.split(separator: ".", omittingEmptySubsequences: false)
        var messages: Set<String> = []
        for index in 1..<5 where !parts[index].isEmpty {
            var bytes = try #require(Base64URL.decode(parts[index]))
            bytes[bytes.count / 2] ^= 1
            var changed = parts.map(String.init)
            changed[index] = Base64URL.encode(bytes)
            let text = changed.joined(separator: ".")
            let error = #expect(throws: AuthError.self) { try JWE(Secret(text)).decrypted(with: [key]) }
            if let error { messages.insert(error.message) }
        }
        // The error does not report the cause, because the cause would reveal information about the key.
        #expect(messages.count == 1)
    }

    /// A tag that is compared only up to its own length could be guessed byte by byte; an empty tag would be valid.
    @Test(arguments: EncryptedTokens.all, [0, 1, 8]) func rejectsATruncatedTag(
        _ token: EncryptedTokens.Token,
        _ count: Int
    ) throws {
        let parts = token.text.split(separator: ".", omittingEmptySubsequences: false).map(String.init)
        let tag = try #require(Base64URL.decode(parts[4]))
        let text = (parts.dropLast() + [Base64URL.encode(tag.prefix(count))]).joined(separator: ".")
        try expectUndecryptable(text, with: try key(token))
    }

    /// The sender chooses both, and could make the encryption weaker than the header declares.
    @Test(
        arguments: [
            (.a256GCM, 32, 16), (.a128GCM, 16, 32), (.a256CBCHS512, 64, 32), (.a128CBCHS256, 32, 64),
            (.a256GCM, 12, 16),
        ] as [(ContentEncryption, Int, Int)]
    ) func rejectsAContentKeyOrInitializationVectorOfTheWrongSize(
        _ content: ContentEncryption,
        _ size: Int,
        _ wrongSize: Int
    ) throws {
        let key = try DecryptionKey(generatedFor: .ecdhESA256KW)
        let text = try #require(EncryptionKey(key.publicJWK)).encrypted(
            EncryptedTokens.content,
            .ecdhESA256KW,
            content,
            randomBytes: { HostServices.systemRandomBytes($0 == size ? wrongSize : $0) }
        )
        try expectUndecryptable(text, with: key)
    }

    /// The encrypted key is not authenticated, so anyone could otherwise change the token without invalidating it.
    @Test func rejectsAnEncryptedKeyInDirectKeyAgreement() throws {
        let token = try #require(EncryptedTokens.all.first { $0.algorithm == "ECDH-ES" })
        try expectUndecryptable(token.text.replacing("..", with: ".AAAA."), with: try key(token))
    }

    @Test(arguments: ["apu", "apv"], ["!", 1] as [JSON])
    func rejectsPartyInformationThatIsNotBase64URL(_ name: String, _ value: JSON) throws {
        let key = try DecryptionKey(generatedFor: .ecdhES)
        let text = try #require(EncryptionKey(key.publicJWK)).encrypted(
            EncryptedTokens.content,
            .ecdhES,
            .a256GCM,
            header: { $0[name] = value }
        )
        try expectUndecryptable(text, with: key)
    }

    /// Some servers send null instead of omitting a header parameter.
    @Test(arguments: ["kid", "cty", "crit", "zip", "jku", "apu", "apv"])
    func aNullHeaderParameterOfAnEncryptedTokenIsAbsent(_ name: String) throws {
        let key = try DecryptionKey(generatedFor: .ecdhES)
        let text = try #require(EncryptionKey(key.publicJWK)).encrypted(
            EncryptedTokens.content,
            .ecdhES,
            .a256GCM,
            header: { $0[name] = .null }
        )
        #expect(try JWE(Secret(text)).decrypted(with: [key]).exposed == EncryptedTokens.content)
    }

    private func expectUndecryptable(_ text: String, with key: DecryptionKey) throws {
        let token = try JWE(Secret(text))
        let error = #expect(throws: AuthError.self) { try token.decrypted(with: [key]) }
        #expect(error?.code == .invalidIDToken)
        #expect(error?.message.contains("cannot be decrypted with the client's key") == true)
    }

    struct Header: Sendable, CustomTestStringConvertible {
        let testDescription: String
        let members: [String: JSON]
        let words: String
    }

    private static let headers = [
        Header(testDescription: "RSA1_5", members: ["alg": "RSA1_5"], words: "RSA1_5"),
        Header(testDescription: "dir", members: ["alg": "dir"], words: "alg"),
        Header(testDescription: "A128KW", members: ["alg": "A128KW"], words: "alg"),
        Header(testDescription: "PBES2", members: ["alg": "PBES2-HS256+A128KW"], words: "alg"),
        Header(testDescription: "no algorithm", members: ["alg": .null], words: "has no \"alg\""),
        Header(testDescription: "a number as algorithm", members: ["alg": 1], words: "\"alg\" that is not a string"),
        Header(testDescription: "an unknown enc", members: ["enc": "A128CTR"], words: "enc"),
        Header(testDescription: "compressed", members: ["zip": "DEF"], words: "zip"),
        Header(testDescription: "critical", members: ["crit": ["exp"]], words: "crit"),
        Header(testDescription: "a URL for keys", members: ["jku": "https://evil.example.com"], words: "jku"),
        Header(testDescription: "a certificate's URL", members: ["x5u": "https://evil.example.com"], words: "x5u"),
        Header(testDescription: "rounds", members: ["p2c": 1_000_000_000], words: "p2c"),
        Header(testDescription: "not a JWT", members: ["cty": "image/png"], words: "cty"),
        Header(testDescription: "another key", members: ["kid": "unknown"], words: "no key"),
        Header(testDescription: "another type of key", members: ["alg": "RSA-OAEP-256"], words: "no key"),
    ]

    @Test(arguments: headers) func rejectsUnsupportedOrMismatchedJWEHeaders(_ header: Header) throws {
        let token = try #require(EncryptedTokens.all.first { $0.keyID == "p256" && $0.algorithm == "ECDH-ES" })
        let parts = token.text.split(separator: ".", omittingEmptySubsequences: false)
        let old = try JSON(parsing: try #require(Base64URL.decode(parts[0]))).object ?? [:]
        let new = JSON.object(old.merging(header.members) { $1 }.filter { $0.value != .null })
        let text = ([Base64URL.encode(try new.serialized())] + parts.dropFirst().map(String.init)).joined(
            separator: "."
        )
        let error = #expect(throws: AuthError.self) {
            try JWE(Secret(text)).decrypted(with: [try key(token)])
        }
        #expect(error?.message.contains(header.words) == true, "\(error?.message ?? "")")
    }

    /// Accepting points that are not on the curve would reveal the private key bit by bit (invalid curve attack).
    @Test func rejectsAnEphemeralKeyThatIsNotOnTheCurve() throws {
        let token = try #require(EncryptedTokens.all.first { $0.keyID == "p256" })
        let key = try key(token)
        let x = Base64URL.encode([UInt8](repeating: 1, count: 32))
        for jwk: JSON in [
            ["kty": "EC", "crv": "P-256", "x": .string(x), "y": .string(x)],
            ["kty": "EC", "crv": "P-384", "x": .string(x), "y": .string(x)],
            ["kty": "OKP", "crv": "X25519", "x": .string(x)], ["kty": "EC", "crv": "P-256", "x": "AQ", "y": "AQ"], [:],
            .null,
        ] {
            #expect(throws: (any Error).self) { try key.agreement(with: jwk) }
        }
    }

    @Test(arguments: ["a.b.c.d", "a.b.c.d.e.f", "....", "!.!.!.!.!", "e30....", "e30.AA.AA.AA.AA"])
    func rejectsMalformedEncryptedTokens(_ text: String) {
        expectError(.invalidIDToken) { try JWE(Secret(text)) }
    }

    @Test func rejectsAnOversizedEncryptedToken() {
        let error = #expect(throws: AuthError.self) {
            try JWE(Secret(String(repeating: "A", count: 70_000) + ".a.a.a.a"))
        }
        #expect(error?.code == .invalidIDToken && error?.message.contains("larger than") == true)
    }

    @Test(arguments: ["AA", "!"]) func rejectsAValidTokenWithASixthPart(_ part: String) throws {
        let token = try #require(EncryptedTokens.all.first)
        let error = #expect(throws: AuthError.self) { try JWE(Secret("\(token.text).\(part)")) }
        #expect(error?.code == .invalidIDToken && error?.message.contains("five parts") == true)
    }

    @Test func encryptsOnlyWithTheAlgorithmsOfTheKey() throws {
        let key = try #require(EncryptionKey(DecryptionKey(generatedFor: .ecdhES).publicJWK))
        #expect(throws: CryptoKitError.self) { try key.encrypted("a.b.c", .ecdhESA256KW, .a256GCM) }
    }

    /// Some libraries omit the leading zero octets of a coordinate.
    @Test func acceptsKeysWithOmittedLeadingZeroOctets() throws {
        func stripped(_ point: Data) -> JSON {
            func number(_ bytes: Data) -> JSON { .string(Base64URL.encode(bytes.drop { $0 == 0 })) }
            return [
                "kty": "EC", "crv": "P-256", "x": number(point.prefix(32)), "y": number(point.suffix(32)),
            ]
        }
        var key = P256.KeyAgreement.PrivateKey()
        while key.publicKey.rawRepresentation.first != 0 { key = P256.KeyAgreement.PrivateKey() }
        var members = try #require(stripped(key.publicKey.rawRepresentation).object)
        members["d"] = .string(Base64URL.encode(key.rawRepresentation))
        let read = try DecryptionKey(jwk: .object(members))
        #expect(read.publicJWK["x"]?.string?.utf8.count == 43)
        _ = try PrivateKey(jwk: .object(members))
        // The shared secret is the same whether or not the peer's coordinates have leading zeros.
        let other = P256.KeyAgreement.PrivateKey()
        let secret = try other.sharedSecretFromKeyAgreement(with: key.publicKey)
        let reader = try DecryptionKey(
            jwk: ["kty": "EC", "crv": "P-256", "d": .string(Base64URL.encode(other.rawRepresentation))]
        )
        let agreed = try reader.agreement(with: stripped(key.publicKey.rawRepresentation))
        let bytes = unsafe secret.withUnsafeBytes { unsafe Array($0) }
        #expect(agreed == bytes)
    }

    // MARK: Keys

    @Test(arguments: [
        KeyManagementAlgorithm.rsaOAEP, .rsaOAEP256, .ecdhES, .ecdhESA128KW, .ecdhESA192KW, .ecdhESA256KW,
    ]) func aGeneratedDecryptionKeyRoundTripsThroughPEM(_ algorithm: KeyManagementAlgorithm) throws {
        let key = try DecryptionKey(generatedFor: algorithm)
        let pem = try #require(key.pem)
        let read = try DecryptionKey(pem: pem, algorithm: algorithm)
        #expect(read.publicJWK == key.publicJWK && read.publicJWK["d"] == nil)
        #expect(read.publicJWK["use"] == "enc" && read.publicJWK["alg"]?.string == algorithm.rawValue)
    }

    @Test func noDecryptionKeyIsGeneratedForAnUnsupportedAlgorithm() {
        let error = #expect(throws: AuthError.self) {
            try DecryptionKey(generatedFor: KeyManagementAlgorithm(rawValue: "dir"))
        }
        #expect(error?.code == .unsupported && error?.message.contains("No key can be generated") == true)
    }

    /// RSA-OAEP with SHA-1 is never the default; it must be configured. An algorithm that is unsuitable for the key is
    /// rejected.
    @Test func rsaOAEPWithSHA1IsUsedOnlyIfConfigured() throws {
        let pem = try #require(try DecryptionKey(generatedFor: .rsaOAEP256).pem)
        #expect(try DecryptionKey(pem: pem).algorithms == [.rsaOAEP256])
        #expect(try DecryptionKey(pem: pem, algorithm: .rsaOAEP).algorithms == [.rsaOAEP])
        expectError(.invalidConfiguration) { try DecryptionKey(pem: pem, algorithm: .ecdhES) }
        expectError(.invalidConfiguration) {
            try DecryptionKey(pem: pem, algorithm: KeyManagementAlgorithm(rawValue: "RSA1_5"))
        }
    }

    @Test(arguments: [
        #"{"kty":"EC","crv":"P-256","x":"weNJy2HscCSM6AEDTDg04biOvhFhyyWvOHQfeF_PxMQ"}"#,
        #"{"kty":"EC","crv":"P-256","d":"VEmDZpDXXK8p8N0Cndsxs924q6nS1RXFASRl6BfUqdw","use":"sig"}"#,
        #"{"kty":"EC","crv":"P-256","d":"VEmDZpDXXK8p8N0Cndsxs924q6nS1RXFASRl6BfUqdw","key_ops":["sign"]}"#,
        #"{"kty":"EC","crv":"P-256","d":"VEmDZpDXXK8p8N0Cndsxs924q6nS1RXFASRl6BfUqdw","x":"AAAA"}"#,
        #"{"kty":"EC","crv":"P-256","d":"!"}"#, #"{"kty":"EC","crv":"secp256k1","d":"AQ"}"#,
        #"{"kty":"RSA","d":"AQ"}"#, #"{"kty":"OKP","crv":"X25519","d":"AQ"}"#, #"{"kty":"oct","k":"AQ","d":"AQ"}"#,
        #"{"keys":[]}"#, "{", "nothing",
    ]) func rejectsKeysThatCannotDecrypt(_ text: String) {
        let error = #expect(throws: AuthError.self) {
            try DecryptionKey.keys(text: Secret(text), keyID: nil, algorithm: nil)
        }
        #expect(error?.code == .invalidConfiguration)
    }

    @Test func rejectsAKeyForAnAlgorithmOtherThanTheConfiguredOne() throws {
        let text = Secret(
            #"{"kty":"EC","crv":"P-256","alg":"ECDH-ES","d":"VEmDZpDXXK8p8N0Cndsxs924q6nS1RXFASRl6BfUqdw"}"#
        )
        let error = #expect(throws: AuthError.self) {
            try DecryptionKey.keys(text: text, keyID: nil, algorithm: .ecdhESA256KW)
        }
        #expect(error?.message.contains("its alg is ECDH-ES, but the configured algorithm is ECDH-ES+A256KW") == true)
    }

    @Test func loadsEveryEncryptionKeyOfAJWKSet() throws {
        let keys = EncryptedTokens.keys.values.joined(separator: ",")
        let signing = #"{"kty":"EC","crv":"P-256","d":"VEmDZpDXXK8p8N0Cndsxs924q6nS1RXFASRl6BfUqdw","use":"sig"}"#
        let read = try DecryptionKey.keys(text: Secret("{\"keys\":[\(keys),\(signing)]}"), keyID: nil, algorithm: nil)
        #expect(Set(read.compactMap(\.keyID)) == Set(EncryptedTokens.keys.keys))
        // Only the keys in the set that support the algorithm are used.
        let rsa = try DecryptionKey.keys(text: Secret("{\"keys\":[\(keys)]}"), keyID: nil, algorithm: .rsaOAEP)
        #expect(rsa.map(\.algorithms) == [[.rsaOAEP]])
    }

    @Test func selectsKeysOfAJWKSetByKeyIDAndAlgorithm() throws {
        let key = #""kty":"EC","crv":"P-256","d":"VEmDZpDXXK8p8N0Cndsxs924q6nS1RXFASRl6BfUqdw""#
        // The third and the last key are signing keys.
        let text = """
            {"keys":[{"kid":"1","alg":"ECDH-ES",\(key)},{"kid":"2","alg":"ECDH-ES+A256KW",\(key)},
            {"kid":"3","alg":"ES256",\(key)},{"kid":"4",\(key)},
            {"kid":"5","kty":"OKP","crv":"Ed25519","d":"nWGxne_9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A"}]}
            """
        func names(_ keyID: String?, _ algorithm: KeyManagementAlgorithm?) throws -> [String] {
            try DecryptionKey.keys(text: Secret(text), keyID: keyID, algorithm: algorithm).compactMap(\.keyID)
        }
        #expect(try names(nil, nil) == ["1", "2", "4"])
        #expect(try names("2", nil) == ["2"])
        #expect(try names(nil, .ecdhES) == ["1", "4"])
        let error = #expect(throws: AuthError.self) { try names("3", nil) }
        #expect(error?.code == .invalidConfiguration)
        #expect(error?.message.contains("no private decryption key") == true)
    }

    @Test func aSigningKeyInAJWKSetIsNotUsedForDecryption() {
        let text =
            #"{"keys":[{"kty":"EC","crv":"P-256","alg":"ES256","d":"VEmDZpDXXK8p8N0Cndsxs924q6nS1RXFASRl6BfUqdw"}]}"#
        expectError(.invalidConfiguration) {
            try DecryptionKey.keys(text: Secret(text), keyID: nil, algorithm: nil)
        }
    }
}
