import AuthFlow
import AuthFlowJSON
import Testing

@testable import AuthFlowConfiguration

@Suite struct ConfigurationKeyTests {
    enum Colour: String, CaseIterable, Sendable { case red, green }

    static let name = ConfigurationKey("name", required: .text, "Its name.")
    static let port = ConfigurationKey("port", .number(1...65535), default: 443, "Its port.")
    static let pause = ConfigurationKey("pause", .seconds(0...60), default: .seconds(5), "The pause.")
    static let colour = ConfigurationKey("colour", ConfigurationValue<Colour>.choice, default: .green, "Its colour.")
    static let isOpen = ConfigurationKey("open", .flag, "Whether it is open.")
    static let tags = ConfigurationKey("tags", .oneOrMore(.text), default: ["none"], "Its tags.")
    static let home = ConfigurationKey("home", .url, "Its home.")
    static let folder = ConfigurationKey("folder", .path, "Its folder.")
    static let word = ConfigurationKey("word", .secret, "The secret word.")
    static let labels = ConfigurationKey(
        "labels",
        .map(.parsed { text throws(AuthError) in try number(text) }) { name throws(AuthError) in
            guard name != "x" else { throw AuthError(.invalidConfiguration, "x is not a label") }
        },
        default: [:],
        "Its labels."
    )
    static let size = ConfigurationKey(
        "size",
        ConfigurationValue<Int>.either(
            .parsed { text throws(AuthError) in try number(text) },
            .object([ConfigurationKeyTests.width]) { object throws(ConfigurationError) in try object[width] }
        ),
        "Its size."
    )
    static let width = ConfigurationKey("width", required: .number(1...9), "Its width.")
    static let all: [any AnyConfigurationKey] = [
        name, port, pause, colour, isOpen, tags, home, folder, word, labels, size,
    ]

    static func number(_ text: String) throws(AuthError) -> Int {
        guard let number = Int(text) else { throw AuthError(.invalidConfiguration, "this is not a number") }
        return number
    }

    private func object(_ text: String) throws -> ConfigurationObject {
        let bytes = Array(text.utf8)
        let source = ConfigurationSource(file: "file.json", directory: "/folder", text: bytes)
        let json = try JSON(parsing: bytes)
        var checker = ConfigurationChecker(source: source)
        checker.check(json, .object(Self.all.map(\.declaration)), at: JSONPath())
        guard checker.issues.isEmpty else { throw ConfigurationError(issues: checker.issues) }
        return ConfigurationObject(
            ConfigurationNode(json: json, path: JSONPath(), source: source, environment: ["WORD": "hush"])
        )
    }

    @Test func readsValuesAsTheirTypes() throws {
        let object = try object(
            #"""
            {"name": "n", "port": 8443, "pause": 7, "colour": "red", "open": false, "tags": "one", "home":
            "https://id.example.com", "folder": "sub", "word": {"env": "WORD"}, "labels": {"a": "1"}, "size": {"width": 3}}
            """#
        )
        #expect(try object[Self.name] == "n")
        #expect(try object[Self.port] == 8443)
        #expect(try object[Self.pause] == .seconds(7))
        #expect(try object[Self.colour] == .red)
        #expect(try object[Self.isOpen] == false)
        #expect(try object[Self.tags] == ["one"])
        #expect(try object[Self.home]?.host == "id.example.com")
        #expect(try object[Self.folder] == "/folder/sub")
        #expect(try object[Self.word]?.exposed == "hush")
        #expect(try object[Self.labels] == ["a": 1])
        #expect(try object[Self.size] == 3)
    }

    /// JSON Schema considers these to be integers, too.
    @Test("An integer may be written with a fraction or an exponent", arguments: ["8443.0", "8.443e3"])
    func acceptsAnIntegerInAnyNotation(_ number: String) throws {
        let object = try object("{\"name\": \"n\", \"port\": \(number), \"pause\": 7.0}")
        #expect(try object[Self.port] == 8443)
        #expect(try object[Self.pause] == .seconds(7))
    }

    @Test func usesTheDefaultValueOfAnAbsentKey() throws {
        let object = try object(#"{"name": "n"}"#)
        #expect(try object[Self.port] == 443)
        #expect(try object[Self.pause] == .seconds(5))
        #expect(try object[Self.colour] == .green)
        #expect(try object[Self.isOpen] == nil)
        #expect(try object[Self.tags] == ["none"])
        #expect(try object[Self.size] == nil)
        #expect(throws: ConfigurationError.self) { try object[Self.width] }
    }

    @Test func theDeclarationContainsTheDefaultValue() {
        #expect(Self.port.declaration.defaultValue == 443)
        #expect(Self.pause.declaration.defaultValue == 5)
        #expect(Self.colour.declaration.defaultValue == "green")
        #expect(Self.tags.declaration.defaultValue == "none")
        #expect(Self.isOpen.declaration.defaultValue == nil)
    }

    struct Wrong: CustomTestStringConvertible {
        let member: String
        let path: String
        let words: String
        var testDescription: String { member }
    }

    @Test(arguments: [
        Wrong(member: #""port": 0"#, path: "port", words: "from 1 to 65535"),
        Wrong(member: #""port": "443""#, path: "port", words: "whole number"),
        Wrong(member: #""port": 443.5"#, path: "port", words: "from 1 to 65535, found 443.5"),
        Wrong(member: #""port": 1e300"#, path: "port", words: "from 1 to 65535, found 1e+300"),
        Wrong(member: #""colour": "gren""#, path: "colour", words: #"Did you mean "green"?"#),
        Wrong(member: #""colour": 5"#, path: "colour", words: #"expected "red" or "green", found a number"#),
        Wrong(member: #""open": 1"#, path: "open", words: "true or false"),
        Wrong(member: #""tags": []"#, path: "tags", words: "at least one"),
        Wrong(member: #""tags": ["a", ""]"#, path: "tags[1]", words: "is empty"),
        Wrong(member: #""home": "http://example.com""#, path: "home", words: "https"),
        Wrong(member: #""home": """#, path: "home", words: "is empty"),
        Wrong(member: #""home": 5"#, path: "home", words: "a URL"),
        Wrong(member: #""word": "hush""#, path: "word", words: "must not be written"),
        Wrong(member: #""labels": {"a": "b"}"#, path: "labels.a", words: "not a number"),
        Wrong(member: #""labels": {"x": "1"}"#, path: "labels.x", words: "not a label"),
        Wrong(member: #""size": "b""#, path: "size", words: "not a number"),
        Wrong(member: #""size": {"width": 10}"#, path: "size.width", words: "from 1 to 9"),
        Wrong(member: #""size": {}"#, path: "size", words: #""width" is missing"#),
        Wrong(member: #""siz": 1"#, path: "siz", words: #"Did you mean "size"?"#),
    ]) func reportsAnInvalidValueWithItsKeyPath(_ wrong: Wrong) throws {
        let error = #expect(throws: ConfigurationError.self) { try object("{\"name\": \"n\", \(wrong.member)}") }
        #expect(error?.issues.count == 1)
        #expect(error?.issues.first?.keyPath == wrong.path)
        #expect(error?.issues.first?.problem.contains(wrong.words) == true, "\(error?.description ?? "")")
    }
}
