import AuthFlow
import Foundation
import Testing

@Suite struct HTTPDateTests {
    private static let now = Date(timeIntervalSince1970: 1_800_000_000)  // 2027

    @Test(arguments: [
        ("Sun, 06 Nov 1994 08:49:37 GMT", 784_111_777), ("Thu, 01 Jan 1970 00:00:00 GMT", 0),
        ("Thu, 29 Feb 2024 23:59:59 GMT", 1_709_251_199), ("Fri, 31 Dec 2100 12:00:00 GMT", 4_133_937_600),
        ("Sat, 01 Mar 2200 00:00:00 GMT", 7_263_216_000),
    ]) func parsesAndFormatsHTTPDates(_ text: String, _ seconds: Int) {
        let date = Date(timeIntervalSince1970: Double(seconds))
        #expect(HTTPDate.date(text, now: Self.now) == date)
        #expect(HTTPDate.text(date) == text)
    }

    @Test(arguments: [
        ("Sunday, 06-Nov-94 08:49:37 GMT", "Sun, 06 Nov 1994 08:49:37 GMT"),
        ("Sun Nov  6 08:49:37 1994", "Sun, 06 Nov 1994 08:49:37 GMT"),
        ("Wed Nov 16 08:49:37 1994", "Wed, 16 Nov 1994 08:49:37 GMT"),
        ("Friday, 01-Jan-77 00:00:00 GMT", "Fri, 01 Jan 2077 00:00:00 GMT"),
        ("Sunday, 01-Jan-78 00:00:00 GMT", "Sun, 01 Jan 1978 00:00:00 GMT"),
    ]) func parsesObsoleteHTTPDateFormats(_ text: String, _ current: String) throws {
        #expect(HTTPDate.text(try #require(HTTPDate.date(text, now: Self.now))) == current)
    }

    @Test func writesHTTPDatesAsFoundationDoes() {
        let format = DateFormatter()
        format.locale = Locale(identifier: "en_US_POSIX")
        format.timeZone = TimeZone(identifier: "GMT")
        format.dateFormat = "EEE, dd MMM yyyy HH:mm:ss 'GMT'"
        for day in stride(from: 0, to: 60_000, by: 37) {
            let date = Date(timeIntervalSince1970: Double(day * 86400 + day))
            #expect(HTTPDate.text(date) == format.string(from: date))
            #expect(HTTPDate.date(HTTPDate.text(date), now: Self.now) == date)
        }
    }

    @Test(arguments: [
        "", "Sun, 06 Nov 1994 08:49:37", "Sun, 31 Feb 1994 08:49:37 GMT", "Sun, 06 Nov 1994 24:00:00 GMT",
        "Sun, 6 Nov 1994 08:49:37 GMT", "Sun, 06 nov 1994 08:49:37 GMT", "Sun, 06 Nov 94 08:49:37 GMT",
        "Sun, 06 Nov 1994 08:49 GMT", "Sun, 06 Nov 1994 -8:49:37 GMT", "Sun, 06 Nov 1994 08:49:37 UTC",
        "Thu, 29 Feb 2100 00:00:00 GMT", "Sun, 06-Nov-94 08:49:37 GMT", "Sunday, 06-Nov-1994 08:49:37 GMT",
        "Sunday, 06-Nov-94 08:49:37", "Sun Nov 6 08:49:37 1994", "Sun Nov  16 08:49:37 1994",
        "Sun Nov 06 08:49:37 94", "Sun Nov  6 08:49:37 1994 GMT", "Sun Nov  6  08:49:37",
        "Sunday, 06-Nov 08:49:37 GMT", "Sunday, 06-Nov-94-1 08:49:37 GMT", "Sun, 00 Nov 1994 08:49:37 GMT",
        "Sun, 06 Nov 1994 +8:49:37 GMT", "Sun, 06 Nov 1994 08:60:37 GMT", "Sun, 06 Nov 1994 08:49:61 GMT",
        "Mon, 06 Nov 1600 08:49:37 GMT",
    ]) func rejectsInvalidHTTPDates(_ text: String) {
        #expect(HTTPDate.date(text, now: Self.now) == nil)
    }

    @Test(arguments: [0, 13]) func rejectsAMonthThatDoesNotExist(_ month: Int) {
        #expect(HTTPDate.date(year: 1994, month: month, day: 6, hour: 8, minute: 49, second: 37) == nil)
    }
}
