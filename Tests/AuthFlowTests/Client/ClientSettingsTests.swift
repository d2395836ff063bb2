import Testing

@testable import AuthFlow

@Suite struct ClientSettingsTests {
    @Test(arguments: [[SignatureAlgorithm](), [.init(rawValue: "none")], [.init(rawValue: "RS1")], [.hs256]])
    func refusesAlgorithmsThatAPublicClientCannotVerify(_ algorithms: [SignatureAlgorithm]) {
        #expect(throws: AuthError.self) { try ClientSettings(clientID: "c", idTokenSigningAlgorithms: algorithms) }
    }

    @Test func wantsSecretsThatAreLongEnough() throws {
        // RFC 7518 section 3.2.
        let secret = ClientAuthentication.clientSecretBasic(Secret(String(repeating: "s", count: 32)))
        _ = try ClientSettings(clientID: "c", authentication: secret, idTokenSigningAlgorithms: [.hs256])
        for algorithm in [SignatureAlgorithm.hs384, .hs512] {
            #expect(throws: AuthError.self) {
                try ClientSettings(clientID: "c", authentication: secret, idTokenSigningAlgorithms: [algorithm])
            }
        }
    }

    @Test(arguments: [-1, 301]) func refusesALeewayOutOfBounds(_ seconds: Int) {
        #expect(throws: AuthError.self) { try ClientSettings(clientID: "c", clockLeeway: .seconds(seconds)) }
    }

    @Test(arguments: ["", "a b", "a\"b", "a\\b", "é"]) func refusesScopesThatCannotBeSent(_ scope: String) {
        #expect(throws: AuthError.self) { try ClientSettings(clientID: "c", scopes: [scope]) }
    }

    @Test func refusesAnEmptyListOfRedirectURIs() {
        #expect(throws: AuthError.self) { try ClientSettings(clientID: "c", redirectURIs: []) }
    }

    @Test func refusesAnEmptyListOfFlows() {
        #expect(throws: AuthError.self) { try ClientSettings(clientID: "c", flows: []) }
    }

    @Test func refusesAnEmptyClientID() {
        #expect(throws: AuthError.self) { try ClientSettings(clientID: "") }
    }
}
