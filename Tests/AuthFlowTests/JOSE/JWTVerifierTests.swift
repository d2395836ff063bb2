import AuthFlow
import AuthFlowJSON
import AuthFlowTesting
import Foundation
import Testing

/// The rules for the header of every kind of JWT.
@Suite struct JWTVerifierTests {
    /// The message for a token that is rejected because of its header.
    private func rejection(
        _ header: JSON,
        _ code: AuthError.Code,
        type: JWTProfile.TypeRule = .optional(["jwt"]),
        acceptsRegisteredAlgorithms: Bool = false
    ) throws -> String {
        let verifier = JWTVerifier(
            JWTProfile(
                "The token",
                type: type,
                specification: "RFC 7519",
                code: code,
                acceptsRegisteredAlgorithms: acceptsRegisteredAlgorithms
            ),
            algorithms: [.es256],
            now: Date(timeIntervalSince1970: 1_800_000_000),
            leeway: 60,
            clockOffset: nil
        )
        let token = try JWS(Secret(try EmulatorKeys().sign([:], header: header, with: .es256)))
        let error = #expect(throws: AuthError.self) { try verifier.rules(of: token) }
        #expect(error?.code == code)
        return error?.message ?? ""
    }

    @Test(
        arguments: [
            ("RS256", true, true), ("none", true, false), ("RS256", false, false),
        ] as [(String, Bool, Bool)]
    ) func suggestsTheSettingForAnIDTokenAlgorithmOnlyIfItAllowsTheAlgorithm(
        _ algorithm: String,
        _ acceptsRegisteredAlgorithms: Bool,
        _ isSuggested: Bool
    ) throws {
        let message = try rejection(
            ["alg": .string(algorithm)],
            .invalidIDToken,
            acceptsRegisteredAlgorithms: acceptsRegisteredAlgorithms
        )
        #expect(message.contains("signed with \"\(algorithm)\""))
        #expect(message.contains("id_token_signing_algorithms") == isSuggested)
    }

    @Test func reportsThatTheRequiredTypeIsMissing() throws {
        for header: JSON in [["alg": "ES256"], ["alg": "ES256", "typ": .null]] {
            let message = try rejection(header, .invalidLogoutToken, type: .required(["logout+jwt"]))
            #expect(message.contains("no type (typ)"))
        }
    }

    @Test(
        "The message names a header parameter that is missing or not a string",
        arguments: [
            (["alg": "ES256", "typ": 1], #"its header has a "typ" that is not a string"#),
            (["alg": "ES256", "typ": ["jwt"]], #"its header has a "typ" that is not a string"#),
            (["alg": 1], #"its header has an "alg" that is not a string"#),
            ([:], #"its header has no "alg""#), (["alg": .null], #"its header has no "alg""#),
        ] as [(JSON, String)]
    )
    func namesAnUnusableHeaderParameter(_ header: JSON, _ words: String) throws {
        #expect(try rejection(header, .invalidIDToken).contains(words))
    }
}
