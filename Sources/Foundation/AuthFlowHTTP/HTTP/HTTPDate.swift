package import AuthFlowEssentials
import AuthFlowJSON

/// A date in HTTP fields (RFC 9110 section 5.6.7).
package enum HTTPDate {
    private static let months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
    private static let weekdays = [
        "Thursday", "Friday", "Saturday", "Sunday", "Monday", "Tuesday", "Wednesday",
    ]

    /// Parses a date; returns nil if the text is not a valid HTTP-date.
    ///
    /// "A recipient that parses a timestamp value in an HTTP field MUST accept all three HTTP-date formats":
    /// `Sun, 06 Nov 1994 08:49:37 GMT`, `Sunday, 06-Nov-94 08:49:37 GMT` and `Sun Nov  6 08:49:37 1994`.
    package static func date(_ text: String, now: Date) -> Date? {
        let parts = fields(text, " ")
        let calendar: (day: Int?, month: String, year: Int?, clock: String)
        switch parts.count {
        case 6 where parts[0].hasSuffix(",") && parts[5] == "GMT":
            calendar = (number(parts[1], digits: 2), parts[2], number(parts[3], digits: 4), parts[4])
        case 4 where weekdays.contains { parts[0] == "\($0)," } && parts[3] == "GMT":
            let date = fields(parts[1], "-")
            guard date.count == 3, let year = number(date[2], digits: 2) else { return nil }
            calendar = (number(date[0], digits: 2), date[1], self.year(year, now: now), parts[2])
        // A single-digit day is padded with a second space.
        case 5: calendar = (number(parts[2], digits: 2), parts[1], number(parts[4], digits: 4), parts[3])
        case 6 where parts[2].isEmpty:
            calendar = (number(parts[3], digits: 1), parts[1], number(parts[5], digits: 4), parts[4])
        default: return nil
        }
        let clock = fields(calendar.clock, ":").map { number($0, digits: 2) }
        guard let day = calendar.day, let month = months.firstIndex(of: calendar.month), let year = calendar.year,
            clock.count == 3, let hour = clock[0], let minute = clock[1], let second = clock[2]
        else { return nil }
        return date(year: year, month: month + 1, day: day, hour: hour, minute: minute, second: second)
    }

    private static func fields(_ text: String, _ separator: Unicode.Scalar) -> [String] {
        text.utf8.split(separator: UInt8(ascii: separator), omittingEmptySubsequences: false).map { String($0) ?? "" }
    }

    /// Expands a two-digit year: a recipient "MUST interpret a timestamp that appears to be more than 50 years in the
    /// future as representing the most recent year in the past that had the same last two digits".
    private static func year(_ digits: Int, now: Date) -> Int {
        let present = self.year(ofDay: Int((now.timeIntervalSince1970 / 86400).rounded(.down)))
        let year = present - present % 100 + digits
        return year > present + 50 ? year - 100 : year
    }

    /// Formats a date.
    package static func text(_ date: Date) -> String {
        let seconds = Int(date.timeIntervalSince1970.rounded(.down))
        let days = seconds / 86400
        let year = self.year(ofDay: days)
        var month = 1
        while month < 12, self.days(before: year, month + 1) <= days { month += 1 }
        let weekday = weekdays[days % 7].prefix(3)
        let clock = [seconds / 3600 % 24, seconds / 60 % 60, seconds % 60].map(twoDigits).joined(separator: ":")
        let day = twoDigits(days - self.days(before: year, month) + 1)
        return "\(weekday), \(day) \(months[month - 1]) \(year) \(clock) GMT"
    }

    /// The year of a day, given as the number of days since January 1, 1970.
    private static func year(ofDay days: Int) -> Int {
        var year = 1970 + days / 366
        while self.days(before: year + 1, 1) <= days { year += 1 }
        return year
    }

    private static func twoDigits(_ number: Int) -> String { number < 10 ? "0\(number)" : "\(number)" }

    /// A Gregorian date in GMT; nil when the day or time does not exist, or the year is not between 1601 and 9999.
    package static func date(year: Int, month: Int, day: Int, hour: Int, minute: Int, second: Int) -> Date? {
        // A leap second counts as the first second of the next minute.
        guard (1...12).contains(month), (1...31).contains(day), (0..<24).contains(hour), (0..<60).contains(minute),
            (0...60).contains(second), (1601...9999).contains(year)
        else { return nil }
        let days = self.days(before: year, month) + day - 1
        let next = month == 12 ? self.days(before: year + 1, 1) : self.days(before: year, month + 1)
        guard days < next else { return nil }
        return Date(timeIntervalSince1970: Double(days * 86400 + hour * 3600 + minute * 60 + second))
    }

    /// The number of days from January 1, 1970, to the first day of a month.
    private static func days(before year: Int, _ month: Int) -> Int {
        let isLeapYear = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
        let lengths = [31, isLeapYear ? 29 : 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]
        let past = year - 1
        let leapDays = past / 4 - past / 100 + past / 400 - (1969 / 4 - 1969 / 100 + 1969 / 400)
        return (year - 1970) * 365 + leapDays + lengths.prefix(month - 1).reduce(0, +)
    }

    private static func number(_ text: String, digits: Int) -> Int? {
        text.utf8.count == digits && text.utf8.allSatisfy(\.isDigit) ? Int(text) : nil
    }
}
