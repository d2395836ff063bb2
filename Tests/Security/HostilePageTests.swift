import AuthFlow
import AuthFlowHeadless
import AuthFlowTesting
import Expectations
import Foundation
import HTTPTypes
import Synchronization
import Testing

@testable import AuthFlowOAuth

/// Pages that a headless user agent visits, and the actions that it must not take there.
@Suite struct HostilePageTests {
    /// Visits a start URL in a simulated network.
    private func visit(
        _ start: String = "https://id.example.com/start",
        purpose: RedirectOptions.Purpose = .signIn,
        origins: [String] = ["https://id.example.com"],
        consent: HTMLFormDriver.Consent = .allow,
        driver: (any LoginDriver)? = nil,
        in network: Network
    ) async throws -> String {
        let agent = HeadlessUserAgent(
            driver: try driver
                ?? HTMLFormDriver(
                    username: "alice",
                    password: Secret("wonderland"),
                    origins: origins.map { try Endpoint($0) },
                    consent: consent
                ),
            transport: network
        )
        let options = RedirectOptions(
            purpose: purpose,
            redirectURIs: [RedirectURI("com.example.app:/callback")],
            state: Secret("the-state"),
            reporter: FlowReporter(),
            clock: ContinuousClock()
        )
        return try await agent.withRedirectSession(options) { try await $0.visit(start) }
    }

    /// A simulated network that calls a function for each request, and records the requests.
    private final class Network: HTTPTransport {
        struct Seen: Sendable {
            let line: String
            let call: TransportRequest
            func field(_ name: String) -> String? {
                HTTPField.Name(name).flatMap { call.head.headerFields[$0] }
            }
            var body: String { String(decoding: call.body, as: UTF8.self) }
        }

        private let respond: @Sendable (_ line: String) -> TransportResponse
        private let calls = Mutex<[Seen]>([])

        init(_ respond: @escaping @Sendable (_ line: String) -> TransportResponse) { self.respond = respond }

        var seen: [Seen] { calls.withLock { $0 } }

        func send(_ call: TransportRequest) async throws -> TransportResponse {
            let line = "\(call.head.method) \(call.url)"
            calls.withLock { $0.append(Seen(line: line, call: call)) }
            return respond(line)
        }
    }

    private static let signIn = "<form method=post action=/login><input name=u><input type=password name=p></form>"

    // MARK: Sites

    @Test func submitsNoFormFromAnotherSite() async throws {
        for page in [
            "<form method=post action='https://id.example.com/transfer'><button>Continue</button></form>",
            "<form method=get action='https://id.example.com/transfer'><button>Continue</button></form>",
        ] {
            let network = Network { line in
                switch line {
                case "GET https://id.example.com/start": .redirect("https://evil.example.net/")
                default: .html(page)
                }
            }
            let error = await #expect(throws: AuthError.self) { try await visit(in: network) }
            #expect(error?.message.contains("not listed") == true)
            #expect(!network.seen.contains { $0.line.contains("/transfer") })
        }
    }

    @Test func submitsNoFormToAnotherSite() async throws {
        let network = Network { _ in
            .html(
                "<form method=post action='https://evil.example.net/'><input type=hidden name=token value=t><button>Allow</button></form>"
            )
        }
        await expectError(.userAgentFailed) { try await visit(in: network) }
        #expect(network.seen.count == 1)
        let button = Network { _ in
            .html("<form method=post action=/ok><button formaction='https://evil.example.net/'>Allow</button></form>")
        }
        await expectError(.userAgentFailed) { try await visit(in: button) }
        #expect(button.seen.count == 1)
    }

    /// A site may let its users upload such a file.
    @Test func submitsNoFormInAFileThatIsNotHTML() async throws {
        let network = Network { _ in .text(Self.signIn, type: "text/plain") }
        let error = await #expect(throws: AuthError.self) { try await visit(in: network) }
        #expect(error?.code == .userAgentFailed)
        #expect(error?.message.contains("has no form that can be filled in") == true, "\(error?.message ?? "")")
        #expect(network.seen.count == 1)
    }

    /// A browser would submit the form in the page's encoding. In UTF-8, the server would receive a different password, and count a failed attempt.
    @Test(
        arguments: [
            ("", "text/html; charset=ISO-8859-1", false), ("", "text/html; charset=\"windows-1252\"", false),
            ("<meta charset=iso-8859-15>", "text/html", false),
            ("<meta charset=iso-8859-1>", "text/html; charset=utf-8", true),
            ("<meta http-equiv=Content-Type content='text/html; charset=shift_jis'>", "text/html", false),
            ("<meta charset=UTF-8>", "text/html", true), ("", "text/html", true),
            ("<meta charset=unicode11utf8>", "text/html", true), ("<meta charset=ucs-2>", "text/html", true),
            ("<meta charset=unknown-label>", "text/html", false),
            ("<meta charset=shift_jis>", "text/html; charset=\"\"", false),
            ("<meta charset=''><meta charset=shift_jis>", "text/html", false),
            ("\u{FEFF}", "text/html; charset=iso-8859-1", true),
            ("<meta charset=latin1><form accept-charset='UTF-8' method=post action=/login>", "text/html", true),
            ("<form accept-charset='iso-8859-1 utf-8' method=post action=/login>", "text/html; charset=utf-8", false),
            ("<form accept-charset='UTF-8,ISO-8859-1' method=post action=/login>", "text/html", true),
            ("<form accept-charset='UNKNOWN' method=post action=/login>", "text/html; charset=latin1", true),
            ("<form accept-charset='UTF-8, latin1' method=post action=/login>", "text/html", false),
        ]
    )
    func credentialsOutsideASCIIAreEnteredOnlyInUTF8(_ start: String, _ type: String, _ isEntered: Bool) async throws {
        let network = Network { line in
            guard line.hasPrefix("GET") else { return .redirect("com.example.app:/callback?code=1&state=the-state") }
            return .text(start + Self.signIn, type: type)
        }
        for (username, isASCII) in [("alice", true), ("älice", false)] {
            let driver = HTMLFormDriver(
                username: username,
                password: Secret("wonderland"),
                origins: [try Endpoint("https://id.example.com")]
            )
            if isASCII || isEntered {
                _ = try await visit(driver: driver, in: network)
                #expect(network.seen.last?.body.contains(isASCII ? "u=alice" : "u=%C3%A4lice") == true)
            } else {
                let error = await #expect(throws: AuthError.self) { try await visit(driver: driver, in: network) }
                #expect(error?.message.contains("only ASCII characters") == true, "\(error?.message ?? "")")
                #expect(network.seen.last?.line.hasPrefix("GET") == true)
            }
        }
    }

    @Test func followsALocationOnlyInARedirect() async throws {
        let network = Network { line in
            guard line.hasPrefix("GET") else { return .redirect("com.example.app:/callback?code=1&state=the-state") }
            var page = TransportResponse.html(Self.signIn)
            page.head.headerFields[.location] = "https://id.example.com/elsewhere"
            return page
        }
        _ = try await visit(in: network)
        #expect(network.seen.map(\.line) == ["GET https://id.example.com/start", "POST https://id.example.com/login"])
    }

    @Test func sendsTheOriginOfThePageWithItsForm() async throws {
        let network = Network { line in
            switch line {
            case "GET https://id.example.com/start":
                .html(
                    "<form method=post action='https://login.example.com/login'><input name=u><input type=password name=p></form>"
                )
            default: .redirect("com.example.app:/callback?code=1&state=the-state")
            }
        }
        _ = try await visit(origins: ["https://id.example.com", "https://login.example.com"], in: network)
        #expect(network.seen.last?.field("Origin") == "https://id.example.com")
    }

    struct CookieCase: CustomTestStringConvertible {
        let cookie: String
        let target: String
        let method: String
        let isSent: Bool
        var testDescription: String { cookie }
    }

    static let cookies: [CookieCase] = [
        CookieCase(
            cookie: "a=1; Secure; SameSite=Strict",
            target: "https://id.example.net",
            method: "post",
            isSent: false
        ),
        CookieCase(
            cookie: "a=1; Secure; SameSite=Lax",
            target: "https://id.example.net",
            method: "post",
            isSent: false
        ),
        CookieCase(cookie: "a=1; Secure", target: "https://id.example.net", method: "post", isSent: false),
        CookieCase(
            cookie: "a=1; Secure; SameSite=None",
            target: "https://id.example.net",
            method: "post",
            isSent: true
        ),
        CookieCase(
            cookie: "a=1; Secure; SameSite=Strict",
            target: "https://id.example.net",
            method: "get",
            isSent: false
        ),
        CookieCase(cookie: "a=1; Secure; SameSite=Lax", target: "https://id.example.net", method: "get", isSent: true),
        CookieCase(
            cookie: "a=1; Secure; SameSite=Strict",
            target: "https://id.example.com",
            method: "post",
            isSent: true
        ),
        CookieCase(
            cookie: "a=1; Secure; SameSite=Strict",
            target: "https://login.example.com",
            method: "post",
            isSent: true
        ),
        CookieCase(cookie: "a=1; Secure; SameSite=None", target: "http://127.0.0.1:1", method: "post", isSent: false),
    ]

    @Test(arguments: cookies) func honorsTheSameSiteAttributeOfCookies(
        _ test: CookieCase
    ) async throws {
        let (target, method, cookie) = (test.target, test.method, test.cookie)
        let network = Network { line in
            switch line {
            // The target sets its cookie and redirects to a page of the first site, whose form submits to the target.
            case "GET https://id.example.com/start": return .redirect("\(target)/set")
            case "GET \(target)/set":
                var response = TransportResponse.redirect("https://id.example.com/form")
                response.head.headerFields[.setCookie] = "\(cookie); Path=/"
                return response
            case "GET https://id.example.com/form":
                return .html("<form method=\(method) action='\(target)/go'><button>Continue</button></form>")
            default: return .redirect("com.example.app:/callback?code=1&state=the-state")
            }
        }
        _ = try? await visit(origins: ["https://id.example.com", target], in: network)
        let call = network.seen.first { $0.line.contains("/go") }
        #expect((call?.field("Cookie") == "a=1") == test.isSent)
    }

    @Test(arguments: ["http://127.0.0.1:9200/_shutdown", "http://localhost/x", "https://10.0.0.1/x"])
    func aPublicPageCannotRedirectOrSubmitToALocalService(_ address: String) async throws {
        for page in [
            TransportResponse.redirect(address), .html("<form action='\(address)'><button>Continue</button></form>"),
        ] {
            let network = Network { line in line.hasSuffix("/start") ? page : .html("ok") }
            await expectError(.userAgentFailed) {
                try await visit(origins: ["https://id.example.com", address], in: network)
            }
            #expect(network.seen.count == 1, "\(network.seen.map(\.line))")
        }
    }

    // MARK: Device codes

    /// Enters the code ABCD at `https://id.example.com/start`.
    private func enterCode(in network: Network, isInURI: Bool = false) async throws {
        var response: [String: JSON] = [
            "device_code": "d", "user_code": "ABCD", "verification_uri": "https://id.example.com/start",
            "expires_in": 600,
        ]
        if isInURI { response["verification_uri_complete"] = "https://id.example.com/start?user_code=ABCD" }
        let authorization = try DeviceAuthorization(.object(response))
        let driver = HTMLFormDriver(
            username: "alice",
            password: Secret("wonderland"),
            origins: [Endpoint("https://id.example.com")]
        )
        let presenter = HeadlessDevicePresenter(driver: driver, transport: network, host: VirtualTime().host)
        try await presenter.present(authorization) {}
    }

    /// The URL of the page that contains the form, and the form's action URL.
    @Test(arguments: [
        ("https://evil.example.net/", "https://id.example.com/device"),
        ("https://id.example.com/form", "https://evil.example.net/"),
    ])
    func entersAUserCodeOnlyAtTheOriginOfTheVerificationURI(_ page: String, _ action: String) async throws {
        let network = Network { line in
            line.hasSuffix("/start")
                ? .redirect(page)
                : .html("<form method=post action='\(action)'><input name=code><button>Continue</button></form>")
        }
        let error = await #expect(throws: AuthError.self) { try await enterCode(in: network) }
        #expect(error?.code == .userAgentFailed)
        #expect(error?.message.contains("not listed") == true, "\(error?.message ?? "")")
        #expect(!network.seen.contains { $0.line.hasPrefix("POST") })
    }

    @Test func doesNotEnterAUserCodeAsTheUserName() async throws {
        let network = Network { line in
            line.hasPrefix("GET")
                ? .html("<form method=post action=/name><input name=username><button>Next</button></form>")
                : .html("Done")
        }
        try await enterCode(in: network)
        #expect(network.seen.last?.body == "username=alice")
    }

    @Test(
        arguments: ["<input name=code>", "<input name=code autocomplete=one-time-code inputmode=numeric>"],
        [true, false]
    ) func doesNotEnterAUserCodeAsAOneTimeCode(_ field: String, isInURI: Bool) async throws {
        @Sendable func form(_ action: String, _ fields: String) -> TransportResponse {
            .html("<form method=post action=\(action)>\(fields)<button>Continue</button></form>")
        }
        let network = Network { line in
            switch line {
            case "POST https://id.example.com/device", "GET https://id.example.com/start?user_code=ABCD":
                form("/login", "<input name=username><input type=password name=password>")
            case "POST https://id.example.com/login": form("/code", field)
            default: form("/device", "<input name=user_code>")
            }
        }
        let error = await #expect(throws: AuthError.self) { try await enterCode(in: network, isInURI: isInURI) }
        #expect(error?.code == .userAgentFailed)
        #expect(error?.message.contains("one-time code") == true, "\(error?.message ?? "")")
        #expect(!network.seen.contains { $0.line == "POST https://id.example.com/code" })
    }

    /// The fields for both codes have the same name. Providers lock accounts after a few wrong one-time codes.
    @Test func entersAUserCodeOnlyOnceMoreAfterTheSignIn() async throws {
        @Sendable func form(_ action: String, _ fields: String) -> TransportResponse {
            .html("<form method=post action=\(action)>\(fields)<button>Continue</button></form>")
        }
        let network = Network { line in
            switch line {
            case "POST https://id.example.com/device":
                form("/login", "<input name=username><input type=password name=password>")
            case "POST https://id.example.com/login", "POST https://id.example.com/code":
                form("/code", "<input name=code>")
            default: form("/device", "<input name=code>")
            }
        }
        let error = await #expect(throws: AuthError.self) { try await enterCode(in: network) }
        #expect(error?.message.contains("one-time code") == true, "\(error?.message ?? "")")
        #expect(network.seen.count { $0.line == "POST https://id.example.com/code" } == 1)
    }

    // MARK: Consent

    @Test(arguments: HTMLFormDriver.Consent.allCases) func pressesNoAmbiguousConsentButton(
        _ consent: HTMLFormDriver.Consent
    ) async throws {
        // If both buttons submit the same data, a denial is processed as an approval. An approval with the
        // first button is safe, because it submits the same data with and without scripts.
        let same =
            consent == .deny
            ? [
                "<button name=go value=1>Allow</button><button name=go value=1 onclick='deny()'>Deny</button>",
                "<button>Allow</button><button onclick='deny()'>Deny</button>",
            ] : []
        for form in same + [
            "<button name=go value=1 onclick='deny()'>Deny</button><button name=go value=1>Allow</button>",
            "<button onclick='deny()'>Deny</button><button>Allow</button>",
            "<button name=allow_or_deny value=1>A</button><button name=allow_or_deny value=2>B</button>",
        ] {
            let network = Network { _ in .html("<form method=post action=/consent>\(form)</form>") }
            let error = await #expect(throws: AuthError.self) { try await visit(consent: consent, in: network) }
            #expect(error?.code == .userAgentFailed)
            #expect(network.seen.count == 1)
        }
    }

    // MARK: Signing out

    @Test(arguments: [
        signIn, "<form method=post action=/profile><input name=username value=alice><button>Save</button></form>",
        "<form method=post action=/close><button>Delete account</button></form>",
        "<form method=post action=/continue><button>Continue</button></form>",
        "<form method=post action=/x><input name=q><button>Sign out</button></form>", "<p>You are signed out.</p>",
        "<form method=post action='https://evil.example.net/'><button>Sign out</button></form>",
        "<form method=post action=/x><button name=a value=1>Yes</button><button name=a value=1>No</button></form>",
    ]) func aSignOutSubmitsOnlyAnUnambiguousConfirmation(_ page: String) async throws {
        let network = Network { _ in .html(page) }
        let error = await #expect(throws: AuthError.self) {
            try await visit("https://id.example.com/logout", purpose: .signOut, in: network)
        }
        #expect(error?.code == .userAgentFailed)
        #expect(network.seen.count == 1)
    }

    @Test(arguments: ["Sign out", "Log Out", "LOGOUT", "Yes", "Yes, sign me out"])
    func aSignOutPressesItsConfirmationButton(_ label: String) async throws {
        let network = Network { line in
            line.hasPrefix("GET")
                ? .html(
                    "<form method=post action=/confirm><input type=hidden name=csrf value=c><button name=yes value=1>\(label)</button><button name=no value=1>No</button></form>"
                )
                : .redirect("com.example.app:/callback?state=the-state")
        }
        let response = try await visit("https://id.example.com/logout", purpose: .signOut, in: network)
        #expect(response == "com.example.app:/callback?state=the-state")
        #expect(network.seen.last?.body == "csrf=c&yes=1")
    }

    @Test(arguments: ["", "https://id.example.com/confirm"])
    func aSignOutOnAnotherSiteIsNotConfirmed(_ action: String) async throws {
        let network = Network { line in
            line.hasSuffix("/logout")
                ? .redirect("https://evil.example.net/")
                : .html("<form method=post action='\(action)'><button>Sign out</button></form>")
        }
        await expectError(.userAgentFailed) {
            try await visit("https://id.example.com/logout", purpose: .signOut, in: network)
        }
        #expect(!network.seen.contains { $0.line.hasPrefix("POST") })
    }

    @Test(arguments: [400, 500]) func aSignOutDoesNotConfirmAnErrorPage(_ status: Int) async throws {
        let network = Network { _ in
            .html("<form method=post><button>Sign out</button></form>", status: HTTPResponse.Status(code: status))
        }
        let error = await #expect(throws: AuthError.self) {
            try await visit("https://id.example.com/logout", purpose: .signOut, in: network)
        }
        #expect(error?.code == .userAgentFailed)
        #expect(error?.message.contains("not a plain sign-out confirmation") == true, "\(error?.message ?? "")")
        #expect(network.seen.count == 1)
    }

    @Test func anEmptySuccessResponseDoesNotConcealThatAnotherSessionMayRemainActive() async throws {
        struct Driver: LoginDriver {
            func next(after page: HeadlessPage, in browser: HeadlessBrowser) async throws -> HeadlessNavigation {
                throw CancellationError()
            }

            func beginSignOut(in browser: HeadlessBrowser) async throws {
                throw AuthError(.networkFailed, "The other session may remain active.")
            }
        }
        let network = Network { _ in TransportResponse(head: HTTPResponse(status: .noContent)) }
        let error = await #expect(throws: AuthError.self) {
            try await visit("https://id.example.com/logout", purpose: .signOut, driver: Driver(), in: network)
        }
        #expect(error?.code == .networkFailed)
        #expect(error?.message.contains("The other session may remain active.") == true, "\(error?.message ?? "")")
        // The end session endpoint was visited nevertheless.
        #expect(network.seen.count == 1)
    }

    @Test(arguments: [TransportResponse(head: HTTPResponse(status: .noContent)), .text("{}")])
    func anEmptySuccessResponseCompletesTheSignOut(_ response: TransportResponse) async throws {
        let network = Network { _ in response }
        let response = try await visit("https://id.example.com/logout?id_token_hint=x", purpose: .signOut, in: network)
        #expect(response == "com.example.app:/callback?state=the-state")
    }

    // MARK: Displayed text

    @Test(arguments: [
        (TransportResponse.html("<h1>Unknown client</h1>", status: .badRequest), "Unknown client"),
        (
            .text(
                #"{"error": "invalid_request", "error_description": "No such \u001b[2Jclient"}"#,
                status: .badRequest
            ), "No such  [2Jclient"
        ),
        (.html("<title>Gone</title><p>Nothing here", status: .notFound), "Gone: Nothing here"),
        (.html("<title>Gone</title><h1>Gone</h1><p>Nothing here", status: .notFound), "says: \"Gone Nothing here\""),
    ]) func showsTheTextOfAnErrorPage(_ response: TransportResponse, _ words: String) async throws {
        let error = await #expect(throws: AuthError.self) { try await visit(in: Network { _ in response }) }
        #expect(error?.message.contains(words) == true, "\(error?.message ?? "")")
    }

    @Test(arguments: [401, 403]) func reportsA401Or403AfterPasswordSubmissionAsAccessDenied(_ status: Int) async throws
    {
        let network = Network { line in
            line.hasPrefix("GET") ? .html(Self.signIn) : .html("Wrong.", status: HTTPResponse.Status(code: status))
        }
        let error = await #expect(throws: AuthError.self) { try await visit(in: network) }
        #expect(error?.code == .accessDenied)
    }

    // MARK: Bounds

    struct Monster: CustomTestStringConvertible {
        let name: String
        let page: @Sendable () -> String
        var testDescription: String { name }
    }

    private static let attributes = (0..<40_000).map { "a\($0)=x" }.joined(separator: " ")

    static let monsters: [Monster] = [
        Monster(name: "attributes", page: { "<form " + (0..<40_000).map { "a\($0)" }.joined(separator: " ") + ">" }),
        Monster(
            name: "attributes with quotes",
            page: { "<form " + (0..<40_000).map { "a\($0)='>'" }.joined(separator: " ") + ">" }
        ),
        Monster(
            name: "attributes with odd quotes",
            page: { "<form " + (0..<40_000).map { "a\($0)=x\"y" }.joined(separator: " ") + ">" }
        ),
        Monster(
            name: "attributes after an incorrectly closed comment",
            page: { "<!-- x --!><a " + (0..<40_000).map { "a\($0)" }.joined(separator: " ") + "> -->" }
        ),
        Monster(name: "attributes after a truncated tag", page: { "<a <form \(attributes)>" }),
        Monster(name: "attributes after a declaration", page: { "<!doctype html \"><form \(attributes)>" }),
        Monster(name: "attributes after a processing instruction", page: { "<?x '><form \(attributes)?>'>" }),
        Monster(name: "attributes of a style", page: { "<style><!--</style><form \(attributes)>" }),
        Monster(
            name: "attributes with only equals signs",
            page: { "<form " + (0..<60_000).map { "a\($0)=" }.joined(separator: " ") }
        ),
        Monster(name: "an unterminated tag", page: { "<form x='" + String(repeating: "y", count: 400_000) }),
        Monster(
            name: "nested elements that later start tags close",
            page: { String(repeating: "<b><p><i>", count: 40_000) }
        ),
        Monster(name: "forms", page: { String(repeating: "<form><p>", count: 50_000) }),
        Monster(name: "nesting", page: { String(repeating: "<div>", count: 100_000) }),
        Monster(
            name: "foreign nesting",
            page: { String(repeating: "<svg>", count: 50_000) + String(repeating: "</x>", count: 60_000) }
        ),
        Monster(name: "a button's label", page: { "<form><button>" + String(repeating: "<b>x", count: 100_000) }),
        Monster(
            name: "fieldsets",
            page: { "<form>" + String(repeating: "<fieldset><input form=a id=a>", count: 15_000) }
        ),
        Monster(name: "scripts", page: { String(repeating: "<script><!--<script>", count: 25_000) }),
        Monster(name: "tags", page: { String(repeating: "<br>", count: 100_000) }),
        Monster(name: "size", page: { String(repeating: "x", count: 600_000) }),
    ]

    /// The parsing time is proportional to the size of the page, which is limited.
    @Test(.timeLimit(.minutes(1)), arguments: monsters)
    func failsInLinearTimeOnLargeOrComplexPages(_ test: Monster) async throws {
        let page = test.page()
        let error = await #expect(throws: AuthError.self) { try await visit(in: Network { _ in .html(page) }) }
        #expect(error?.message.contains("was not read") == (page.utf8.count > 512 * 1024), "\(error?.message ?? "")")
    }

    @Test func signsInOnAPageWithScriptsStylesAndComments() async throws {
        let script =
            "<script>for (let a = 0; a<b && c d e; a++) { '</div>' }</script><style>a>b { c: d }</style><!-- <a b c d> --><!----><!-- it's -->"
        let list = (0..<500).map { "<option value=\($0)>Number \($0)" }.joined()
        let network = Network { line in
            line.hasPrefix("GET")
                ? .html(script + "<select>\(list)</select>" + Self.signIn + "<!-- the end -->")
                : .redirect("com.example.app:/callback?code=1&state=the-state")
        }
        #expect(try await visit(in: network).contains("code=1"))
    }
}
