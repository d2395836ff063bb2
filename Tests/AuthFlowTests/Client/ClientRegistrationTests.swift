import AuthFlow
import Expectations
import Testing

@Suite struct ClientRegistrationTests {
    @Test(arguments: [[SignatureAlgorithm](), [.init(rawValue: "none")], [.init(rawValue: "RS1")], [.hs256]])
    func rejectsAlgorithmsThatAPublicClientCannotVerify(_ algorithms: [SignatureAlgorithm]) {
        expectError(.invalidConfiguration) {
            try ClientRegistration(clientID: "c") { $0.idTokenSigningAlgorithms = algorithms }
        }
    }

    @Test func requiresSecretsThatAreLongEnoughForHMAC() throws {
        // RFC 7518 section 3.2.
        let secret = ClientAuthentication.clientSecretBasic(Secret(String(repeating: "s", count: 32)))
        _ = try ClientRegistration(clientID: "c") {
            $0.authentication = secret
            $0.idTokenSigningAlgorithms = [.hs256]
        }
        for algorithm in [SignatureAlgorithm.hs384, .hs512] {
            expectError(.invalidConfiguration) {
                try ClientRegistration(clientID: "c") {
                    $0.authentication = secret
                    $0.idTokenSigningAlgorithms = [algorithm]
                }
            }
        }
    }

    @Test func rejectsAnEmptyClientSecret() {
        for authentication in [ClientAuthentication.clientSecretBasic(Secret("")), .clientSecretPost(Secret(""))] {
            let error = #expect(throws: AuthError.self) {
                try ClientRegistration(clientID: "c") { $0.authentication = authentication }
            }
            #expect(error?.code == .invalidConfiguration)
            #expect(error?.message.contains("environment variable") == true)
        }
    }

    @Test(arguments: [-1, 301]) func rejectsAnOutOfRangeClockLeeway(_ seconds: Int) {
        expectError(.invalidConfiguration) {
            try ClientRegistration(clientID: "c") { $0.clockLeeway = .seconds(seconds) }
        }
    }

    @Test(arguments: ["", "a b", "a\"b", "a\\b", "é"]) func rejectsScopesWithInvalidCharacters(_ scope: String) {
        expectError(.invalidConfiguration) { try ClientRegistration(clientID: "c") { $0.scopes = [scope] } }
    }

    @Test func rejectsAnEmptyListOfRedirectURIs() {
        expectError(.invalidConfiguration) { try ClientRegistration(clientID: "c") { $0.redirectURIs = [] } }
    }

    @Test func rejectsAnEmptyClientID() {
        expectError(.invalidConfiguration) { try ClientRegistration(clientID: "") }
    }
}
