import AuthFlowJSON
import AuthFlowTesting
import Foundation
import Testing

@testable import AuthFlow

/// The claims of an ID Token, one rule at a time (OIDC Core section 3.1.3.7).
@Suite struct IDTokenValidationTests {
    private static let now = Date(timeIntervalSince1970: 1_800_000_000)
    private static let time: Int64 = 1_800_000_000

    private static let good: [String: JSON] = [
        "iss": "https://id.example.com", "sub": "248289761001", "aud": "client", "exp": .integer(time + 300),
        "iat": .integer(time), "nonce": "n-0S6_WzA2Mj",
    ]

    private func validate(
        _ claims: [String: JSON],
        header: [String: JSON] = ["alg": "ES256"],
        nonce: String? = "n-0S6_WzA2Mj",
        accessToken: Secret? = Secret("access")
    ) throws -> IDToken {
        let token = try EmulatorKeys().sign(.object(claims), header: .object(header), with: .es256)
        let validation = IDTokenValidation(
            expectation: IDTokenValidation.Expectation(
                issuer: "https://id.example.com",
                clientID: "client",
                nonce: nonce,
                accessToken: accessToken,
                algorithms: [.es256]
            ),
            now: Self.now
        )
        return try validation.validateClaims(of: JWS(Secret(token)))
    }

    @Test func acceptsAGoodOne() throws {
        let token = try validate(Self.good)
        #expect(token.subject == "248289761001")
        #expect(token.audience == ["client"])
    }

    static let accepted: [(row: String, change: [String: JSON])] = [
        ("98 aud as an array", ["aud": ["client"]]),
        ("azp that is this client", ["azp": "client"]),
        ("exp within the leeway", ["exp": .integer(time - 59)]),
        ("iat slightly in the future", ["iat": .integer(time + 59)]),
        ("nbf slightly in the future", ["nbf": .integer(time + 59)]),
        ("times with a fraction", ["exp": .double(Double(time) + 300.5)]),
    ]

    @Test(arguments: accepted) func accepts(_ test: (row: String, change: [String: JSON])) throws {
        _ = try validate(Self.good.merging(test.change) { $1 })
    }

    /// Each row: its number in the conformance table (or what it is), the claims to change (nil removes), and the word
    /// that the error must say.
    static let refused: [(row: String, change: [String: JSON?], word: String)] = [
        ("2, 89 wrong iss", ["iss": "https://id.example.com1"], "issuer"),
        ("iss with a slash more", ["iss": "https://id.example.com/"], "issuer"),
        ("97 no iss", ["iss": nil], "iss"),
        ("3 no sub", ["sub": nil], "sub"),
        ("empty sub", ["sub": ""], "sub"),
        ("sub that is a number", ["sub": 5], "sub"),
        ("long sub", ["sub": .string(String(repeating: "a", count: 256))], "sub"),
        ("4, 90 wrong aud", ["aud": "client1"], "aud"),
        ("41, 96 no aud", ["aud": nil], "aud"),
        ("91 another audience as well", ["aud": ["client", "other"]], "aud"),
        ("empty aud", ["aud": []], "aud"),
        ("O1 azp of another client", ["azp": "other"], "azp"),
        ("azp that is not a string", ["azp": 1], "azp"),
        ("95 no exp", ["exp": nil], "exp"),
        ("exp that is a string", ["exp": "1800000300"], "exp"),
        ("94 exp six minutes ago", ["exp": .integer(time - 360)], "expired"),
        ("O2 exp just past the leeway", ["exp": .integer(time - 60)], "expired"),
        ("5 no iat", ["iat": nil], "iat"),
        ("120 iat one week ago", ["iat": .integer(time - 604_800)], "iat"),
        ("iat in the future", ["iat": .integer(time + 61)], "iat"),
        ("nbf in the future", ["nbf": .integer(time + 61)], "not valid yet"),
        ("nbf that is not a number", ["nbf": "now"], "not valid yet"),
        ("12, 99 wrong nonce", ["nonce": "n-0S6_WzA2Mj1"], "nonce"),
        ("100 no nonce", ["nonce": nil], "nonce"),
        ("O3 wrong at_hash", ["at_hash": "AAAAAAAAAAAAAAAAAAAAAA"], "at_hash"),
        ("at_hash that is not a string", ["at_hash": 1], "at_hash"),
    ]

    @Test(arguments: refused) func refuses(_ test: (row: String, change: [String: JSON?], word: String)) throws {
        var claims = Self.good
        for (name, value) in test.change { claims[name] = value }
        let error = try #require(throws: AuthError.self) { try validate(claims) }
        #expect(error.code == .invalidIDToken)
        #expect(error.description.contains(test.word), "\(error)")
    }

    @Test(arguments: ["none", "HS256", "RS256", "", "es256"]) func refusesAlgorithmsThatWereNotAgreed(_ name: String)
        throws
    {
        // Rows 9, 92, 93 and O15.
        let error = try #require(throws: AuthError.self) { try validate(Self.good, header: ["alg": .string(name)]) }
        #expect(error.description.contains("signed with"))
    }

    @Test func refusesCriticalExtensions() throws {
        // Row O5.
        #expect(throws: AuthError.self) {
            try validate(Self.good, header: ["alg": "ES256", "crit": ["exp"], "exp": 1])
        }
    }

    @Test func refusesANonceThatWasNeverSent() {
        // Row O6.
        #expect(throws: AuthError.self) { try validate(Self.good, nonce: nil) }
        let number = Self.good.merging(["nonce": 5]) { $1 }
        #expect(throws: AuthError.self) { try validate(number, nonce: nil) }
    }

    @Test func acceptsTheRightATHash() throws {
        // OIDC Core section 3.1.3.8: the left half of SHA-256("access"), made with another tool.
        var claims = Self.good
        claims["at_hash"] = "oFYf1knNtrqnhAVfBRuteQ"
        _ = try validate(claims)
    }

    @Test(arguments: ["", "a.b", "a.b.c.d", "!!.e30.AA", "e30.e30.AA", "W10.W10.AA", "eyJhbGciOiJFUzI1NiJ9.e30=.AA"])
    func refusesWhatIsNoSignedToken(_ text: String) {
        let token = Secret(text)
        #expect(throws: AuthError.self) {
            let jws = try JWS(token)
            _ = try IDTokenValidation(
                expectation: .init(issuer: "", clientID: "", nonce: nil, accessToken: nil, algorithms: [.es256]),
                now: Self.now
            ).validateClaims(of: jws)
        }
    }

    @Test func refusesDuplicateClaims() {
        let payload = Base64URL.encode(#"{"sub":"me","sub":"you"}"#.utf8)
        let error = #expect(throws: AuthError.self) { try JWS(Secret("eyJhbGciOiJFUzI1NiJ9.\(payload).AA")) }
        #expect(error?.description.contains("same key twice") == true)
    }

    @Test func saysThatEncryptedTokensAreNotSupported() {
        let error = #expect(throws: AuthError.self) { try JWS(Secret("a.b.c.d.e")) }
        #expect(error?.code == .unsupported)
    }
}
