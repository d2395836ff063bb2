import AuthFlow
import Testing

@testable import AuthFlowOAuth

@Suite struct PKCETests {
    @Test func computesTheCodeChallengeOfRFC7636() {
        // RFC 7636 Appendix B.
        let pkce = PKCE(codeVerifier: Secret("dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"))
        #expect(pkce.codeChallenge == "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM")
    }

    @Test func createsVerifiersOf256BitsInUnreservedCharacters() {
        // RFC 7636 section 4.1, and row I6.
        let tokens = (0..<100).map { _ in HostServices.system.randomToken() }
        #expect(Set(tokens).count == 100)
        for token in tokens {
            #expect(token.utf8.count == 43)
            #expect(token.allSatisfy { $0.isASCII && ($0.isLetter || $0.isNumber || $0 == "-" || $0 == "_") })
        }
    }
}
