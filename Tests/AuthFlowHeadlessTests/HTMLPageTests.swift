import AuthFlow
import Testing

@testable import AuthFlowHeadless

@Suite struct HTMLPageTests {
    @Test func readsFormsAsABrowserWould() throws {
        let page =
            (HTMLReader.page(
                Array(
                    """
                    <!doctype html><title>Sign in</title><body><FORM Action="/login?x=1&amp;y=2" method=POST>
                    <input type=hidden name=csrf value="a&quot;b"><p>User <input name="user">
                    <input type="password" name='pw'><input type=checkbox name=stay checked><input type=checkbox name=no>
                    <input name=gone disabled><button name=go value=1>Sign <b>in</b></button></form><script>x</script>
                    """.utf8
                )
            ))
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
            Array("<form><input><button form=a><textarea id=a><frameset>".utf8),
            Array("<form id=a><input form=a><button><frameset>".utf8),
            Array("<".utf8), Array("x<".utf8), Array("<a x=".utf8),
            Array("<!--".utf8), Array("<!--x".utf8), Array("<svg><![CDATA[".utf8), Array("<!".utf8), Array("</x".utf8),
            Array("<script><!--<script".utf8),
            Array(String(repeating: "<form><input>", count: 2000).utf8), Array("<a/><b></a></b><input name=x>".utf8),
        ] as [[UInt8]]
    ) func parsesMalformedHTMLWithoutCrashing(_ bytes: [UInt8]) throws {
        _ = HTMLReader.page(bytes)
    }

    /// The URL to which the first form of a page at `https://id.example.com/login` is submitted.
    private func actionURL(ofFormIn text: String) throws -> String {
        let form = try #require(HTMLReader.page(Array(text.utf8)).forms.first)
        let page = HeadlessPage(
            endpoint: Endpoint("https://id.example.com/login"),
            response: TransportResponse(head: HTTPResponse(status: .ok)),
            hasTypedCredentials: false,
            purpose: .signIn
        )
        return try form.target(on: page).url
    }

    @Test(arguments: [
        ("steal", "https://other.example.com/x/steal"), ("", "https://id.example.com/login"),
        ("https://id.example.com/a", "https://id.example.com/a"),
    ])
    func resolvesARelativeFormActionAgainstTheBaseURL(_ action: String, _ target: String) throws {
        let text = "<base href='//other.example.com/x/'><base href=/y/><form action='\(action)'><input name=x></form>"
        #expect(try actionURL(ofFormIn: text) == target)
    }

    @Test(arguments: ["javascript:alert(1)", "JavaScript:alert(1)", "data:text/html,x"])
    func ignoresABaseURLThatIsAScriptOrData(_ base: String) throws {
        let text = "<base href='\(base)'><form action=go><input name=x></form>"
        #expect(try actionURL(ofFormIn: text) == "https://id.example.com/go")
    }

    private static let evil =
        "<base href=/y/><form method=post action=/evil><input name=u><input type=password name=p></form>"

    /// A browser displays only the last form in each of these documents (checked with html5lib, scripting enabled).
    @Test(arguments: [
        "<noscript>EVIL</noscript>", "<template>EVIL</template>", "<template><template></template>EVIL</template>",
        "<template></body>EVIL</template>", "<iframe>EVIL</iframe>", "<textarea>EVIL</textarea>", "<title>EVIL</title>",
        "<xmp>EVIL</xmp>",
        "<style>EVIL</style>", "<script>EVIL</script>", "<noembed>EVIL</noembed>", "<noframes>EVIL</noframes>",
        "<div><textarea></div>EVIL</textarea>", "<div><title></div>EVIL</title>", "<div><xmp></div>EVIL</xmp>",
        "<title></head>EVIL</title>", "<title></html>EVIL</title>", "<textarea></body></html>EVIL</textarea>",
        "<p><textarea></p>EVIL</textarea>",
        "<textarea/>EVIL</textarea>", "<title/>EVIL</title>", "<script/>EVIL</script>", "<xmp/>EVIL</xmp>",
        "<template/>EVIL</template>",
        "<textarea></textareas>EVIL</textarea >", "<TEXTAREA>EVIL</TextArea\n>",
        "<script><!-- <script> </script>EVIL--></script>", "<script><!--></script>",
        "<script>'<!--'</script><script>'<script>'</script>",
        "<!-- EVIL -->", "<!-- > EVIL -- ->EVIL--!>",
        "<!-->", "<!--->",
        "<![CDATA[ EVIL", "</ EVIL", "<?EVIL", "<!EVIL", "<a title='>EVIL'>", "<a title=\">EVIL\">",
        "<textarea><script>x</script></textarea>", "<svg/><script>'</svg>EVIL'</script>",
        "<svg><blockquote></blockquote><script>'</svg>EVIL'</script>", "<svg /><math/>",
        "<title><style>a</style></title>", "<textarea><script>x</script></textarea><noscript>EVIL</noscript>",
    ])
    func ignoresFormsThatABrowserDoesNotDisplay(_ start: String) {
        // A bogus comment ends at the first ">".
        let isCut = ["<![CDATA[ EVIL", "</ EVIL", "<?EVIL", "<!EVIL"].contains(start)
        let evil = isCut ? "<form action=/evil>" : Self.evil
        let text = start.replacing("EVIL", with: evil) + "<form action=/good><input name=x></form>"
        let page = HTMLReader.page(Array(text.utf8))
        #expect(page.base == nil)
        #expect(page.forms.map(\.action) == ["/good"])
        #expect(page.forms.first?.fields.map(\.name) == ["x"])
    }

    /// After each of these fragments, only a full DOM tree would show which forms, if any, the page contains.
    @Test(arguments: [
        "<svg>EVIL</svg>", "<math>EVIL</math>", "<select>EVIL</select>", "<svg><desc><p></svg></p></desc>EVIL</svg>",
        "<plaintext>EVIL</plaintext>",
        "EVIL<frameset>", "<svg><title><frameset></title></svg>EVIL", "<math><mtext></form></math>EVIL",
        "<svg></p><script>'</svg>EVIL'</script>", "<svg><font color=x><title></svg>EVIL</title>",
        "<div><svg></div><script>'</svg>EVIL'</script>", "<template><svg><![CDATA[>]</template>EVIL]]>",
        "<svg><template><p><title></template><div>EVIL</title>", "<form><svg><desc><p></svg>EVIL",
        "<fieldset disabled><table><tr><td></fieldset>EVIL", "<div><svg></div><textarea><div>EVIL</textarea>",
        "<div><svg></div><style><div>EVIL</style>",
        "<div><svg></div><select>EVIL</select>",
    ])
    func findsNoFormsInPagesThatRequireFullTreeConstruction(_ start: String) {
        let text = start.replacing("EVIL", with: Self.evil) + "<form action=/good><input name=x></form>"
        #expect(HTMLReader.page(Array(text.utf8)).forms.isEmpty)
    }

    @Test func parsesFormsAroundSVGMathMLAndOptionLists() {
        let text = """
            <form action=/a><svg viewBox=0><title>Logo</title><desc>x</desc><path d=1 /><g><circle/></g></svg><input name=1>
            <select name=2><option value=a selected>A<optgroup><option>B</select><math><mi>x</mi></math><button name=3><svg><style>a { }</style><title>no</title>
            </svg>Go</button></form><form action=/b><input name=4></form>
            """
        let page = HTMLReader.page(Array(text.utf8))
        #expect(page.forms.map { $0.fields.map(\.name) } == [["1", "2", "3"], ["4"]])
        #expect(page.forms.first?.buttons.first?.label.contains("no") == false && page.title.isEmpty)
    }

    @Test(arguments: [
        ("<select name=x><option>A<option value=b>B</select>", ["A"]),
        ("<select name=x><option disabled>A<option>  B\n c&nbsp;</select>", ["B c\u{A0}"]),
        ("<select name=x><option>A<option value=b selected>B<option selected>C</option>D</select>", ["C"]),
        ("<select name=x><option value='' selected disabled>Choose<option>B</select>", []),
        ("<select name=x><optgroup disabled><option>A</optgroup><option>B</select>", ["B"]),
        ("<select name=x><optgroup disabled><option>A<optgroup><option>B</select>", ["B"]),
        ("<select name=x><optgroup disabled><option>A<hr><option>B</select>", ["B"]),
        ("<select name=x multiple><option selected>A<option>B<option selected>C</select>", ["A", "C"]),
        ("<select name=x multiple><option>A</select>", []), ("<select name=x size=' +2x'><option>A</select>", []),
        ("<select name=x size=1><option>A</select>", ["A"]), ("<select name=x size=-2><option>A</select>", ["A"]),
        ("<select name=x><option>A</optgroup>B</select>", ["AB"]), ("<select name=x><option>A\0B</select>", ["AB"]),
        ("<select name=x></select>", []), ("<select name=x disabled><option>A</select>", []),
        ("<select name=x><option>A<input name=y>", ["A"]), ("<select name=x><option>A<select>B", ["A"]),
        ("<select name=x value=z><option>A</select>", ["A"]),
    ])
    func submitsTheOptionsThatABrowserSelects(_ select: String, _ values: [String]) throws {
        let form = try #require(HTMLReader.page(Array("<form>\(select)</form>".utf8)).forms.first)
        #expect(form.parameters(pressing: nil).pairs.filter { $0.name == "x" }.map(\.value) == values)
    }

    @Test(arguments: [
        ("<input type=hidden name=x value='a\nb'>", "a\r\nb"),
        ("<input type=hidden name=x value='a\r\nb\r'>", "a\r\nb\r\n"),
        ("<input type=hidden name=x value='a&#13;b&#13;&#10;&#10;'>", "a\r\nb\r\n\r\n"),
        ("<textarea name=x>\na\n</textarea>", "a\r\n"), ("<select name=x><option value='a\nb'>A</select>", "a\r\nb"),
    ])
    func submitsEachLineBreakAsCRLF(_ field: String, _ value: String) throws {
        let form = try #require(HTMLReader.page(Array("<form>\(field)</form>".utf8)).forms.first)
        #expect(form.parameters(pressing: nil)["x"].map { Array($0.utf8) } == Array(value.utf8))
    }

    @Test func submitsOnlyTheLastCheckedButtonOfARadioGroup() throws {
        let text = """
            <form><input type=radio name=x value=1 checked><input type=radio name=x value=2 checked><input type=radio name=x value=3>
            <input type=radio name=y value=4 checked><input type=radio name=z value=5><input type=checkbox name=x value=6 checked></form>
            """
        let form = try #require(HTMLReader.page(Array(text.utf8)).forms.first)
        #expect(form.parameters(pressing: nil).pairs.map { "\($0.name)=\($0.value)" } == ["x=2", "y=4", "x=6"])
    }

    /// The HTML Standard, section 4.10.22.3: the method `dialog` closes the dialog and sends nothing.
    @Test func theDialogFormMethodSubmitsNothing() throws {
        let text = """
            <form method=dialog><input type=password name=p><button>OK</button></form>
            <form method=dialog><button name=a>Close</button><button name=b formmethod=post>Send</button></form>
            <form method=post><button name=a formmethod=dialog>Close</button><button name=b>Send</button></form>
            <form method=post><input type=password name=p><button formmethod=dialog>OK</button></form>
            <form method=post><input type=password name=p></form>
            """
        let forms = HTMLReader.page(Array(text.utf8)).forms
        #expect(forms.map(\.isSubmitted) == [false, true, true, false, true])
        #expect(forms.map { $0.buttons.map(\.name) } == [[], ["b"], ["b"], [], []])
    }

    /// The HTML Standard, section 4.10.17.3: the `form` attribute takes precedence; otherwise, tag order decides.
    @Test func associatesFieldsWithFormsLikeABrowser() {
        let text = """
            <form id=a action=/a><input name=e form="e\u{301}"><p id="\u{E9}"></p><input name=1><input name=2 form=b><input name=3 form=none><input name=4 form></form>
            <input name=5><input name=6 form=a><p id=c><form id=c></form><form id=b action=/b><div><input name=7></div>
            <form action=/c><input name=8></form><input name=9 form=c>
            <form action=/x id=""><input name=0 form=""></form>
            <form action=/d><fieldset disabled><input name=10></fieldset><input name=11><textarea name=12>
            x&amp;y</textarea><button formaction=/e formmethod=POST name=13>Go</button>
            """
        let page = HTMLReader.page(Array(text.utf8))
        #expect(page.forms.map(\.action) == ["/a", "", "/b", "/x", "/d"])
        #expect(
            page.forms.map { $0.fields.map(\.name) } == [["1", "6"], [], ["2", "7", "8"], [], ["11", "12", "13"]]
        )
        #expect(page.forms.last?.fields.map(\.value) == ["", "x&y", ""])
        #expect(page.forms.last?.buttons.first?.method == "post" && page.forms.last?.buttons.first?.action == "/e")
    }

    @Test(arguments: [
        ("a&amp;b", "a&b"), ("?a=1&copy=2&lt=3&amp;not=4", "?a=1&copy=2&lt=3&not=4"),
        ("&#x41;&#66;&#0;&#xD800;&#128;", "AB\u{FFFD}\u{FFFD}€"),
        ("&eacute;&EACUTE;&sol;&colon;&apos;", "é&EACUTE;/:'"), ("&#;&#x;&;&", "&#;&#x;&;&"),
        ("&copy &nbsp;x", "© \u{A0}x"),
        ("&ensp;&#99999999999;", "\u{2002}\u{FFFD}"),
        ("&lbrace;&quot;x&quot;&colon;&lsqb;1&rsqb;&rcub;&NewLine;&Tab;", "{\"x\":[1]}\n\t"),
        ("&lang;&vert;&grave;&Hat;&rang;", "\u{27E8}|`^\u{27E9}"), ("&lstrok;&Rcaron;&shchcy;", "łŘщ"),
        ("&gacute;&imped;&jmath;&filig;&ffllig;", "\u{1F5}\u{1B5}\u{237}\u{FB01}\u{FB04}"),
    ])
    func decodesCharacterReferencesInAttributeValues(_ written: String, _ value: String) {
        let page = HTMLReader.page(Array("<form><input name=x value=\"\(written)\">".utf8))
        #expect(page.forms.first?.fields.first?.value == value)
    }

    @Test(arguments: [
        ("<input name=x name=y /value='1'VALUE=2 type = HIDDEN>", "x", "1", "hidden"),
        ("<input name=x/>", "x/", "", "text"),
        ("<input/name=x value==1>", "x", "=1", "text"), ("<input name='a\nb' value=\"'\">", "a\nb", "'", "text"),
        ("<input name=x value=>", "x", "", "text"),
        ("<input name='a\r\nb\rc' type=chec\u{212A}box>", "a\nb\nc", "", "text"),
        ("<INPUT\tNAME=x\u{C}value=a\"b>", "x", "a\"b", "text"),
    ])
    func readsAttributesAsABrowserWould(_ tag: String, _ name: String, _ value: String, _ type: String) throws {
        let field = try #require(HTMLReader.page(Array("<form>\(tag)".utf8)).forms.first?.fields.first)
        #expect(field.name == name && field.value == value && field.type == type)
    }

    @Test func fieldsOfNestedFormsAreNotDuplicated() throws {
        let page =
            (HTMLReader.page(
                Array("<form action=/a><input name=x><div><form action=/b><input name=y></form></div></form>".utf8)
            ))
        #expect(page.forms.flatMap(\.fields).map(\.name) == ["x", "y"])
        #expect(page.forms.first?.action == "/a")
    }

    @Test func theContentOfATemplateDoesNotEndAForm() {
        let text = "<form action=/a><template></form></template><input name=x></form>"
        #expect(HTMLReader.page(Array(text.utf8)).forms.map { $0.fields.map(\.name) } == [["x"]])
    }

    @Test func extractsTheVisibleTextOfAPage() throws {
        let page =
            (HTMLReader.page(
                Array(
                    "<p>Hello<!-- no --> wor<b>ld</b><template>no</template><noscript>no <form><button>x</button></form></noscript> &amp; more"
                        .utf8
                )
            ))
        #expect(page.text == "Hello wor ld & more")
        #expect(page.forms.isEmpty)
    }

    /// Comparing text with many combining marks takes quadratic time.
    @Test(arguments: [
        "<title>%</title>", "<p>%</p>", "<form><button>%</button>", "<form><textarea name=x>%</textarea>",
        "<form><input name=x value='%'>", "<form><select name=x><option>%</select>",
        "<form><select name=x><option selected>%</option></select>",
    ])
    func ignoresTextWithExcessiveCombiningMarks(_ form: String) {
        func texts(_ part: String) -> [String] {
            let page = HTMLReader.page(Array(form.replacing("%", with: part).utf8))
            return [page.title, page.text] + page.forms.flatMap(\.fields).flatMap { [$0.label, $0.value] }
        }
        let marks = String(repeating: "\u{301}\u{323}", count: 500)
        let references = String(repeating: "&#x301;&#x323;", count: 500)
        #expect(texts("e\(marks)").allSatisfy { $0.isEmpty })
        #expect(texts("e\(references)").allSatisfy { $0.isEmpty })
        #expect(texts("e\u{301}\u{323}").contains { $0.unicodeScalars.count == 3 })
    }

    @Test func ignoresAnOptionWhosePartsTogetherHaveExcessiveCombiningMarks() {
        let text = "<form><select name=x><option>e" + String(repeating: "\u{301}\u{323}<!---->", count: 500)
        #expect(HTMLReader.page(Array(text.utf8)).forms.first?.fields.map(\.value) == [""])
    }
}
