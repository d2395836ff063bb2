import AuthFlow
import Testing

@testable import AuthFlowHeadless

@Suite struct HTMLPageTests {
    @Test func readsFormsAsABrowserWould() throws {
        let page = try #require(
            try HTMLPage(
                Array(
                    """
                    <!doctype html><title>Sign in</title><body><FORM Action="/login?x=1&amp;y=2" method=POST>
                    <input type=hidden name=csrf value="a&quot;b"><p>User <input name="user">
                    <input type="password" name='pw'><input type=checkbox name=stay checked><input type=checkbox name=no>
                    <input name=gone disabled><button name=go value=1>Sign <b>in</b></button></form><script>x</script>
                    """.utf8
                )
            )
        )
        #expect(page.title == "Sign in")
        #expect(page.hasScripts)
        let form = try #require(page.forms.first)
        #expect(form.action == "/login?x=1&y=2")
        #expect(form.method == "post")
        #expect(form.fields.map(\.name) == ["csrf", "user", "pw", "stay", "no", "go"])
        #expect(form.fields.filter(\.isSent).map(\.name) == ["csrf", "user", "pw", "stay"])
        #expect(form.fields.first?.value == "a\"b")
        #expect(form.userNameField?.name == "user")
        #expect(form.passwordField?.name == "pw")
        #expect(form.buttons.first?.label == "Sign in")
    }

    @Test(
        arguments: [
            [], Array("<form".utf8), [0, 1, 2, 255], Array(String(repeating: "<div>", count: 500).utf8),
            Array(String(repeating: "<form><input>", count: 2000).utf8), Array("<a/><b></a></b><input name=x>".utf8),
        ] as [[UInt8]]
    ) func parsesMalformedHTMLWithoutCrashing(_ bytes: [UInt8]) throws {
        #expect(try HTMLPage(bytes) != nil)
    }

    @Test(arguments: [
        ("steal", "https://other.example.com/x/steal"), ("", "https://id.example.com/login"),
        ("https://id.example.com/a", "https://id.example.com/a"),
    ])
    func aRelativeActionRefersToTheBaseURLOfThePage(_ action: String, _ target: String) throws {
        let text = "<base href='//other.example.com/x/'><base href=/y/><form action='\(action)'><input name=x></form>"
        let form = try #require(try HTMLPage(Array(text.utf8))?.forms.first)
        let page = HeadlessPage(
            endpoint: Endpoint("https://id.example.com/login"),
            response: TransportResponse(head: HTTPResponse(status: .ok)),
            hasTypedCredentials: false,
            purpose: .signIn
        )
        #expect(try form.target(on: page).url == target)
    }

    /// Browsers do not read elements in the content of these.
    @Test(arguments: ["noscript", "template", "iframe", "textarea", "title", "xmp"])
    func aBaseURLInContentThatIsNotShownIsIgnored(_ element: String) throws {
        let text = "<\(element)><base href=/y/></\(element)><form action=z><input name=x></form>"
        let page = try #require(try HTMLPage(Array(text.utf8)))
        #expect(page.base == nil)
        #expect(page.forms.map(\.action) == ["z"] && page.forms.first?.fields.count == 1)
    }

    @Test func aFieldCountsOnceHoweverFormsAreNested() throws {
        let page = try #require(
            try HTMLPage(
                Array("<form action=/a><input name=x><div><form action=/b><input name=y></form></div></form>".utf8)
            )
        )
        #expect(page.forms.flatMap(\.fields).map(\.name) == ["x", "y"])
        #expect(page.forms.first?.action == "/a")
    }

    @Test func hasTheTextThatAUserSees() throws {
        let page = try #require(
            try HTMLPage(
                Array(
                    "<p>Hello<!-- no --> wor<b>ld</b><noscript>no <form><button>x</button></form></noscript> &amp; more"
                        .utf8
                )
            )
        )
        #expect(page.text == "Hello wor ld & more")
        #expect(page.forms.isEmpty)
    }
}
