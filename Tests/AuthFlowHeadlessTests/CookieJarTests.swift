import AuthFlow
import Foundation
import Testing

@testable import AuthFlowHeadless

/// RFC 6265, case by case, including the cases that Foundation handles incorrectly on Linux.
@Suite struct CookieJarTests {
    private let now = Date(timeIntervalSince1970: 1_800_000_000)

    private func field(_ setCookie: String, from: String, to: String, after seconds: TimeInterval = 0) throws -> String?
    {
        var jar = CookieJar()
        jar.store(setCookie, from: try Endpoint(from), now: now)
        return jar.field(for: try Endpoint(to), now: now + seconds)
    }

    struct CookieCase: CustomTestStringConvertible {
        let cookie: String
        let from: String
        let to: String
        var testDescription: String { cookie }
    }

    static let sent: [CookieCase] = [
        CookieCase(cookie: "a=1", from: "https://id.example.com/am/json", to: "https://id.example.com/am/x"),
        CookieCase(cookie: "a=1; Path=/", from: "https://id.example.com/am/json", to: "https://id.example.com/"),
        CookieCase(cookie: "a=1; Domain=example.com", from: "https://id.example.com/", to: "https://example.com/"),
        CookieCase(
            cookie: "a=1; Domain=.EXAMPLE.com",
            from: "https://id.example.com/",
            to: "https://other.example.com/"
        ),
        CookieCase(cookie: "a=1; Path=/am", from: "https://id.example.com/", to: "https://id.example.com/am"),
        CookieCase(cookie: "a=1; Path=/am", from: "https://id.example.com/", to: "https://id.example.com/am/x"),
        CookieCase(
            cookie: "a=1; Secure; HttpOnly; SameSite=none",
            from: "https://id.example.com/",
            to: "https://id.example.com/"
        ),
        CookieCase(
            cookie: "a=1; Max-Age=3600; Expires=Thu, 01 Jan 1970 00:00:00 GMT",
            from: "https://id.example.com/",
            to: "https://id.example.com/"
        ),
        CookieCase(
            cookie: "a=1; Expires=Fri, 15-Jan-2100 08:00:00 GMT",
            from: "https://id.example.com/",
            to: "https://id.example.com/"
        ),
        CookieCase(
            cookie: "__Host-a=1; Secure; Path=/",
            from: "https://id.example.com/",
            to: "https://id.example.com/"
        ),
        // Accepted, as in browsers, because development providers set `Secure` cookies over http on loopback.
        CookieCase(cookie: "a=1; Secure; SameSite=None", from: "http://127.0.0.1/", to: "http://127.0.0.1/"),
        CookieCase(cookie: "a=1; Secure", from: "http://localhost/", to: "http://localhost/"),
        CookieCase(cookie: "a=1; Secure", from: "http://[::1]/", to: "http://[::1]/"),
        CookieCase(cookie: "  a  =  1  ;Path=/", from: "https://id.example.com/", to: "https://id.example.com/"),
    ]

    @Test(arguments: sent) func sendsMatchingCookies(_ test: CookieCase) throws {
        #expect(try field(test.cookie, from: test.from, to: test.to)?.hasSuffix("a=1") == true)
    }

    static let withheld: [CookieCase] = [
        CookieCase(cookie: "a=1", from: "https://id.example.com/", to: "https://other.example.com/"),
        CookieCase(cookie: "a=1", from: "https://example.com/", to: "https://id.example.com/"),
        CookieCase(cookie: "a=1", from: "https://id.example.com/am/json", to: "https://id.example.com/other"),
        CookieCase(cookie: "a=1; Path=/am", from: "https://id.example.com/", to: "https://id.example.com/amx"),
        CookieCase(cookie: "a=1; Path=/am", from: "https://id.example.com/", to: "https://id.example.com/"),
        CookieCase(cookie: "a=1; Domain=other.test", from: "https://id.example.com/", to: "https://other.test/"),
        CookieCase(cookie: "a=1; Domain=example.com", from: "https://evilexample.com/", to: "https://example.com/"),
        CookieCase(cookie: "a=1; Domain=com", from: "https://example.com/", to: "https://other.com/"),
        CookieCase(cookie: "a=1; Domain=0.0.1", from: "http://127.0.0.1/", to: "http://127.0.0.1/"),
        CookieCase(cookie: "a=1; Max-Age=0", from: "https://id.example.com/", to: "https://id.example.com/"),
        CookieCase(cookie: "a=1; Max-Age=-5", from: "https://id.example.com/", to: "https://id.example.com/"),
        CookieCase(
            cookie: "a=1; Expires=Thu, 01 Jan 1970 00:00:00 GMT",
            from: "https://id.example.com/",
            to: "https://id.example.com/"
        ),
        CookieCase(cookie: "__Secure-a=1", from: "https://id.example.com/", to: "https://id.example.com/"),
        CookieCase(
            cookie: "__Host-a=1; Secure; Path=/; Domain=id.example.com",
            from: "https://id.example.com/",
            to: "https://id.example.com/"
        ),
        CookieCase(
            cookie: "__Host-a=1; Secure; Path=/x",
            from: "https://id.example.com/",
            to: "https://id.example.com/x"
        ),
        CookieCase(cookie: "=1", from: "https://id.example.com/", to: "https://id.example.com/"),
        CookieCase(cookie: "novalue", from: "https://id.example.com/", to: "https://id.example.com/"),
        CookieCase(cookie: "a=1\u{0}; Path=/", from: "https://id.example.com/", to: "https://id.example.com/"),
    ]

    @Test(arguments: withheld) func doesNotSendExpiredInvalidOrNonmatchingCookies(_ test: CookieCase) throws {
        #expect(try field(test.cookie, from: test.from, to: test.to) == nil)
    }

    @Test func expiresCookiesAfterMaxAge() throws {
        #expect(try field("a=1; Max-Age=60", from: "https://a.test/", to: "https://a.test/", after: 59) == "a=1")
        #expect(try field("a=1; Max-Age=60", from: "https://a.test/", to: "https://a.test/", after: 60) == nil)
    }

    @Test(arguments: ["+0", "--1", "-", "1.5", "0x0", "\u{661}", ""])
    func ignoresAMaxAgeThatIsNotANumberOfSeconds(_ age: String) throws {
        #expect(try field("a=1; Max-Age=\(age)", from: "https://a.test/", to: "https://a.test/", after: 1e9) == "a=1")
    }

    @Test func clampsAMaxAgeThatIsTooLong() throws {
        let (long, endpoint) = (String(repeating: "9", count: 400), "https://a.test/")
        #expect(try field("a=1; Max-Age=\(long)", from: endpoint, to: endpoint, after: 399 * 86_400) == "a=1")
        #expect(try field("a=1; Max-Age=\(long)", from: endpoint, to: endpoint, after: 401 * 86_400) == nil)
        #expect(try field("a=1; Max-Age=-\(long)", from: endpoint, to: endpoint) == nil)
    }

    @Test func replacesAndRemovesCookies() throws {
        let endpoint = Endpoint("https://a.test/")
        var jar = CookieJar()
        jar.store("a=1; Path=/", from: endpoint, now: now)
        jar.store("a=2; Path=/", from: endpoint, now: now)
        #expect(jar.field(for: endpoint, now: now) == "a=2")
        // The default path of a cookie from the root is also "/".
        jar.store("a=3", from: endpoint, now: now)
        #expect(jar.field(for: endpoint, now: now) == "a=3")
        jar.store("a=; Path=/; Expires=Thu, 01 Jan 1970 00:00:00 GMT", from: endpoint, now: now)
        #expect(jar.cookies.isEmpty)
    }

    @Test func sendsCookiesWithLongerPathsFirst() throws {
        var jar = CookieJar()
        let endpoint = Endpoint("https://a.test/x/y")
        jar.store("a=1; Path=/", from: endpoint, now: now)
        jar.store("b=2; Path=/x/y", from: endpoint, now: now)
        #expect(jar.field(for: endpoint, now: now) == "b=2; a=1")
    }

    /// Of two cookies with the same name, many servers read only the first.
    @Test func aReplacedCookieKeepsItsPlaceAmongCookiesWithPathsOfTheSameLength() throws {
        var jar = CookieJar()
        let endpoint = Endpoint("https://id.example.com/")
        jar.store("session=host", from: endpoint, now: now)
        jar.store("session=domain; Domain=example.com", from: endpoint, now: now)
        jar.store("session=renewed", from: endpoint, now: now + 1)
        #expect(jar.field(for: endpoint, now: now + 1) == "session=renewed; session=domain")
    }

    @Test func limitsTheNumberOfStoredCookies() throws {
        var jar = CookieJar()
        let endpoint = Endpoint("https://a.test/")
        for index in 0..<1000 { jar.store("c\(index)=1", from: endpoint, now: now) }
        #expect(jar.cookies.count == 300)
    }

    /// The last labels of an IP address are not a domain that several hosts share.
    @Test(arguments: [
        ("https://id.example.com", "https://login.example.com", true),
        ("https://example.com", "https://example.net", false),
        ("http://localhost", "https://localhost", false), ("https://a.co.uk", "https://b.co.uk", false),
        ("http://localhost:1", "http://localhost:2", true), ("https://192.0.2.7", "https://198.51.2.7", false),
        ("https://[::ffff:192.0.2.1]", "https://[::ffff:198.0.2.1]", false),
    ])
    func onlyHostsOfOneRegistrableDomainAreSameSite(_ left: String, _ right: String, _ isSameSite: Bool) throws {
        #expect(try RequestContext.isSameSite(Endpoint(left), Endpoint(right)) == isSameSite)
    }

    @Test(
        arguments: [
            ("Wed, 21 Oct 2026 07:28:00 GMT", 1_792_567_680), ("Wednesday, 21-Oct-26 07:28:00 GMT", 1_792_567_680),
            ("Wed Oct 21 07:28:00 2026", 1_792_567_680), ("Thu, 01-Jan-1970 00:00:00 GMT", 0),
            ("Thu, 01 Jan 1970 0:0:0GMT", 0), ("21st Oct 2026AD 07:28:00.000Z", 1_792_567_680),
        ] as [(String, Double)]
    ) func parsesCookieDatesInEveryFormat(_ text: String, _ seconds: Double) {
        #expect(CookieDate.parse(text)?.timeIntervalSince1970 == seconds)
    }

    @Test(arguments: [
        "", "tomorrow", "Wed, 32 Oct 2026 07:28:00 GMT", "21 Oct 2026", "21 Oct 2026 25:00:00", "21 Oct 2026 07:28:60",
        "21 Oct 2026 07x:28:00", "21 Oct 2026 07:28", "21 Oct 20260 07:28:00",
    ])
    func rejectsInvalidCookieDates(_ text: String) {
        #expect(CookieDate.parse(text) == nil)
    }
}
