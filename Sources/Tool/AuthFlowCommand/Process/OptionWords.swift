/// The words of an option on a command line that is suggested to the user.
enum OptionWords {
    /// - Parameters:
    ///   - name: The option, such as `--profile`.
    ///   - value: Its value; nil if the option is not used.
    static func of(_ name: String, _ value: String?) -> [String] {
        guard let value else { return [] }
        // As a separate word, the value would be parsed as another option.
        return value.hasPrefix("-") ? ["\(name)=\(value)"] : [name, value]
    }
}
