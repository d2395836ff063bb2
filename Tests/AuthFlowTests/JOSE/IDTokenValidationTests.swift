import AuthFlow
import AuthFlowTesting
import Expectations
import Foundation
import Testing

@testable import AuthFlowIssuer
@testable import AuthFlowJSON
@testable import AuthFlowOAuth
@testable import AuthFlowPKCS11

/// The claims of an ID Token, one rule at a time (OIDC Core section 3.1.3.7).
@Suite struct IDTokenValidationTests {
    private static let now = Date(timeIntervalSince1970: 1_800_000_000)
    private static let time: Int64 = 1_800_000_000

    private static let good: [String: JSON] = [
        "iss": "https://id.example.com", "sub": "248289761001", "aud": "client", "exp": .integer(time + 300),
        "iat": .integer(time), "nonce": "n-0S6_WzA2Mj",
    ]

    private static func expectation(_ context: IDTokenValidation.Context) -> IDTokenValidation.Expectation {
        var expectation = IDTokenValidation.Expectation(
            issuer: "https://id.example.com",
            clientID: "client",
            algorithms: [.es256],
            context: context
        )
        expectation.accessToken = Secret("access")
        expectation.code = Secret("code")
        return expectation
    }

    private static func check(
        _ token: String,
        _ expectation: IDTokenValidation.Expectation
    ) throws -> IDTokenClaims {
        let validation = IDTokenValidation(expectation: expectation, now: Self.now)
        return try validation.check(validation.verifier.rules(of: JWS(Secret(token))))
    }

    private func validate(
        _ claims: [String: JSON],
        header: [String: JSON] = ["alg": "ES256"],
        nonce: String? = "n-0S6_WzA2Mj",
        change: (inout IDTokenValidation.Expectation) -> Void = { _ in }
    ) throws -> IDTokenClaims {
        var expectation = Self.expectation(.signIn(nonce: nonce.map(Secret.init)))
        change(&expectation)
        return try validate(claims, header: header, expectation)
    }

    private func validate(
        _ claims: [String: JSON],
        header: [String: JSON] = ["alg": "ES256"],
        _ expectation: IDTokenValidation.Expectation
    ) throws -> IDTokenClaims {
        let token = try EmulatorKeys().sign(.object(claims), header: .object(header), with: .es256)
        return try Self.check(token, expectation)
    }

    @Test func acceptsAValidIDToken() throws {
        let token = try validate(Self.good)
        #expect(token.subject == "248289761001")
        #expect(token.audience == ["client"])
    }

    struct Accepted: CustomTestStringConvertible {
        let row: String
        let change: [String: JSON]
        var testDescription: String { row }
    }

    static let accepted: [Accepted] = [
        Accepted(row: "98 aud as an array", change: ["aud": ["client"]]),
        Accepted(
            row: "null for absent claims",
            change: ["azp": .null, "nbf": .null, "auth_time": .null, "events": .null]
        ),
        Accepted(row: "azp that is this client", change: ["azp": "client"]),
        Accepted(row: "exp within the leeway", change: ["exp": .integer(time - 59)]),
        Accepted(row: "iat slightly in the future", change: ["iat": .integer(time + 59)]),
        Accepted(row: "nbf slightly in the future", change: ["nbf": .integer(time + 59)]),
        Accepted(row: "times with a fraction", change: ["exp": .double(Double(time) + 300.5)]),
    ]

    @Test(arguments: accepted)
    func acceptsPermittedClaimVariants(_ test: Accepted) throws {
        _ = try validate(Self.good.merging(test.change) { $1 })
    }

    struct Refused: CustomTestStringConvertible {
        let row: String
        let change: [String: JSON?]
        let word: String
        var testDescription: String { row }
    }

    /// Each row has its number in the conformance table or a description, the claims to change (nil removes a claim),
    /// and a word that the error must contain.
    static let refused: [Refused] = [
        Refused(row: "2, 89 wrong iss", change: ["iss": "https://id.example.com1"], word: "issuer"),
        Refused(row: "iss with a trailing slash", change: ["iss": "https://id.example.com/"], word: "issuer"),
        Refused(row: "97 no iss", change: ["iss": nil], word: "iss"),
        Refused(row: "3 no sub", change: ["sub": nil], word: "sub"),
        Refused(row: "empty sub", change: ["sub": ""], word: "sub"),
        Refused(row: "numeric sub", change: ["sub": 5], word: "sub"),
        Refused(row: "long sub", change: ["sub": .string(String(repeating: "a", count: 256))], word: "sub"),
        Refused(row: "4, 90 wrong aud", change: ["aud": "client1"], word: "aud"),
        Refused(row: "41, 96 no aud", change: ["aud": nil], word: "aud"),
        Refused(row: "91 an additional audience", change: ["aud": ["client", "other"]], word: "aud"),
        Refused(row: "empty aud", change: ["aud": []], word: "aud"),
        Refused(row: "O1 azp of another client", change: ["azp": "other"], word: "azp"),
        Refused(row: "azp that is not a string", change: ["azp": 1], word: "azp"),
        Refused(row: "95 no exp", change: ["exp": nil], word: "exp"),
        Refused(row: "exp as a string", change: ["exp": "1800000300"], word: "exp"),
        Refused(row: "94 exp six minutes ago", change: ["exp": .integer(time - 360)], word: "expired"),
        Refused(row: "O2 exp just past the leeway", change: ["exp": .integer(time - 60)], word: "expired"),
        Refused(row: "5 no iat", change: ["iat": nil], word: "iat"),
        Refused(row: "120 iat one week ago", change: ["iat": .integer(time - 604_800)], word: "iat"),
        Refused(row: "iat in the future", change: ["iat": .integer(time + 61)], word: "iat"),
        Refused(row: "nbf in the future", change: ["nbf": .integer(time + 61)], word: "not valid yet"),
        Refused(row: "nbf that is not a number", change: ["nbf": "now"], word: "not valid yet"),
        Refused(row: "12, 99 wrong nonce", change: ["nonce": "n-0S6_WzA2Mj1"], word: "nonce"),
        Refused(row: "100 no nonce", change: ["nonce": nil], word: "has no nonce"),
        Refused(row: "O3 wrong at_hash", change: ["at_hash": "AAAAAAAAAAAAAAAAAAAAAA"], word: "at_hash"),
        Refused(row: "at_hash that is not a string", change: ["at_hash": 1], word: "at_hash"),
        Refused(row: "wrong c_hash", change: ["c_hash": "AAAAAAAAAAAAAAAAAAAAAA"], word: "c_hash"),
        Refused(row: "auth_time in the future", change: ["auth_time": .integer(time + 61)], word: "auth_time"),
        Refused(row: "auth_time that is not a number", change: ["auth_time": "now"], word: "auth_time"),
    ]

    @Test(arguments: refused)
    func rejectsInvalidIDTokenClaims(_ test: Refused) throws {
        var claims = Self.good
        for (name, value) in test.change { claims[name] = value }
        let error = try #require(throws: AuthError.self) { try validate(claims) }
        #expect(error.code == .invalidIDToken)
        #expect(error.description.contains(test.word), "\(error)")
    }

    /// OpenID Connect Core section 3.1.3.7, rules 3 to 5.
    @Test(
        arguments: [
            (["aud": ["client", "api"], "azp": "client"], true), (["aud": ["api", "client"], "azp": "client"], true),
            (["aud": ["client", "client"]], true), (["aud": ["client", "api"]], false), (["aud": ["api"]], false),
            (["aud": ["client", "api"], "azp": "other"], false),
            (["aud": ["client", "api", "other"], "azp": "client"], false),
        ] as [([String: JSON], Bool)]
    )
    func acceptsATrustedAudienceIfTheTokenWasIssuedToTheClient(_ change: [String: JSON], _ isAccepted: Bool) {
        let claims = Self.good.merging(change) { $1 }
        let result = Result { try validate(claims) { $0.trustedAudiences = ["api"] } }
        #expect(((try? result.get()) != nil) == isAccepted)
        if case .failure(let error) = result { #expect((error as? AuthError)?.code == .invalidIDToken) }
    }

    /// A backend receives ID Tokens from its mobile app, which is a separate client. In Google's, `azp` is the app, and `aud` is the backend.
    @Test func aPresentedIDTokenMayHaveBeenRequestedByAListedClient() throws {
        func present(_ change: [String: JSON]) throws -> IDTokenClaims {
            var expectation = Self.expectation(.presented(nonce: nil))
            expectation.authorizedParties = ["mobile-app"]
            return try validate(Self.good.merging(change) { $1 }, expectation)
        }
        #expect(try present(["azp": "mobile-app"]).audience == ["client"])
        for change: [String: JSON] in [
            ["azp": 1], ["azp": "other-app"], ["azp": "client", "aud": "mobile-app"],
            ["azp": "mobile-app", "aud": ["client", "mobile-app"]],
        ] {
            expectError(.invalidIDToken) { try present(change) }
        }
    }

    @Test(arguments: ["none", "HS256", "RS256", "", "es256"]) func rejectsUnexpectedSigningAlgorithms(_ name: String)
        throws
    {
        // Rows 9, 92, 93 and O15.
        let error = try #require(throws: AuthError.self) { try validate(Self.good, header: ["alg": .string(name)]) }
        #expect(error.description.contains("signed with"))
    }

    @Test func rejectsCriticalExtensions() throws {
        // Row O5.
        expectError(.invalidIDToken) {
            try validate(Self.good, header: ["alg": "ES256", "crit": ["exp"], "exp": 1])
        }
    }

    @Test func rejectsANonceThatWasNeverSent() {
        // Row O6.
        expectError(.invalidIDToken) { try validate(Self.good, nonce: nil) }
        let number = Self.good.merging(["nonce": 5]) { $1 }
        expectError(.invalidIDToken) { try validate(number, nonce: nil) }
    }

    @Test func rejectsAKeyIDThatIsNotAString() {
        expectError(.invalidIDToken) { try validate(Self.good, header: ["alg": "ES256", "kid": 5]) }
    }

    /// Some issuers send null instead of omitting a header parameter.
    @Test(arguments: ["kid", "typ", "crit"]) func aNullHeaderParameterIsAbsent(_ name: String) throws {
        _ = try validate(Self.good, header: ["alg": "ES256", name: .null])
    }

    /// OIDC Core section 3.1.3.8, with hashes computed by another tool: SHA-256, SHA-384 and SHA-512 of "access".
    @Test(arguments: [
        (SignatureAlgorithm.es256, "oFYf1knNtrqnhAVfBRuteQ"),
        (.rs384, "SeGOaEgS6QNKbB7vkLM3y8nujeY4Ple3"),
        (.edDSA, "kyd4-h3ZoV2sH212kLKbcOnCBajStKQ38Ae_bfT-PFI"),
    ]) func comparesTokenHashesWithTheHashOfTheSigningAlgorithm(_ algorithm: SignatureAlgorithm, _ hash: String) throws
    {
        for name in ["at_hash", "c_hash"] {
            let claims = Self.good.merging([name: .string(hash)]) { $1 }
            let header: [String: JSON] = ["alg": .string(algorithm.rawValue)]
            _ = try validate(claims, header: header) {
                $0.algorithms = [algorithm]
                $0.code = Secret("access")
            }
            expectError(.invalidIDToken) {
                try validate(claims, header: header) {
                    $0.algorithms = [algorithm]
                    $0.accessToken = nil
                    $0.code = nil
                }
            }
        }
    }

    @Test func checksAuthTimeAgainstMaxAge() throws {
        // Row O14.
        func validate(_ authTime: JSON?, maximumAge: TimeInterval) throws -> IDTokenClaims {
            var claims = Self.good
            claims["auth_time"] = authTime
            return try self.validate(claims) { $0.earliestAuthentication = Double(Self.time) - maximumAge }
        }
        _ = try validate(.integer(Self.time - 300), maximumAge: 300)
        _ = try validate(.integer(Self.time - 360), maximumAge: 300)
        _ = try validate(.integer(Self.time - 9999), maximumAge: .infinity)
        expectError(.insufficientUserAuthentication) { try validate(.integer(Self.time - 361), maximumAge: 300) }
        expectError(.insufficientUserAuthentication) { try validate(nil, maximumAge: 300) }
        expectError(.insufficientUserAuthentication) { try validate(nil, maximumAge: .infinity) }
        expectError(.insufficientUserAuthentication) { try validate("yesterday", maximumAge: 300) }
    }

    @Test func checksTheACRAgainstTheEssentialValues() throws {
        let strong = Self.good.merging(["acr": "strong"]) { $1 }
        _ = try validate(strong) { $0.essentialACRValues = ["stronger", "strong"] }
        _ = try validate(strong) { $0.essentialACRValues = [] }
        expectError(.insufficientUserAuthentication) { try validate(strong) { $0.essentialACRValues = ["stronger"] } }
        expectError(.insufficientUserAuthentication) { try validate(Self.good) { $0.essentialACRValues = [] } }
        expectError(.insufficientUserAuthentication) { try validate(Self.good) { $0.essentialACRValues = ["strong"] } }
    }

    @Test func checksTheSubjectAgainstTheRequestedUser() throws {
        _ = try validate(Self.good) { $0.subjects = ["other", "248289761001"] }
        for subjects in [["other"], []] {
            expectError(.insufficientUserAuthentication) { try validate(Self.good) { $0.subjects = subjects } }
        }
    }

    @Test func appliesTheConfiguredLeeway() throws {
        let late = Self.good.merging(["exp": .integer(Self.time - 10)]) { $1 }
        _ = try validate(late) { $0.leeway = 11 }
        expectError(.invalidIDToken) { try validate(late) { $0.leeway = 0 } }
        // Row O2: "exp" is the first instant at which the token is rejected.
        let now = Self.good.merging(["exp": .integer(Self.time)]) { $1 }
        expectError(.invalidIDToken) { try validate(now) { $0.leeway = 0 } }
    }

    @Test func reportsTheClockDifferenceIfIatIsInTheFuture() throws {
        let future = Self.good.merging(["iat": .integer(Self.time + 400)]) { $1 }
        let known = #expect(throws: AuthError.self) { try validate(future) { $0.clockOffset = -400 } }
        #expect(known?.message.contains("this machine's clock is 400 s behind the provider's") == true)
        // Network delay can explain an offset of a few seconds, which does not account for an iat that is 400 s ahead.
        let close = #expect(throws: AuthError.self) { try validate(future) { $0.clockOffset = 3 } }
        #expect(close?.message.contains("check this machine's clock") == true)
        let unknown = #expect(throws: AuthError.self) { try validate(future) }
        #expect(unknown?.message.contains("check this machine's clock") == true)
    }

    /// RFC 8693 section 2.2.1 specifies no claims for the issued token, but it must identify the exchanged token's
    /// user.
    @Test func rejectsAnExchangedIDTokenForAnotherSubject() throws {
        // A nonce that is copied from the exchanged token's sign-in is not checked.
        #expect(try validate(Self.good, Self.expectation(.exchange(subject: nil))).subject == "248289761001")
        _ = try validate(Self.good, Self.expectation(.exchange(subject: "248289761001")))
        expectError(.invalidIDToken) { try validate(Self.good, Self.expectation(.exchange(subject: "other"))) }
    }

    // MARK: Refreshed ID Tokens (OIDC Core section 12.2; rows 56 to 58 and O13)

    private func refresh(_ change: [String: JSON?]) throws -> IDTokenClaims {
        let verified = try validate(Self.good.merging(["auth_time": .integer(Self.time - 30)]) { $1 })
        let original = try #require(IDToken(stored: ["header": ["alg": "ES256"], "claims": verified.json]))
        var claims = Self.good
        claims["nonce"] = nil
        for (name, value) in change { claims[name] = value }
        return try validate(claims, Self.expectation(.refresh(of: original, nonce: original.claims["nonce"]?.string)))
    }

    static let acceptedAfterRefresh: [[String: JSON?]] = [
        [:], ["nonce": "n-0S6_WzA2Mj"], ["auth_time": .integer(time - 30)], ["iat": .integer(time + 1)],
        ["aud": ["client"]], ["auth_time": .integer(time)], ["auth_time": .integer(time - 3600)],
        ["iat": .integer(time - 60)],
    ]

    @Test(arguments: acceptedAfterRefresh) func acceptsAMatchingRefreshedIDToken(_ change: [String: JSON?]) throws {
        _ = try refresh(change)
    }

    static let refusedAfterRefresh: [[String: JSON?]] = [
        ["iss": "https://id.example.com1"], ["sub": "other"], ["aud": ["other"]], ["aud": ["client", "other"]],
        ["auth_time": .integer(time + 61)], ["nonce": "other"], ["iat": .integer(time - 61)], ["azp": "client"],
        ["exp": .integer(time - 61)], ["at_hash": "AAAAAAAAAAAAAAAAAAAAAA"],
    ]

    @Test(arguments: refusedAfterRefresh) func rejectsAnInvalidOrMismatchedRefreshedIDToken(_ change: [String: JSON?])
        throws
    {
        expectError(.invalidIDToken) { try refresh(change) }
    }

    /// In another tenant, the same `sub` identifies another user.
    @Test(arguments: [("one", true), ("two", false)])
    func aRefreshedIDTokenMustComeFromTheTenantOfTheSignIn(_ tenant: String, _ isAccepted: Bool) throws {
        func claims(_ tenant: String) -> [String: JSON] {
            Self.good.merging(["iss": .string("https://id.example.com/\(tenant)/v2.0"), "tid": .string(tenant)]) { $1 }
        }
        let original = try #require(IDToken(stored: ["header": ["alg": "ES256"], "claims": .object(claims("one"))]))
        var expectation = Self.expectation(.refresh(of: original, nonce: "n-0S6_WzA2Mj"))
        expectation.issuerTemplate = try TokenIssuerTemplate("https://id.example.com/{tenantid}/v2.0", claim: "tid")
        do {
            _ = try validate(claims(tenant), expectation)
            #expect(isAccepted)
        } catch let error as AuthError {
            #expect(!isAccepted && error.code == .invalidIDToken && error.isSubjectMismatch, "\(error)")
            #expect(error.message.contains("another issuer (iss)"))
        }
    }

    @Test(arguments: ["iss", "sub", "exp", "iat"]) func aStoredIDTokenWithoutARequiredClaimIsNotRead(_ name: String) {
        let claims = Self.good.filter { $0.key != name }
        #expect(IDToken(stored: ["header": ["alg": "ES256"], "claims": .object(claims)]) == nil)
    }

    @Test(arguments: ["", "a.b", "a.b.c.d", "!!.e30.AA", "e30.e30.AA", "W10.W10.AA", "eyJhbGciOiJFUzI1NiJ9.e30=.AA"])
    func rejectsMalformedIDTokens(_ text: String) {
        let token = Secret(text)
        expectError(.invalidIDToken) {
            _ = try Self.check(token.exposed, Self.expectation(.signIn(nonce: nil)))
        }
    }

    @Test func rejectsDuplicateClaims() {
        let payload = Base64URL.encode(#"{"sub":"me","sub":"you"}"#.utf8)
        let error = #expect(throws: AuthError.self) { try JWS(Secret("eyJhbGciOiJFUzI1NiJ9.\(payload).AA")) }
        #expect(error?.description.contains("duplicate key") == true)
    }

    @Test func rejectsTokensThatAreTooLong() {
        let token = Secret("a.\(String(repeating: "a", count: 70_000)).a")
        let error = #expect(throws: AuthError.self) { try JWS(token) }
        #expect(error?.description.contains("larger than") == true)
    }

    @Test func reportsThatAnEncryptedTokenNeedsADecryptionKey() {
        let error = #expect(throws: AuthError.self) { try JWS(Secret("a.b.c.d.e")) }
        #expect(error?.code == .unsupported)
    }
}
