import AuthFlow
import Testing

@Suite struct ClientRegistrationTests {
    @Test(arguments: [[SignatureAlgorithm](), [.init(rawValue: "none")], [.init(rawValue: "RS1")], [.hs256]])
    func refusesAlgorithmsThatAPublicClientCannotVerify(_ algorithms: [SignatureAlgorithm]) {
        #expect(throws: AuthError.self) {
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
            #expect(throws: AuthError.self) {
                try ClientRegistration(clientID: "c") {
                    $0.authentication = secret
                    $0.idTokenSigningAlgorithms = [algorithm]
                }
            }
        }
    }

    @Test(arguments: [-1, 301]) func refusesALeewayOutOfBounds(_ seconds: Int) {
        #expect(throws: AuthError.self) { try ClientRegistration(clientID: "c") { $0.clockLeeway = .seconds(seconds) } }
    }

    @Test(arguments: ["", "a b", "a\"b", "a\\b", "é"]) func refusesScopesWithInvalidCharacters(_ scope: String) {
        #expect(throws: AuthError.self) { try ClientRegistration(clientID: "c") { $0.scopes = [scope] } }
    }

    @Test func refusesAnEmptyListOfRedirectURIs() {
        #expect(throws: AuthError.self) { try ClientRegistration(clientID: "c") { $0.redirectURIs = [] } }
    }

    @Test func refusesAnEmptyClientID() {
        #expect(throws: AuthError.self) { try ClientRegistration(clientID: "") }
    }
}
