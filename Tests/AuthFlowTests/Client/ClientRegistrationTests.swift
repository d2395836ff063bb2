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

    struct Mistake: Sendable, CustomTestStringConvertible {
        let testDescription: String
        let words: String
        let change: @Sendable (inout ClientRegistration.Values) throws -> Void
    }

    @Test(arguments: [
        Mistake(testDescription: "tokens bound to no certificate", words: "require a client certificate") {
            $0.bindsTokensToCertificate = true
        },
        Mistake(testDescription: "a line break in the client_id", words: "The client_id contains a character") {
            $0.clientID = "c\r\nX: y"
        },
        Mistake(testDescription: "a client_id outside ASCII", words: "The client_id contains a character") {
            $0.clientID = "\u{E9}"
        },
        Mistake(testDescription: "a request that is pushed and fetched", words: "both pushed and fetched") {
            $0.requestObjectReference = .publishingUnsigned { _ in "https://client.example.com/request" }
            $0.pushedRequests = .always
        },
        Mistake(testDescription: "a DPoP key that is not used", words: "DPoP is not enabled") {
            $0.dpopKey = SigningKeySource(try PrivateKey(generatedFor: .es256))
        },
        Mistake(testDescription: "encryption without a key", words: "require a decryption key") {
            $0.encryptedResponses = [.idToken]
        },
    ])
    func rejectsContradictoryOrUnsendableValues(_ mistake: Mistake) {
        let error = #expect(throws: AuthError.self) { try ClientRegistration(clientID: "c", mistake.change) }
        #expect(error?.code == .invalidConfiguration)
        #expect(error?.message.contains(mistake.words) == true, "\(error?.message ?? "")")
    }

    @Test func rejectsAnEmptyClientID() {
        expectError(.invalidConfiguration) { try ClientRegistration(clientID: "") }
    }
}
