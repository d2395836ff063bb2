import AuthFlow
import AuthFlowJSON
import Foundation
import Testing

@Suite struct SecretTests {
    @Test func secretsAreNeverPrinted() {
        let secret = Secret("gho_16C7e42F292c6912E7710c838347Ae178B4a")
        var dumped = ""
        dump(secret, to: &dumped)
        for text in ["\(secret)", String(reflecting: secret), dumped, "\([secret])", "\(Optional(secret) as Any)"] {
            #expect(!text.contains("gho_"))
            #expect(text.contains("<redacted>"))
        }
    }

    @Test func comparesWholeSecrets() {
        #expect(Secret("abc") == Secret("abc"))
        #expect(Secret("abc") != Secret("abd"))
        #expect(Secret("abc") != Secret("ab"))
    }

    @Test func tokensAreNeverPrinted() throws {
        let tokens = TokenSet(
            accessToken: Secret("SECRET-1"),
            refreshToken: Secret("SECRET-2"),
            idToken: Secret("SECRET-3"),
            parameters: RedactedJSON(["access_token": "SECRET-1"])
        )
        let credential = Credential(
            tokens: tokens,
            identity: Identity(issuer: "https://id.example.com", subject: "1"),
            signedInAt: Date(timeIntervalSince1970: 0)
        )
        var dumped = ""
        dump(credential, to: &dumped)
        #expect(!dumped.contains("SECRET"))
        #expect(!"\(credential)".contains("SECRET"))
    }
}
