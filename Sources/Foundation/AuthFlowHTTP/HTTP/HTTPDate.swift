package import AuthFlowEssentials

/// A date in HTTP fields (RFC 9110 section 5.6.7), in the current format (IMF-fixdate):
/// `Sun, 06 Nov 1994 08:49:37 GMT`.
package enum HTTPDate {
    private static let months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]

    /// Parses a date; nil for anything else.
    package static func date(_ text: String) -> Date? {
        let parts = text.utf8.split(separator: UInt8(ascii: " "), omittingEmptySubsequences: false).map {
            String($0) ?? ""
        }
        guard parts.count == 6, parts[0].hasSuffix(","), parts[5] == "GMT",
            let day = number(parts[1], digits: 2), let month = months.firstIndex(of: parts[2]),
            let year = number(parts[3], digits: 4)
        else { return nil }
        let clock = parts[4].utf8.split(separator: UInt8(ascii: ":"), omittingEmptySubsequences: false)
            .map { number(String($0) ?? "", digits: 2) }
        guard clock.count == 3, let hour = clock[0], let minute = clock[1], let second = clock[2] else { return nil }
        return date(year: year, month: month + 1, day: day, hour: hour, minute: minute, second: second)
    }

    /// Formats a date.
    package static func text(_ date: Date) -> String {
        let seconds = Int(date.timeIntervalSince1970.rounded(.down))
        let days = seconds / 86400
        var (year, month) = (1970 + days / 366, 1)
        while self.days(before: year + 1, 1) <= days { year += 1 }
        while month < 12, self.days(before: year, month + 1) <= days { month += 1 }
        let weekday = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"][days % 7]
        let clock = [seconds / 3600 % 24, seconds / 60 % 60, seconds % 60].map(twoDigits).joined(separator: ":")
        let day = twoDigits(days - self.days(before: year, month) + 1)
        return "\(weekday), \(day) \(months[month - 1]) \(year) \(clock) GMT"
    }

    private static func twoDigits(_ number: Int) -> String { number < 10 ? "0\(number)" : "\(number)" }

    /// A Gregorian date in GMT; nil when the day or time does not exist.
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

    /// The number of days from 1 January 1970 to the first day of a month.
    private static func days(before year: Int, _ month: Int) -> Int {
        let isLeapYear = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
        let lengths = [31, isLeapYear ? 29 : 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]
        let past = year - 1
        let leapDays = past / 4 - past / 100 + past / 400 - (1969 / 4 - 1969 / 100 + 1969 / 400)
        return (year - 1970) * 365 + leapDays + lengths.prefix(month - 1).reduce(0, +)
    }

    private static func number(_ text: String, digits: Int) -> Int? {
        guard text.utf8.count == digits, text.utf8.allSatisfy({ (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) })
        else { return nil }
        return Int(text)
    }
}
