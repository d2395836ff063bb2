import AuthFlow
import AuthFlowTesting
import Expectations
import Foundation
import HTTPTypes
import Synchronization
import Testing

@testable import AuthFlowHeadless

@Suite struct HeadlessUserAgentTests {
    private let origin = "https://id.example.com"

    private func visit(
        path: String = "/start",
        redirectURI: String = "com.example.app:/callback",
        responseMode: ResponseMode = .query,
        origins: [String] = ["https://id.example.com"],
        consent: HTMLFormDriver.Consent = .allow,
        _ respond: @escaping @Sendable (HTTPRequest, String) -> TransportResponse
    ) async throws -> String {
        let agent = HeadlessUserAgent(
            driver: HTMLFormDriver(
                username: "alice",
                password: Secret("wonderland"),
                origins: try origins.map { try Endpoint($0) },
                consent: consent
            ),
            transport: InProcessTransport(origin: origin) { request, body in
                respond(request, String(decoding: body, as: UTF8.self))
            }
        )
        let options = RedirectOptions(
            redirectURIs: [try RedirectURI(redirectURI)],
            state: Secret("state"),
            responseMode: responseMode,
            reporter: FlowReporter(),
            clock: ContinuousClock()
        )
        return try await agent.withRedirectSession(options) { try await $0.visit("\(origin)\(path)") }
    }

    private static func html(_ body: String, status: HTTPResponse.Status = .ok) -> TransportResponse {
        TransportResponse(
            head: HTTPResponse(status: status, headerFields: [.contentType: "text/html"]),
            body: Array(body.utf8)
        )
    }

    private static func redirect(_ location: String, _ status: HTTPResponse.Status = .found) -> TransportResponse {
        TransportResponse(head: HTTPResponse(status: status, headerFields: [.location: location]))
    }

    private static let signInForm = "<form method=post action=/login><input name=u><input type=password name=p></form>"

    @Test func signsInAndStopsAtTheRedirectURI() async throws {
        let response = try await visit { request, body in
            switch (request.method, request.path) {
            case (.get, "/start"): Self.redirect("/form")
            case (.get, "/form"): Self.html(Self.signInForm)
            case (.post, "/login"):
                body == "u=alice&p=wonderland" ? Self.redirect("com.example.app:/callback?code=1") : Self.html("no")
            default: Self.html("?", status: .notFound)
            }
        }
        #expect(response == "com.example.app:/callback?code=1")
    }

    /// RFC 3986 section 6.2.3: an empty path is equivalent to "/". The response is not sent to the app's server.
    @Test(arguments: [
        ("https://app.example.com", ""), ("https://app.example.com", "/"), ("http://127.0.0.1:8400", "/"),
    ])
    func stopsAtARedirectURIWithAnEmptyPath(_ uri: String, _ path: String) async throws {
        let response = try await visit(redirectURI: uri) { _, _ in Self.redirect("\(uri)\(path)?code=1") }
        #expect(response == "\(uri)\(path)?code=1")
        let posted = try await visit(redirectURI: uri, responseMode: .formPost) { _, _ in
            Self.html("<form method=post action='\(uri)\(path)'><input type=hidden name=code value=1></form>")
        }
        #expect(posted == "\(uri)?code=1")
    }

    /// Some providers build the redirect with a URL library, which normalizes the redirect URI as browsers do.
    @Test func stopsAtARedirectURIThatTheProviderHasNormalized() async throws {
        let (uri, sent) = ("https://App.example.com:443/cb", "https://app.example.com/cb")
        let response = try await visit(redirectURI: uri) { _, _ in Self.redirect("\(sent)?code=1") }
        #expect(response == "\(sent)?code=1")
        let posted = try await visit(redirectURI: uri, responseMode: .formPost) { _, _ in
            Self.html("<form method=post action='\(sent)'><input type=hidden name=code value=1></form>")
        }
        #expect(posted == "\(uri)?code=1")
    }

    /// Comparing the data of every button takes quadratic time.
    @Test(.timeLimit(.minutes(1))) func pressesNoButtonOfAPageWithThousandsOfButtons() async throws {
        let buttons = (0..<10_000).map { "<button name=b\($0) value=\($0)>Go</button>" }.joined()
        let error = await #expect(throws: AuthError.self) {
            try await visit { _, _ in Self.html("<form method=post action=/login>\(buttons)</form>") }
        }
        #expect(error?.code == .userAgentFailed)
        #expect(error?.message.contains("too many fields and buttons") == true, "\(error?.message ?? "")")
    }

    /// Existing percent-encoding is preserved.
    @Test(arguments: [
        ("com.example.app:/callback", "com.example.app:/callback"),
        ("/f\u{FC}r/a%2Fb", "https://id.example.com/f%C3%BCr/a%2Fb"),
        ("//b.example.com/f\u{FC}r", "https://b.example.com/f%C3%BCr"),
        ("?x=\u{FC}//y", "https://id.example.com/start?x=%C3%BC//y"),
        ("\n/a\r\nb\tc\n", "https://id.example.com/abc"),
        ("/a b|c%2Fd", "https://id.example.com/a%20b%7Cc%2Fd"),
        ("?x={a b}&y=%2F", "https://id.example.com/start?x=%7Ba%20b%7D&y=%2F"),
        ("?x=100%&y=%2F", "https://id.example.com/start?x=100%25&y=%2F"),
        ("/%zz%2F%4", "https://id.example.com/%25zz%2F%254"),
    ])
    func percentEncodesOnlyInvalidURLCharactersInARedirect(_ reference: String, _ expected: String) throws {
        let query = "?error=access_denied&error_description=f\u{FC}r%20x y&iss=https%3A%2F%2Fx"
        let ascii = "?error=access_denied&error_description=f%C3%BCr%20x%20y&iss=https%3A%2F%2Fx"
        let base = Endpoint("https://id.example.com/start")
        #expect(try HeadlessBrowser.resolve(reference, against: base) == expected)
        if !reference.contains("?") {
            #expect(try HeadlessBrowser.resolve(reference + query, against: base) == expected + ascii)
        }
    }

    @Test func percentEncodesAnAuthorizationResponseThatIsNotASCII() async throws {
        let redirect = "com.example.app:/callback?error=access_denied&error_description=f\u{FC}r"
        let response = try await visit { _, _ in Self.redirect(redirect) }
        #expect(response == "com.example.app:/callback?error=access_denied&error_description=f%C3%BCr")
    }

    private static let decision = "<button name=d value=allow>Allow</button><button name=d value=deny>Deny</button>"

    /// A consent page can also have a text field, and a sign-in page can also ask for consent.
    @Test(
        arguments: [
            ("<input name=device value=x>", "device=x&d="), ("<input type=email name=notify>", "notify=&d="),
            ("<input name=scope value=read readonly>", "scope=read&d="),
            ("<textarea name=note></textarea>", "note=&d="),
        ],
        [HTMLFormDriver.Consent.allow, .deny]
    )
    func submitsTheConsentDecisionWithoutFillingInOtherFields(
        _ page: (field: String, sent: String),
        _ consent: HTMLFormDriver.Consent
    ) async throws {
        let response = try await visit(consent: consent) { request, body in
            switch (request.method, request.path) {
            case (.post, "/login"): Self.html("<form method=post action=/consent>\(page.field)\(Self.decision)</form>")
            case (.post, _): Self.redirect("com.example.app:/callback?\(body)")
            default: Self.html(Self.signInForm)
            }
        }
        #expect(response == "com.example.app:/callback?\(page.sent)\(consent.rawValue)")
    }

    private static let answer = "<button name=d value=grant>Yes</button><button name=d value=deny>No</button>"

    @Test(arguments: ["<input name=u>", "<input name=u><input type=password name=p>"], [decision, answer])
    func denyingConsentOnASignInPageDoesNotSendCredentials(_ fields: String, _ buttons: String) async throws {
        let response = try await visit(consent: .deny) { request, body in
            request.method == .post
                ? Self.redirect("com.example.app:/callback?\(body)")
                : Self.html("<form method=post>\(fields)\(buttons)</form>")
        }
        #expect(response.hasSuffix("&d=deny") && !response.contains("alice") && !response.contains("wonderland"))
    }

    @Test func allowingConsentOnASignInPageAlsoSendsTheCredentials() async throws {
        let response = try await visit { request, body in
            request.method == .post
                ? Self.redirect("com.example.app:/callback?\(body)")
                : Self.html("<form method=post><input name=u><input type=password name=p>\(Self.decision)</form>")
        }
        #expect(response == "com.example.app:/callback?u=alice&p=wonderland&d=allow")
    }

    @Test func doesNotEnterTheUserNameIfOnlyAScriptUnlocksThePasswordField() async throws {
        let page = "<form method=post><input name=u><input type=password name=p readonly><button>Next</button></form>"
        let error = await #expect(throws: AuthError.self) {
            try await visit { request, _ in
                #expect(request.method == .get)
                return Self.html(page)
            }
        }
        #expect(error?.code == .userAgentFailed)
        #expect(error?.message.contains("cannot be filled in without JavaScript") == true, "\(error?.message ?? "")")
    }

    /// The provider may count a wrong code as a failed attempt.
    @Test(arguments: [
        "<input name=otp><button>Verify</button>", "<input name=otp><button>Continue</button>",
        "<input type=tel autocomplete=one-time-code name=c><button name=a value=n>Cancel</button><button name=a value=y>Continue</button>",
        "<input autocomplete=one-time-code name=c><button name=a value=y>Continue</button><button name=a value=n>Cancel</button>",
        "<input name=otp><button name=a value=y>Continue</button><button name=a value=n>Cancel</button>",
        "<input type=password autocomplete=one-time-code name=c><button>Continue</button>",
    ])
    func doesNotFillInOneTimeCodes(_ fields: String) async throws {
        let posts = Mutex(0)
        await expectError(.userAgentFailed) {
            try await visit { request, _ in
                guard request.method == .post else { return Self.html(Self.signInForm) }
                posts.withLock { $0 += 1 }
                return Self.html("<form method=post action=/otp>\(fields)</form>")
            }
        }
        #expect(posts.withLock { $0 } == 1)
    }

    @Test func aReadOnlyUserNameIsNotTypedElsewhere() async throws {
        let fields = "<input name=company><input type=email name=u value=alice readonly><input type=password name=p>"
        let response = try await visit { request, body in
            request.method == .post
                ? Self.redirect("com.example.app:/callback?\(body)")
                : Self.html("<form method=post>\(fields)<button>Sign in</button></form>")
        }
        #expect(response == "com.example.app:/callback?company=&u=alice&p=wonderland")
    }

    @Test func ignoresSearchForms() async throws {
        let search = "<form action=/search><input name=q><button>Search</button></form>"
        let response = try await visit { request, body in
            switch (request.method, request.path) {
            case (.post, "/name"): Self.html(search + Self.signInForm)
            case (.post, "/login"): Self.html("\(search)<form method=post action=/consent>\(Self.decision)</form>")
            case (.post, _): Self.redirect("com.example.app:/callback?\(body)")
            default: Self.html("\(search)<form method=post action=/name><input name=u><button>Next</button></form>")
            }
        }
        #expect(response == "com.example.app:/callback?d=allow")
    }

    /// Debug pages repeat the form's values.
    @Test(arguments: [200, 403, 500]) func anErrorRedactsAPasswordThatThePageEchoes(_ status: Int)
        async throws
    {
        let error = try await #require(throws: AuthError.self) {
            try await visit { request, _ in
                guard request.method == .post else { return Self.html(Self.signInForm) }
                return Self.html("Wrong: wonderland for alice", status: .init(code: status))
            }
        }
        #expect(error.description.contains("Wrong: <redacted> for alice"), "\(error)")
        #expect(!error.description.contains("wonderland"))
    }

    @Test func ignoresFormsInDialogs() async throws {
        let dialog = "<dialog><form method=dialog><input type=password name=q><button>Close</button></form></dialog>"
        let response = try await visit { request, body in
            guard request.method == .post else { return Self.html(dialog + Self.signInForm) }
            return Self.redirect("com.example.app:/callback?\(body)")
        }
        #expect(response == "com.example.app:/callback?u=alice&p=wonderland")
    }

    @Test func doesNotEnterThePasswordAtUnlistedOrigins() async throws {
        let posts = Mutex(0)
        let error = try await #require(throws: AuthError.self) {
            try await visit(origins: ["https://other.example.com"]) { request, _ in
                if request.method == .post { posts.withLock { $0 += 1 } }
                return Self.html(Self.signInForm)
            }
        }
        #expect(error.description.contains("No data was entered"))
        #expect(posts.withLock { $0 } == 0)
    }

    @Test func doesNotEnterThePasswordInFormsThatPostToAnotherOrigin() async throws {
        let error = try await #require(throws: AuthError.self) {
            try await visit { _, _ in
                Self.html(
                    "<form method=post action='https://evil.example.com/'><input name=u><input type=password name=p></form>"
                )
            }
        }
        #expect(error.description.contains("evil.example.com"))
    }

    @Test func doesNotSendThePasswordInAQueryString() async throws {
        let error = try await #require(throws: AuthError.self) {
            try await visit { _, _ in Self.html("<form action=/x><input name=u><input type=password name=p></form>") }
        }
        #expect(error.description.contains("URL"))
    }

    @Test func doesNotFollowARedirectThatResubmitsAFormToAnotherOrigin() async throws {
        let error = try await #require(throws: AuthError.self) {
            try await visit { request, _ in
                request.method == .post
                    ? Self.redirect("https://evil.example.com/", .temporaryRedirect) : Self.html(Self.signInForm)
            }
        }
        #expect(error.description.contains("redirects the submitted form to"))
    }

    @Test func reportsAWrongPassword() async throws {
        let error = try await #require(throws: AuthError.self) {
            try await visit { _, _ in Self.html(Self.signInForm) }
        }
        #expect(error.code == .accessDenied)
        #expect(!error.description.contains("wonderland"))
    }

    @Test func reportsThatAPageNeedsJavaScript() async throws {
        let error = try await #require(throws: AuthError.self) {
            try await visit { _, _ in Self.html("<div id=root></div><script src=app.js></script>") }
        }
        #expect(error.description.contains("JavaScript"))
    }

    @Test func stopsAfterTooManyRedirects() async throws {
        let error = try await #require(throws: AuthError.self) { try await visit { _, _ in Self.redirect("/start") } }
        #expect(error.description.contains("redirected more than"))
    }

    @Test func stopsAfterTooManyPages() async throws {
        let error = try await #require(throws: AuthError.self) {
            try await visit { _, _ in Self.html("<form method=post action=/x><button>Continue</button></form>") }
        }
        #expect(error.description.contains("pages"))
    }

    @Test(arguments: ["http://id.example.com/x", "ftp://x/", "file:///etc/passwd", "//user@evil.example.com/"])
    func doesNotFollowRedirectsToUnsafeURLs(_ location: String) async throws {
        await expectError(.userAgentFailed) { try await visit { _, _ in Self.redirect(location) } }
    }

    @Test(arguments: [(HTMLFormDriver.Consent.allow, "d=yes"), (.deny, "d=no")])
    func allowsOrDeniesConsentAsConfigured(_ consent: HTMLFormDriver.Consent, _ expected: String) async throws {
        let response = try await visit(consent: consent) { request, body in
            request.method == .post
                ? Self.redirect("com.example.app:/callback?\(body)")
                : Self.html(
                    "<form method=post><button name=d value=no>Cancel</button><button name=d value=yes>Allow</button></form>"
                )
        }
        #expect(response == "com.example.app:/callback?\(expected)")
    }

    @Test(arguments: [("name=allow value=yes", "allow.x=0&allow.y=0"), ("value=Allow", "x=0&y=0")])
    func anImageButtonSubmitsTheCoordinatesOfTheClick(_ attributes: String, _ sent: String) async throws {
        let response = try await visit { request, body in
            request.method == .post
                ? Self.redirect("com.example.app:/callback?\(body)")
                : Self.html("<form method=post><input type=image src=allow.png \(attributes)></form>")
        }
        #expect(response == "com.example.app:/callback?\(sent)")
    }

    /// A hidden field with a URL or a random value may contain a word such as "authorize" or "ja".
    @Test(arguments: [
        ("/oauth2/authorize?client_id=x", true), ("jA1xkq0_8Zt3-yes0pQw77", true), ("grant", false),
        ("allow_access", false), ("approve:1", false), ("ALLOW_1", false), ("yes, and remember the decision", false),
    ]) func aDenialIsSentUnlessAHiddenFieldGrants(_ value: String, _ isSent: Bool) async throws {
        let buttons = "<button name=d value=no>Cancel</button><button name=d value=yes>Allow</button>"
        let visit = { () async throws -> String in
            try await self.visit(consent: .deny) { request, body in
                request.method == .post
                    ? Self.redirect("com.example.app:/callback?\(body)")
                    : Self.html("<form method=post><input type=hidden name=h value='\(value)'>\(buttons)</form>")
            }
        }
        if isSent {
            #expect(try await visit().hasSuffix("d=no"))
        } else {
            await expectError(.userAgentFailed) { try await visit() }
        }
    }

    /// The consent pages of Doorkeeper and GitLab, whose forms are in opposite orders.
    @Test(arguments: [
        (HTMLFormDriver.Consent.allow, true, "d=yes"), (.allow, false, "d=yes"), (.deny, true, "d=no"),
        (.deny, false, "d=no"),
    ]) func submitsTheConsentDecisionOnAPageWithTwoForms(
        _ consent: HTMLFormDriver.Consent,
        _ allowsFirst: Bool,
        _ expected: String
    ) async throws {
        let allow = "<form method=post><input type=hidden name=d value=yes><button>Authorize</button></form>"
        let deny = "<form method=post><input type=hidden name=d value=no><button>Deny</button></form>"
        let response = try await visit(consent: consent) { request, body in
            request.method == .post
                ? Self.redirect("com.example.app:/callback?\(body)")
                : Self.html(allowsFirst ? allow + deny : deny + allow)
        }
        #expect(response == "com.example.app:/callback?\(expected)")
    }

    /// The buttons of a page, and the values sent for a denial and for an approval (nil: no button is pressed).
    @Test(
        arguments: [
            (
                "<button name=d value=1>Allow (you can cancel any time)</button><button name=d value=0>Not now</button>",
                "0", "1"
            ),
            ("<button name=d value=1>Allow, no restrictions</button><button name=d value=2>Go back</button>", nil, "1"),
            ("<button name=d value=1>Yes, Allow</button><button name=d value=0>No, Do Not Allow</button>", "0", "1"),
            ("<button name=d value=1>Allow</button><button name=d value=0>Don’t allow</button>", "0", "1"),
            ("<button name=d value=1>Don't reject</button><button name=d value=0>Reject</button>", "0", nil),
            (
                "<button name=authorize value=0>Cancel</button><button name=authorize value=1 disabled>Authorize</button>",
                "0", nil
            ),
            ("<button name=d value=1>Zustimmen</button><button name=d value=0>Ablehnen</button>", "0", "1"),
            // Portuguese shares the words for a permission with Spanish, but not the negation.
            ("<button name=d value=1>Autorizar</button><button name=d value=0>Não autorizar</button>", "0", "1"),
            ("<button name=d value=1>Continue with Google</button>", nil, nil),
            ("<button name=d value=1>Change the password and continue</button>", nil, nil),
            ("<input type=hidden name=d value=allow><button>Deny</button>", nil, nil),
        ] as [(String, String?, String?)]
    )
    func pressesOnlyAButtonThatMatchesTheConsentDecision(_ buttons: String, _ denied: String?, _ allowed: String?)
        async throws
    {
        for (consent, expected) in [(HTMLFormDriver.Consent.deny, denied), (.allow, allowed)] {
            let response = try? await visit(consent: consent) { request, body in
                request.method == .post
                    ? Self.redirect("com.example.app:/callback?\(body)")
                    : Self.html("<form method=post>\(buttons)</form>")
            }
            #expect(response?.split(separator: "=").last.map(String.init) == expected, "\(consent)")
        }
    }

    @Test(arguments: [("Anmelden und zulassen", "Ablehnen"), ("Autoriser", "Refuser")])
    func denyingConsentPressesALocalizedDenyButtonWithoutThePassword(_ grant: String, _ refusal: String) async throws {
        let response = try await visit(consent: .deny) { request, body in
            request.method == .post
                ? Self.redirect("com.example.app:/callback?\(body)")
                : Self.html(
                    "<form method=post><input name=u><input type=password name=p><button name=d value=1>\(grant)</button><button name=d value=0>\(refusal)</button></form>"
                )
        }
        #expect(response.hasSuffix("d=0") && !response.contains("wonderland"))
    }

    @Test(arguments: [
        // An Auth0 page has a password field without a name.
        (
            "<form method=post><input name=username><input type=password><button>Continue</button></form>",
            "username=alice"
        ),
        (
            "<form method=post><input name=a><input name=b type=password autocomplete=new-password><input type=password name=c autocomplete=new-password><button>Register</button></form><form method=post><input name=u><input type=password name=p><button>Log in</button></form>",
            "u=alice&p=wonderland"
        ),
        (
            "<form method=post><input name=u><input type=password name=p><button name=x value=1>Forgot your password?</button><button>Log in</button></form>",
            "u=alice&p=wonderland"
        ),
        (
            "<form method=post action=' /x '><input name=u autocomplete=username><input name=website><input type=password name=p><button>Log in</button></form>",
            "u=alice&website=&p=wonderland"
        ),
    ]) func choosesTheSignInFormItsFieldsAndItsButton(_ page: String, _ sent: String) async throws {
        let response = try await visit { request, body in
            request.method == .post ? Self.redirect("com.example.app:/callback?\(body)") : Self.html(page)
        }
        #expect(response == "com.example.app:/callback?\(sent)")
    }

    @Test func theUserNameIsNotEnteredAsACode() async throws {
        let posts = Mutex(0)
        await expectError(.userAgentFailed) {
            try await visit { request, _ in
                if request.method == .post { posts.withLock { $0 += 1 } }
                let name = request.method == .post ? "code" : "username"
                return Self.html("<form method=post><input name=\(name)><button>Continue</button></form>")
            }
        }
        #expect(posts.withLock { $0 } == 1)
    }

    @Test(arguments: [
        "wrong+wonderland", "wrong+wonderland+ung%FCltig", "wrong+wonderl%61nd", "wonderland+100%", "wonderl%61nd+100%",
    ])
    func removesAPasswordEchoedInAnAuthorizationErrorResponse(_ description: String) async throws {
        let response = try await visit { request, _ in
            request.method == .post
                ? Self.redirect(
                    "com.example.app:/callback?error=access_denied&error_description=\(description)&state=s"
                )
                : Self.html(Self.signInForm)
        }
        #expect(response.contains("state=s") && !response.contains("wonderland"))
    }

    /// The parameters of Facebook's errors are also shown.
    @Test(arguments: ["error_code", "error_message"])
    func removesAPasswordEchoedInAFacebookErrorResponse(_ name: String) async throws {
        let response = try await visit { request, _ in
            request.method == .post
                ? Self.redirect("com.example.app:/callback?\(name)=wrong+wonderland&state=s")
                : Self.html(Self.signInForm)
        }
        #expect(response.contains("state=s") && !response.contains("wonderland"))
    }

    /// On the consent page of LemonLDAP::NG, only a script distinguishes the buttons. Without the script, the first
    /// button is pressed.
    @Test func allowsButDoesNotDenyConsentIfOnlyAScriptDistinguishesTheButtons() async throws {
        let page = "<form method=post><button>Accept</button><button>Refuse</button></form>"
        let respond: @Sendable (HTTPRequest, String) -> TransportResponse = { request, _ in
            request.method == .post ? Self.redirect("com.example.app:/callback?code=1") : Self.html(page)
        }
        #expect(try await visit(consent: .allow, respond) == "com.example.app:/callback?code=1")
        await expectError(.userAgentFailed) { try await visit(consent: .deny, respond) }
    }

    @Test(arguments: [400, 401, 403, 422]) func reportsAWrongPasswordThatIsRejectedWithAnErrorStatus(_ status: Int)
        async throws
    {
        let error = try await #require(throws: AuthError.self) {
            try await visit { request, _ in
                Self.html(Self.signInForm, status: request.method == .post ? .init(code: status) : .ok)
            }
        }
        #expect(error.code == .accessDenied)
    }

    @Test(arguments: [400, 401, 403, 422]) func signsInOnAPageWithAnErrorStatus(_ status: Int) async throws {
        let response = try await visit { request, _ in
            request.method == .post
                ? Self.redirect("com.example.app:/callback?code=1")
                : Self.html(Self.signInForm, status: .init(code: status))
        }
        #expect(response == "com.example.app:/callback?code=1")
    }

    /// The password would be submitted regardless of which button is pressed.
    @Test(arguments: [
        "<button name=d value=cancel>Cancel</button><button name=d value=login>Log in</button>",
        "<input type=submit name=d value=Cancel><input type=submit name=d value=login>",
        "<button name=d value=login>Continue</button><button name=d value=cancel>Cancel</button>",
        // "no" is a preposition in Portuguese.
        "<button name=d value=login>Entrar no portal</button><button name=d value=register>Criar conta</button>",
    ]) func pressesTheSignInButtonInsteadOfCancelOrRegister(_ buttons: String) async throws {
        let response = try await visit { request, body in
            request.method == .post
                ? Self.redirect("com.example.app:/callback?\(body)")
                : Self.html("<form method=post><input name=u><input type=password name=p>\(buttons)</form>")
        }
        #expect(response.hasSuffix("d=login"), "\(response)")
    }

    /// The missing member could be the one that restricts where the cookie is sent.
    @Test(arguments: [nil, "value", "domain", "path", "host_only", "secure"] as [String?])
    func ignoresASharedCookieThatIsIncomplete(_ missing: String?) async throws {
        var cookie: [String: JSON] = [
            "name": "session", "value": "v", "domain": "id.example.com", "path": "/", "host_only": true, "secure": true,
        ]
        if let missing { cookie[missing] = nil }
        let document = RedactedJSON(.object(["cookies": .array([.object(cookie)])]))
        let store = SharedCredentialStore(group: "acme", store: MemoryTokenStore())
        try await store.change(for: origin) { _ in document }
        let shared = SharedCookies(
            store: store,
            origin: try Endpoint(origin),
            names: ["session"],
            sharingSessionCookiesAtRisk: true
        )
        let now = Date(timeIntervalSince1970: 1_800_000_000)
        #expect(try await shared.snapshot(for: .signIn, now: now).cookies.count == (missing == nil ? 1 : 0))
    }

    @Test func aTranscriptThatAnotherProgramReplacesDoesNotStopTheVisit() async throws {
        let path = FileManager.default.temporaryDirectory.appendingPathComponent(UUID().uuidString).path
        defer { try? FileManager.default.removeItem(atPath: path) }
        let base = InProcessTransport(origin: origin) { _, _ in
            try Data("precious".utf8).write(to: URL(fileURLWithPath: path))
            return Self.html("")
        }
        let transport = HeadlessTransport(base: base, userAgentString: nil, transcript: Transcript(path: path))
        for _ in 0..<2 { _ = try await transport.send(TransportRequest(.get, Endpoint("https://id.example.com/"))) }
        #expect(try String(contentsOfFile: path, encoding: .utf8) == "precious")
    }

    @Test func reportsTheFailedPageWithoutItsQuery() async throws {
        let error = try await #require(throws: AuthError.self) {
            try await visit(path: "/start?code=SECRET") { _, _ in Self.html("no", status: .internalServerError) }
        }
        #expect(error.description.contains("status 500"))
        #expect(!error.description.contains("SECRET"))
    }
}
