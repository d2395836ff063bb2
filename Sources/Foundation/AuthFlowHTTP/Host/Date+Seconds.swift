package import AuthFlowEssentials

extension Date {
    /// A date from a number in a stored record, a token or a response, limited to the years 1 to 9999, because converting
    /// a later date to an integer or to text terminates the process.
    package init(secondsSince1970 seconds: Double) {
        self.init(timeIntervalSince1970: min(max(seconds, -62_135_596_800), 253_402_300_799))
    }
}
