import AuthFlow
import Testing

@testable import AuthFlowOAuth

/// The post-logout redirect (OpenID Connect RP-Initiated Logout 1.0 section 3).
@Suite struct EndSessionRequestTests {
    private static let request = EndSessionRequest(
        url: "https://id.example.com/logout",
        redirectURI: "https://app.example.com/signed-out",
        state: "expected"
    )

    @Test func acceptsThePostLogoutRedirectWithTheState() throws {
        try Self.request.check("https://app.example.com/signed-out?state=expected")
        try Self.request.check("https://app.example.com/signed-out?state=expected&error=")
    }

    @Test(arguments: [
        ("https://app.example.com/signed-out", "has no state"),
        ("https://app.example.com/signed-out?", "has no state"),
        ("https://app.example.com/signed-out?State=expected", "has no state"),
        ("https://app.example.com/signed-out?state=another", "has a different state"),
        ("https://app.example.com/signed-out?state=", "has a different state"),
        ("https://app.example.com/signed-out/?state=expected", "went to a different URI"),
        ("https://evil.example.com/signed-out?state=expected", "went to a different URI"),
        ("https://app.example.com/signed-out?state=expected&x=%", "its query is malformed"),
        ("https://app.example.com/signed-out?state=expected&error=server_error", "reported the error \"server_error\""),
        (
            "https://app.example.com/signed-out?state=expected&error=unknown+state+expected",
            "reported the error \"unknown state <redacted>\""
        ),
    ])
    func theErrorNamesTheFaultOfThePostLogoutRedirect(_ callback: String, _ words: String) {
        let error = #expect(throws: AuthError.self) { try Self.request.check(callback) }
        #expect(error?.code == .invalidCallback)
        #expect(error?.message.contains(words) == true, "\(error?.message ?? "")")
    }
}
