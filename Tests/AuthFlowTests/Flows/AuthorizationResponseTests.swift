import Foundation
import Testing

@testable import AuthFlow

/// Authorization responses (RFC 6749 section 4.1.2, RFC 9207, RFC 9700 section 4).
@Suite struct AuthorizationResponseTests {
    private static let issuer = "https://id.example.com"

    private func pending(
        _ redirectURI: String = "http://127.0.0.1:8400/callback",
        mode: ResponseMode = .query
    ) -> AuthorizationRequest {
        AuthorizationRequest(
            url: "\(Self.issuer)/authorize",
            redirectURI: redirectURI,
            issuer: Self.issuer,
            expiresAt: .distantFuture,
            clientID: "client",
            state: Secret("z634l182"),
            nonce: Secret("nonce"),
            codeVerifier: Secret("verifier"),
            responseMode: mode,
            demand: AuthenticationDemand(),
            scopes: [],
            resources: [],
            dpopKey: nil,
            binding: ProviderBinding(ProviderMetadata(issuer: Self.issuer))
        )
    }

    private let used = UsedStates()

    /// Checks a response to a request of the server.
    private func check(_ callback: String, to request: AuthorizationRequest, announces: Bool = false) throws
        -> AuthorizationResponse
    {
        let metadata = ProviderMetadata(issuer: Self.issuer, namesIssuerInResponses: announces)
        return try AuthorizationResponse(callback, to: request, metadata: metadata, use: used.use)
    }

    @Test func readsTheCodeOfAnAuthorizationResponse() throws {
        let response = try check(
            "http://127.0.0.1:8400/callback?state=z634l182&code=4%2FWQ-jL&extra=1",
            to: pending()
        )
        #expect(response.code.exposed == "4/WQ-jL")
    }

    @Test func acceptsAPrivateUseSchemeRedirectWithAnEmptyFragment() throws {
        // The test vector of AppAuth.
        let response = try check(
            "com.example.apps.1234-x:/?state=z634l182&code=4/WQAstm4iiN_0Qi-n4mEo-jL-85CvQ&scope=a&authuser=0&session_state=ab78c20&prompt=consent#",
            to: pending("com.example.apps.1234-x:/")
        )
        #expect(response.code.exposed == "4/WQAstm4iiN_0Qi-n4mEo-jL-85CvQ")
    }

    @Test func readsTheCodeFromTheFragmentInFragmentMode() throws {
        let response = try check(
            "http://127.0.0.1:8400/callback#state=z634l182&code=1",
            to: pending(mode: .fragment)
        )
        #expect(response.code.exposed == "1")
    }

    @Test(arguments: [
        "?state=z634l182&code=1", "?x=1#state=z634l182&code=1", "/x#state=z634l182&code=1", "#state=x&code=1", "#", "",
    ]) func refusesResponsesOutsideTheFragmentInFragmentMode(_ answer: String) {
        let error = #expect(throws: AuthError.self) {
            try check("http://127.0.0.1:8400/callback\(answer)", to: pending(mode: .fragment))
        }
        #expect(error?.code == .invalidCallback)
    }

    @Test func acceptsAResponseWithTheExpectedIssuer() throws {
        _ = try check(
            "http://127.0.0.1:8400/callback?state=z634l182&code=1&iss=https%3A%2F%2Fid.example.com",
            to: pending(),
            announces: true
        )
    }

    static let refused: [(row: String, query: String, announces: Bool, code: AuthError.Code)] = [
        ("103 wrong state", "?state=other&code=1", false, .invalidCallback),
        ("104 no state", "?code=1", false, .invalidCallback),
        ("error with wrong state", "?state=other&error=access_denied", false, .invalidCallback),
        ("O4 code twice", "?state=z634l182&code=1&code=2", false, .invalidCallback),
        ("O4 state twice", "?state=z634l182&state=z634l182&code=1", false, .invalidCallback),
        (
            "O4 iss twice", "?state=z634l182&code=1&iss=https://id.example.com&iss=https://id.example.com", false,
            .invalidCallback
        ),
        ("101 wrong iss", "?state=z634l182&code=1&iss=https%3A%2F%2Fevil.example.com", false, .issuerMismatch),
        ("iss with a slash more", "?state=z634l182&code=1&iss=https%3A%2F%2Fid.example.com%2F", false, .issuerMismatch),
        ("102 no iss although announced", "?state=z634l182&code=1", true, .issuerMismatch),
        ("refusal without iss although announced", "?state=z634l182&error=access_denied", true, .accessDenied),
        ("error without iss although announced", "?state=z634l182&error=server_error", true, .issuerMismatch),
        ("error with wrong iss", "?state=z634l182&error=access_denied&iss=https://evil", false, .issuerMismatch),
        ("denied", "?state=z634l182&error=access_denied", false, .accessDenied),
        ("40 login_required", "?state=z634l182&error=login_required", false, .loginRequired),
        ("neither", "?state=z634l182", false, .invalidCallback),
        ("empty code", "?state=z634l182&code=", false, .invalidCallback),
        ("no query", "", false, .invalidCallback),
        ("fragment", "?state=z634l182&code=1#access_token=x", false, .invalidCallback),
        ("broken escape", "?state=z634l182&code=%zz", false, .invalidCallback),
        ("query without its mark", "&state=z634l182&code=1", false, .invalidCallback),
        ("longer path", "/x?state=z634l182&code=1", false, .invalidCallback),
        ("path that goes up", "/../callback?state=z634l182&code=1", false, .invalidCallback),
    ]

    @Test(arguments: refused) func refusesInvalidAuthorizationResponses(
        _ test: (row: String, query: String, announces: Bool, code: AuthError.Code)
    ) throws {
        let error = try #require(throws: AuthError.self) {
            try check(
                "http://127.0.0.1:8400/callback\(test.query)",
                to: pending(),
                announces: test.announces
            )
        }
        #expect(error.code == test.code)
        #expect(!error.description.contains("code=1"))
    }

    @Test(arguments: [
        "http://127.0.0.1:8401/callback", "http://127.0.0.1:8400/Callback", "https://127.0.0.1:8400/callback",
        "http://localhost:8400/callback", "http://user@127.0.0.1:8400/callback", "http://127.0.0.1:8400/callback/",
        "http://127.0.0.1:8400", "http://evil.example.com/?http://127.0.0.1:8400/callback",
    ]) func refusesRedirectsToAnotherAddress(_ address: String) {
        #expect(throws: AuthError.self) {
            try check("\(address)?state=z634l182&code=1", to: pending())
        }
    }

    @Test func onlyAResponseWithTheRightStateUsesUpTheRequest() throws {
        let pending = pending()
        #expect(throws: AuthError.self) {
            try check("http://127.0.0.1:8400/callback?state=x&code=1", to: pending)
        }
        _ = try check("http://127.0.0.1:8400/callback?state=z634l182&code=1", to: pending)
        let replay = #expect(throws: AuthError.self) {
            try check("http://127.0.0.1:8400/callback?state=z634l182&code=1", to: pending)
        }
        #expect(replay?.description.contains("already") == true)
    }

    @Test func showsTheErrorDescriptionWithoutControlCharacters() throws {
        let error = try #require(throws: AuthError.self) {
            try check(
                "http://127.0.0.1:8400/callback?state=z634l182&error=server_error&error_description=a%1B%5B2Jb",
                to: pending()
            )
        }
        #expect(error.providerError?.error == "server_error")
        #expect(error.description.contains("a [2Jb"))
    }
}
