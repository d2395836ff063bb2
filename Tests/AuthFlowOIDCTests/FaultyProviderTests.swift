import AuthFlow
import AuthFlowJSON
import AuthFlowTesting
import ConformanceRows
import Foundation
import HTTPTypes
import Testing

/// What a provider sends that a client must refuse, and what it must bear.
@Suite struct FaultyProviderTests {
    /// Faults that are in no conformance table, and the last request that the provider may see.
    static let faults: [(row: String, fault: EmulatorFault, code: AuthError.Code, last: String)] = [
        ("no ID Token", .tokenResponse(.missingIDToken), .invalidIDToken, "POST /token"),
        ("no access token", .tokenResponse(.missingAccessToken), .invalidResponse, "POST /token"),
        ("empty access token", .tokenResponse(.member("access_token", "")), .invalidResponse, "POST /token"),
        ("no token_type", .tokenResponse(.member("token_type", nil)), .invalidResponse, "POST /token"),
        (
            "tokens with status 500", .tokenResponse(.response { $0.head.status = .internalServerError }),
            .temporarilyUnavailable,
            "POST /token"
        ),
        (
            "metadata with status 500", .metadata(.response { $0.head.status = .internalServerError }),
            .temporarilyUnavailable,
            "GET /.well-known/openid-configuration"
        ),
        (
            "metadata without issuer", .metadata(.member("issuer", nil)), .discoveryFailed,
            "GET /.well-known/openid-configuration"
        ),
        (
            "endpoint that is a number", .metadata(.member("token_endpoint", 5)), .discoveryFailed,
            "GET /.well-known/openid-configuration"
        ),
        (
            "flag that is a string", .metadata(.member("authorization_response_iss_parameter_supported", "yes")),
            .discoveryFailed, "GET /.well-known/openid-configuration"
        ),
        (
            "list that is a string", .metadata(.member("id_token_signing_alg_values_supported", "RS256")),
            .discoveryFailed, "GET /.well-known/openid-configuration"
        ),
        ("token_type mac", .tokenResponse(.unknownTokenType), .unsupported, "POST /token"),
        ("error with status 200", .tokenResponse(.member("error", "bad")), .providerRejected, "POST /token"),
        ("token response that is a page", .tokenResponse(.notJSON), .invalidResponse, "POST /token"),
        ("token endpoint down", .tokenResponse(.unavailable), .temporarilyUnavailable, "POST /token"),
        ("wrong c_hash", .idToken(.wrongCodeHash), .invalidIDToken, "POST /token"),
        ("unknown kid", .idToken(.unknownKeyID), .invalidIDToken, "GET /jwks"),
        ("no keys in the set", .jwks(.empty), .invalidIDToken, "GET /jwks"),
        ("too many keys", .jwks(.tooManyKeys), .invalidResponse, "GET /jwks"),
        ("key set down", .jwks(.unavailable), .invalidResponse, "GET /jwks"),
        ("userinfo without sub", .userInfo(.missingSubject), .invalidUserInfo, "GET /userinfo"),
        ("userinfo that is a page", .userInfo(.notJSON), .invalidResponse, "GET /userinfo"),
        (
            "PKCE plain only", .metadata(.member("code_challenge_methods_supported", ["plain"])), .unsupported,
            "GET /.well-known/openid-configuration"
        ),
        (
            "http endpoint", .metadata(.member("token_endpoint", "http://id.example.com/token")), .discoveryFailed,
            "GET /.well-known/openid-configuration"
        ),
        (
            "no token endpoint", .metadata(.member("token_endpoint", nil)), .unsupported,
            "GET /.well-known/openid-configuration"
        ),
        ("no key set", .metadata(.member("jwks_uri", nil)), .unsupported, "POST /token"),
        (
            "only other algorithms", .metadata(.member("id_token_signing_alg_values_supported", ["PS512"])),
            .invalidIDToken, "POST /token"
        ),
    ]

    @Test(arguments: faults) func refusesFaultyProviderResponses(
        _ test: (row: String, fault: EmulatorFault, code: AuthError.Code, last: String)
    ) async throws {
        try await EmulatorScene.with(.inProcess) { scene in
            scene.emulator.fault = test.fault
            let client = try scene.client()
            let error = await #expect(throws: AuthError.self) { try await client.signIn() }
            #expect(error?.code == test.code, "\(String(describing: error))")
            #expect(scene.emulator.requests.last == test.last)
            #expect(try await client.credential() == nil)
        }
    }

    static let tolerated: [(row: String, fault: EmulatorFault)] = [
        ("members that are null", .metadata(.member("check_session_iframe", nil))),
        ("an endpoint that is null", .metadata(.member("revocation_endpoint", .null))),
        ("a list that is null", .metadata(.member("scopes_supported", .null))),
        ("a flag that is null", .metadata(.member("authorization_response_iss_parameter_supported", .null))),
        ("expires_in as a string", .tokenResponse(.member("expires_in", "3600"))),
        ("unknown members of the metadata", .metadata(.member("new_member", ["x": [1]]))),
        ("unknown parameters of the redirect", .callback(.unknownParameters)),
        ("no c_hash", .idToken(.claim("c_hash", nil))),
    ]

    @Test(arguments: tolerated)
    func toleratesHarmlessProviderDeviations(_ test: (row: String, fault: EmulatorFault)) async throws {
        try await EmulatorScene.with(.inProcess) { scene in
            scene.emulator.fault = test.fault
            let signIn = try await scene.client().signIn()
            #expect(signIn.credential.tokens.scopes == ["openid", "profile", "email"])
        }
    }
}
