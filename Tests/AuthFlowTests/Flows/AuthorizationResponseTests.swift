import AuthFlow
import Expectations
import Foundation
import Testing

@testable import AuthFlowIssuer
@testable import AuthFlowOAuth

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
            requestedAt: nil,
            clientID: "client",
            state: Secret("z634l182"),
            nonce: Secret("nonce"),
            codeVerifier: Secret("verifier"),
            responseMode: mode,
            requirements: AuthenticationRequirements(),
            scopes: [],
            resources: [],
            authorizationDetails: nil,
            dpopKey: nil,
            binding: ProviderBinding(ProviderMetadata(issuer: Self.issuer))
        )
    }

    private let used = UsedStates()

    /// Checks a response to a request.
    private func check(_ callback: String, to request: AuthorizationRequest, sendsIssuer: Bool = false) throws
        -> AuthorizationResponse
    {
        let metadata = ProviderMetadata(issuer: Self.issuer, sendsIssuerInResponses: sendsIssuer)
        let received = try RedirectResponse(
            callback,
            at: request.redirectURI,
            request.responseMode.delivery,
            decrypt: nil
        )
        return try AuthorizationResponse(received.parameters, to: request, metadata: metadata, use: used.use)
    }

    @Test func readsTheCodeOfAnAuthorizationResponse() throws {
        let response = try check(
            "http://127.0.0.1:8400/callback?state=z634l182&code=4%2FWQ-jL&extra=1",
            to: pending()
        )
        #expect(response.code.exposed == "4/WQ-jL")
    }

    /// As in the body of a response, an empty `error` is treated as absent.
    @Test func anEmptyErrorInAnAuthorizationResponseIsAbsent() throws {
        let response = try check("http://127.0.0.1:8400/callback?state=z634l182&code=1&error=", to: pending())
        #expect(response.code.exposed == "1")
    }

    @Test func acceptsAPrivateUseSchemeRedirectWithAnEmptyFragment() throws {
        // A test vector from AppAuth.
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
        // A fragment contains no second number sign (RFC 3986 section 3.5).
        "#code=1&state=z634l182#",
    ]) func rejectsResponsesOutsideTheFragmentInFragmentMode(_ response: String) {
        let error = #expect(throws: AuthError.self) {
            try check("http://127.0.0.1:8400/callback\(response)", to: pending(mode: .fragment))
        }
        #expect(error?.code == .invalidCallback)
    }

    @Test func acceptsAResponseWithTheExpectedIssuer() throws {
        _ = try check(
            "http://127.0.0.1:8400/callback?state=z634l182&code=1&iss=https%3A%2F%2Fid.example.com",
            to: pending(),
            sendsIssuer: true
        )
    }

    struct Refused: CustomTestStringConvertible {
        let row: String
        let query: String
        let sendsIssuer: Bool
        let code: AuthError.Code
        var testDescription: String { row }
    }

    static let refused: [Refused] = [
        Refused(row: "103 wrong state", query: "?state=other&code=1", sendsIssuer: false, code: .invalidCallback),
        Refused(row: "104 no state", query: "?code=1", sendsIssuer: false, code: .invalidCallback),
        Refused(
            row: "error with wrong state",
            query: "?state=other&error=access_denied",
            sendsIssuer: false,
            code: .invalidCallback
        ),
        Refused(
            row: "O4 code twice",
            query: "?state=z634l182&code=1&code=2",
            sendsIssuer: false,
            code: .invalidCallback
        ),
        Refused(
            row: "O4 state twice",
            query: "?state=z634l182&state=z634l182&code=1",
            sendsIssuer: false,
            code: .invalidCallback
        ),
        Refused(
            row: "O4 iss twice",
            query: "?state=z634l182&code=1&iss=https://id.example.com&iss=https://id.example.com",
            sendsIssuer: false,
            code: .invalidCallback
        ),
        Refused(
            row: "101 wrong iss",
            query: "?state=z634l182&code=1&iss=https%3A%2F%2Fevil.example.com",
            sendsIssuer: false,
            code: .issuerMismatch
        ),
        Refused(
            row: "iss with a trailing slash",
            query: "?state=z634l182&code=1&iss=https%3A%2F%2Fid.example.com%2F",
            sendsIssuer: false,
            code: .issuerMismatch
        ),
        Refused(
            row: "102 no iss although advertised",
            query: "?state=z634l182&code=1",
            sendsIssuer: true,
            code: .issuerMismatch
        ),
        Refused(
            row: "denial without iss although advertised",
            query: "?state=z634l182&error=access_denied",
            sendsIssuer: true,
            code: .accessDenied
        ),
        Refused(
            row: "error without iss although advertised",
            query: "?state=z634l182&error=server_error",
            sendsIssuer: true,
            code: .issuerMismatch
        ),
        Refused(
            row: "error with wrong iss",
            query: "?state=z634l182&error=access_denied&iss=https://evil",
            sendsIssuer: false,
            code: .issuerMismatch
        ),
        Refused(row: "denied", query: "?state=z634l182&error=access_denied", sendsIssuer: false, code: .accessDenied),
        Refused(
            row: "40 login_required",
            query: "?state=z634l182&error=login_required",
            sendsIssuer: false,
            code: .loginRequired
        ),
        Refused(
            row: "RFC 9470 unmet_authentication_requirements",
            query: "?state=z634l182&error=unmet_authentication_requirements",
            sendsIssuer: false,
            code: .insufficientUserAuthentication
        ),
        Refused(row: "neither", query: "?state=z634l182", sendsIssuer: false, code: .invalidCallback),
        Refused(row: "empty code", query: "?state=z634l182&code=", sendsIssuer: false, code: .invalidCallback),
        Refused(row: "no query", query: "", sendsIssuer: false, code: .invalidCallback),
        Refused(
            row: "fragment",
            query: "?state=z634l182&code=1#access_token=x",
            sendsIssuer: false,
            code: .invalidCallback
        ),
        Refused(row: "broken escape", query: "?state=z634l182&code=%zz", sendsIssuer: false, code: .invalidCallback),
        Refused(
            row: "query without a question mark",
            query: "&state=z634l182&code=1",
            sendsIssuer: false,
            code: .invalidCallback
        ),
        Refused(row: "longer path", query: "/x?state=z634l182&code=1", sendsIssuer: false, code: .invalidCallback),
        Refused(
            row: "path with a parent directory",
            query: "/../callback?state=z634l182&code=1",
            sendsIssuer: false,
            code: .invalidCallback
        ),
    ]

    @Test(arguments: refused) func rejectsInvalidAuthorizationResponses(
        _ test: Refused
    ) throws {
        let error = try #require(throws: AuthError.self) {
            try check(
                "http://127.0.0.1:8400/callback\(test.query)",
                to: pending(),
                sendsIssuer: test.sendsIssuer
            )
        }
        #expect(error.code == test.code)
        #expect(!error.description.contains("code=1"))
    }

    @Test(
        "The message of an error response contains no secret of that response",
        arguments: [
            "code=SplxlOBeZQQ&error=server_error&error_description=code+SplxlOBeZQQ+is+unknown",
            "code=SplxlOBeZQQ&error=access_denied&error_description=SplxlOBeZQQ",
            "code=&error_code=1349187&error_message=state+z634l182+is+unknown",
            "id_token=eyJhbGciOi&error=code+eyJhbGciOi", "error=invalid_scope&error_description=z634l182",
        ],
        [false, true]
    ) func redactsTheSecretsOfAnErrorResponse(query: String, sendsIssuer: Bool) throws {
        // An error without `iss` has the same message, although its origin is not confirmed.
        guard !sendsIssuer || query.contains("error=") else { return }
        let callback = "http://127.0.0.1:8400/callback?state=z634l182&\(query)"
        let error = try #require(throws: AuthError.self) {
            try check(callback, to: pending(), sendsIssuer: sendsIssuer)
        }
        #expect(error.description.contains("<redacted>"))
        for secret in ["SplxlOBeZQQ", "z634l182", "eyJhbGciOi"] { #expect(!error.description.contains(secret)) }
    }

    @Test(arguments: [
        "http://127.0.0.1:8401/callback", "http://127.0.0.1:8400/Callback", "https://127.0.0.1:8400/callback",
        "http://localhost:8400/callback", "http://user@127.0.0.1:8400/callback", "http://127.0.0.1:8400/callback/",
        "http://127.0.0.1:8400", "http://evil.example.com/?http://127.0.0.1:8400/callback",
    ]) func rejectsAResponseAtAnotherRedirectURI(_ address: String) {
        expectError(.invalidCallback) {
            try check("\(address)?state=z634l182&code=1", to: pending())
        }
    }

    @Test func onlyAResponseWithTheRightStateUsesUpTheRequest() throws {
        let pending = pending()
        expectError(.invalidCallback) {
            try check("http://127.0.0.1:8400/callback?state=x&code=1", to: pending)
        }
        _ = try check("http://127.0.0.1:8400/callback?state=z634l182&code=1", to: pending)
        let replay = #expect(throws: AuthError.self) {
            try check("http://127.0.0.1:8400/callback?state=z634l182&code=1", to: pending)
        }
        #expect(replay?.description.contains("more than once") == true)
    }

    /// Some providers encode the description in Latin-1. All other parameters must be UTF-8 (RFC 6749 Appendix B).
    @Test func anErrorDescriptionThatIsNotUTF8DoesNotHideTheError() throws {
        let address = "http://127.0.0.1:8400/callback?state=z634l182"
        let error = try #require(throws: AuthError.self) {
            try check("\(address)&error=access_denied&error_description=acc%E8s+refus%E9", to: pending())
        }
        #expect(error.code == .accessDenied)
        #expect(error.description.contains("acc\u{FFFD}s refus\u{FFFD}"), "\(error)")
        for parameters in ["error=access%E8", "code=%E8", "error=x&x=%zz", "code=1&x=%E8"] {
            expectError(.invalidCallback) { try check("\(address)&\(parameters)", to: pending()) }
        }
    }

    @Test(arguments: [
        ("50%+off", "50% off"), ("100%", "100%"), ("%%34", "%4"), ("a%2", "a%2"), ("%zz%41", "%zzA"), ("%4%41", "%4A"),
    ])
    func aMalformedPercentEncodingInTheErrorDescriptionDoesNotHideTheError(
        _ encoded: String,
        _ shown: String
    ) throws {
        let address = "http://127.0.0.1:8400/callback?state=z634l182"
        let error = try #require(throws: AuthError.self) {
            try check("\(address)&error=access_denied&error_description=\(encoded)", to: pending())
        }
        #expect(error.code == .accessDenied)
        #expect(error.providerError?.errorDescription == shown)
    }

    /// Facebook's response for an app in development mode.
    @Test func readsAnErrorThatIsOnlyInFacebooksParameters() throws {
        let error = try #require(throws: AuthError.self) {
            try check(
                "http://127.0.0.1:8400/callback?error_code=1349126&error_message=App+Not+Setup&state=z634l182#_=_",
                to: pending()
            )
        }
        #expect(error.code == .providerRejected)
        #expect(error.description.contains("1349126: App Not Setup"), "\(error)")
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
