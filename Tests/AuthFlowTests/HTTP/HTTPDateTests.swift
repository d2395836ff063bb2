import AuthFlow
import Foundation
import Testing

@Suite struct HTTPDateTests {
    @Test(arguments: [
        ("Sun, 06 Nov 1994 08:49:37 GMT", 784_111_777), ("Thu, 01 Jan 1970 00:00:00 GMT", 0),
        ("Thu, 29 Feb 2024 23:59:59 GMT", 1_709_251_199), ("Fri, 31 Dec 2100 12:00:00 GMT", 4_133_937_600),
        ("Sat, 01 Mar 2200 00:00:00 GMT", 7_263_216_000),
    ]) func readsAndWritesHTTPDates(_ text: String, _ seconds: Int) {
        let date = Date(timeIntervalSince1970: Double(seconds))
        #expect(HTTPDate.date(text) == date)
        #expect(HTTPDate.text(date) == text)
    }

    @Test func writesHTTPDatesAsFoundationDoes() {
        let format = DateFormatter()
        format.locale = Locale(identifier: "en_US_POSIX")
        format.timeZone = TimeZone(identifier: "GMT")
        format.dateFormat = "EEE, dd MMM yyyy HH:mm:ss 'GMT'"
        for day in stride(from: 0, to: 60_000, by: 37) {
            let date = Date(timeIntervalSince1970: Double(day * 86400 + day))
            #expect(HTTPDate.text(date) == format.string(from: date))
            #expect(HTTPDate.date(HTTPDate.text(date)) == date)
        }
    }

    @Test(arguments: [
        "", "Sun, 06 Nov 1994 08:49:37", "Sun, 31 Feb 1994 08:49:37 GMT", "Sun, 06 Nov 1994 24:00:00 GMT",
        "Sun, 6 Nov 1994 08:49:37 GMT", "Sun, 06 nov 1994 08:49:37 GMT", "Sun, 06 Nov 94 08:49:37 GMT",
        "Sun, 06 Nov 1994 08:49 GMT", "Sun, 06 Nov 1994 -8:49:37 GMT", "Sun, 06 Nov 1994 08:49:37 UTC",
        "Thu, 29 Feb 2100 00:00:00 GMT",
    ]) func refusesInvalidHTTPDates(_ text: String) {
        #expect(HTTPDate.date(text) == nil)
    }
}
