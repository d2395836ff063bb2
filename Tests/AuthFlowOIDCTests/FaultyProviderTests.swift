import AuthFlow
import AuthFlowJSON
import AuthFlowTesting
import ConformanceRows
import Foundation
import HTTPTypes
import Testing

/// Responses that a client must reject, and deviations that it must tolerate.
@Suite struct FaultyProviderTests {
    struct Refused: CustomTestStringConvertible {
        let row: String
        let fault: EmulatorFault
        let code: AuthError.Code
        let last: String
        var testDescription: String { row }
    }

    /// Faults that are not in the conformance table, and the last request that the client may send.
    static let faults: [Refused] = [
        Refused(row: "no ID Token", fault: .tokenResponse(.missingIDToken), code: .invalidIDToken, last: "POST /token"),
        Refused(
            row: "no access token",
            fault: .tokenResponse(.missingAccessToken),
            code: .invalidResponse,
            last: "POST /token"
        ),
        Refused(
            row: "empty access token",
            fault: .tokenResponse(.member("access_token", "")),
            code: .invalidResponse,
            last: "POST /token"
        ),
        Refused(
            row: "no token_type",
            fault: .tokenResponse(.member("token_type", nil)),
            code: .invalidResponse,
            last: "POST /token"
        ),
        Refused(
            row: "tokens with status 500",
            fault: .tokenResponse(.response { $0.head.status = .internalServerError }),
            code: .temporarilyUnavailable,
            last: "POST /token"
        ),
        Refused(
            row: "metadata with status 500",
            fault: .metadata(.response { $0.head.status = .internalServerError }),
            code: .temporarilyUnavailable,
            last: "GET /.well-known/openid-configuration"
        ),
        Refused(
            row: "metadata without issuer",
            fault: .metadata(.member("issuer", nil)),
            code: .discoveryFailed,
            last: "GET /.well-known/oauth-authorization-server"
        ),
        Refused(
            row: "numeric endpoint",
            fault: .metadata(.member("token_endpoint", 5)),
            code: .discoveryFailed,
            last: "GET /.well-known/openid-configuration"
        ),
        Refused(
            row: "flag as a string",
            fault: .metadata(.member("authorization_response_iss_parameter_supported", "yes")),
            code: .discoveryFailed,
            last: "GET /.well-known/openid-configuration"
        ),
        Refused(
            row: "list as a string",
            fault: .metadata(.member("id_token_signing_alg_values_supported", "RS256")),
            code: .discoveryFailed,
            last: "GET /.well-known/openid-configuration"
        ),
        Refused(
            row: "token_type mac",
            fault: .tokenResponse(.unknownTokenType),
            code: .unsupported,
            last: "POST /token"
        ),
        Refused(
            row: "error with status 200",
            fault: .tokenResponse(.member("error", "bad")),
            code: .providerRejected,
            last: "POST /token"
        ),
        Refused(
            row: "HTML page as the token response",
            fault: .tokenResponse(.notJSON),
            code: .invalidResponse,
            last: "POST /token"
        ),
        Refused(
            row: "token endpoint down",
            fault: .tokenResponse(.unavailable),
            code: .temporarilyUnavailable,
            last: "POST /token"
        ),
        Refused(row: "wrong c_hash", fault: .idToken(.wrongCodeHash), code: .invalidIDToken, last: "POST /token"),
        Refused(row: "unknown kid", fault: .idToken(.unknownKeyID), code: .invalidIDToken, last: "GET /jwks"),
        Refused(row: "no keys in the set", fault: .jwks(.empty), code: .invalidIDToken, last: "GET /jwks"),
        Refused(row: "too many keys", fault: .jwks(.tooManyKeys), code: .invalidResponse, last: "GET /jwks"),
        Refused(row: "key set down", fault: .jwks(.unavailable), code: .temporarilyUnavailable, last: "GET /jwks"),
        Refused(
            row: "userinfo without sub",
            fault: .userInfo(.missingSubject),
            code: .invalidUserInfo,
            last: "GET /userinfo"
        ),
        Refused(
            row: "userinfo unavailable",
            fault: .userInfo(.response { $0.head.status = .serviceUnavailable }),
            code: .temporarilyUnavailable,
            last: "GET /userinfo"
        ),
        Refused(
            row: "userinfo rate limiting with status 403",
            fault: .userInfo(
                .response {
                    $0.head.status = .forbidden
                    $0.head.headerFields[.retryAfter] = "5"
                }
            ),
            code: .temporarilyUnavailable,
            last: "GET /userinfo"
        ),
        Refused(
            row: "a redirect as the userinfo response",
            fault: .userInfo(.response { $0.head.status = .found }),
            code: .invalidResponse,
            last: "GET /userinfo"
        ),
        Refused(
            row: "HTML page as the userinfo response",
            fault: .userInfo(.notJSON),
            code: .invalidResponse,
            last: "GET /userinfo"
        ),
        Refused(
            row: "PKCE plain only",
            fault: .metadata(.member("code_challenge_methods_supported", ["plain"])),
            code: .unsupported,
            last: "GET /.well-known/openid-configuration"
        ),
        Refused(
            row: "http endpoint",
            fault: .metadata(.member("token_endpoint", "http://id.example.com/token")),
            code: .discoveryFailed,
            last: "GET /.well-known/openid-configuration"
        ),
        Refused(
            row: "no token endpoint",
            fault: .metadata(.member("token_endpoint", nil)),
            code: .unsupported,
            last: "GET /.well-known/openid-configuration"
        ),
        Refused(row: "no key set", fault: .metadata(.member("jwks_uri", nil)), code: .unsupported, last: "POST /token"),
        Refused(
            row: "only unsupported algorithms",
            fault: .metadata(.member("id_token_signing_alg_values_supported", ["PS512"])),
            code: .invalidIDToken,
            last: "POST /token"
        ),
    ]

    @Test(arguments: faults) func rejectsFaultyProviderResponses(
        _ test: Refused
    ) async throws {
        try await EmulatorEnvironment.with(.inProcess) { environment in
            environment.emulator.fault = test.fault
            let client = try environment.client()
            let error = await #expect(throws: AuthError.self) { try await client.signIn() }
            #expect(error?.code == test.code, "\(String(describing: error))")
            #expect(environment.emulator.requests.last { $0 != "POST /revoke" } == test.last)
            #expect(try await client.credential() == nil)
        }
    }

    @Test(arguments: [
        TokenResponseFault.member("token_type", nil), .member("token_type", "mac"), .member("expires_in", -1),
        .member("id_token", "\u{E4}"), .response { $0.body.insert(contentsOf: Array(#"{"a":1,"a":2,"#.utf8), at: 0) },
    ]) func revokesTheTokensOfAnUnusableResponse(_ fault: TokenResponseFault) async throws {
        try await EmulatorEnvironment.with(.inProcess) { environment in
            environment.emulator.fault = .tokenResponse(fault)
            await #expect(throws: AuthError.self) { try await environment.client().signIn() }
            #expect(environment.emulator.requests.contains("POST /revoke"))
        }
    }

    struct Tolerated: CustomTestStringConvertible {
        let row: String
        let fault: EmulatorFault
        var testDescription: String { row }
    }

    static let tolerated: [Tolerated] = [
        Tolerated(row: "an unknown null member", fault: .metadata(.member("check_session_iframe", .null))),
        Tolerated(row: "a null endpoint", fault: .metadata(.member("revocation_endpoint", .null))),
        Tolerated(row: "a null list", fault: .metadata(.member("scopes_supported", .null))),
        Tolerated(
            row: "a null flag",
            fault: .metadata(.member("authorization_response_iss_parameter_supported", .null))
        ),
        Tolerated(row: "expires_in as a string", fault: .tokenResponse(.member("expires_in", "3600"))),
        Tolerated(row: "unknown metadata members", fault: .metadata(.member("new_member", ["x": [1]]))),
        Tolerated(row: "unknown redirect parameters", fault: .callback(.unknownParameters)),
        Tolerated(row: "no c_hash", fault: .idToken(.claim("c_hash", nil))),
        Tolerated(
            row: "scope as an array",
            fault: .tokenResponse(.member("scope", ["openid", "profile", "email"]))
        ),
        Tolerated(
            row: "scope as an array of one string",
            fault: .tokenResponse(.member("scope", ["openid profile email"]))
        ),
        Tolerated(row: "scope as an empty array", fault: .tokenResponse(.member("scope", []))),
        Tolerated(row: "scope as an empty string", fault: .tokenResponse(.member("scope", ""))),
        Tolerated(row: "scope as a space", fault: .tokenResponse(.member("scope", " "))),
        // WSO2, for tokens that do not expire.
        Tolerated(
            row: "the largest integer as expires_in",
            fault: .tokenResponse(.member("expires_in", .integer(.max)))
        ),
        Tolerated(
            row: "the largest unsigned integer as expires_in, as a string",
            fault: .tokenResponse(.member("expires_in", "18446744073709551615"))
        ),
        Tolerated(row: "a null at_hash", fault: .idToken(.claim("at_hash", .null))),
        Tolerated(row: "a null c_hash", fault: .idToken(.claim("c_hash", .null))),
        // LinkedIn.
        Tolerated(
            row: "scope separated by commas",
            fault: .tokenResponse(.member("scope", "openid,profile,email"))
        ),
        // The ID Token has identified the user, and the access token may be for another resource.
        Tolerated(
            row: "userinfo rejected with status 401",
            fault: .userInfo(.response { $0.head.status = .unauthorized })
        ),
        Tolerated(
            row: "userinfo rejected with status 400",
            fault: .userInfo(
                .response {
                    $0.head.status = .badRequest
                    $0.body = Array(#"{"error": "invalid_token"}"#.utf8)
                }
            )
        ),
        Tolerated(
            row: "userinfo rejected with status 200",
            fault: .userInfo(.response { $0.body = Array(#"{"ok": false, "error": "missing_scope"}"#.utf8) })
        ),
        Tolerated(row: "userinfo missing", fault: .userInfo(.response { $0.head.status = .notFound })),
    ]

    @Test(arguments: tolerated)
    func toleratesHarmlessProviderDeviations(_ test: Tolerated) async throws {
        try await EmulatorEnvironment.with(.inProcess) { environment in
            environment.emulator.fault = test.fault
            let signIn = try await environment.client().signIn()
            #expect(signIn.credential.tokens.scopes == ["openid", "profile", "email"])
        }
    }

    /// Refreshed tokens would have the same scopes.
    @Test(arguments: [("missing_scope", 0), ("invalid_auth", 1)])
    func aMissingScopeAtTheUserInfoEndpointCausesNoRefresh(_ error: String, _ refreshes: Int) async throws {
        try await EmulatorEnvironment.with(.inProcess) { environment in
            var registration = try EmulatorEnvironment.registration()
            registration.scopes.append("offline_access")
            let client = try environment.client(registration: registration)
            _ = try await client.signIn()
            environment.emulator.fault = .userInfo(
                .response { $0.body = Array(#"{"ok": false, "error": "\#(error)"}"#.utf8) }
            )
            let before = environment.emulator.requests.count { $0 == "POST /token" }
            let thrown = await #expect(throws: AuthError.self) { try await client.userInfo() }
            let expected: AuthError.Code = refreshes == 0 ? .insufficientScope : .accessTokenRejected
            #expect(thrown?.code == expected)
            #expect(environment.emulator.requests.count { $0 == "POST /token" } == before + refreshes)
        }
    }

    @Test(arguments: [
        UserInfoFault.missingSubject, .response { $0.body = Array("<html>".utf8) },
        .response { $0.head.status = .found },
    ])
    func disablingUserInfoAtSignInAvoidsUserInfoErrors(_ fault: UserInfoFault) async throws {
        try await EmulatorEnvironment.with(.inProcess) { environment in
            environment.emulator.fault = .userInfo(fault)
            let error = await #expect(throws: AuthError.self) { try await environment.client().signIn() }
            #expect(error?.message.contains("userinfo_at_sign_in") == true)
            var registration = try EmulatorEnvironment.registration()
            registration.requestsUserInfoAtSignIn = false
            #expect(
                try await environment.client(registration: registration).signIn().identity?.subject == "248289761001"
            )
        }
    }
}
