import AuthFlow
import Foundation
import Testing

@Suite struct ShellWordTests {
    @Test(arguments: [
        ("/home/a/file", "/home/a/file"), ("x';touch PWNED;'", "x';touch PWNED;'"), ("it's a\"$HOME", "it's a\"$HOME"),
        ("$(id)", "$(id)"), ("`id`", "`id`"), ("a\\", "a\\"), ("-rf", "./-rf"), ("a\nb\u{1B}", "a b "), ("*", "*"),
        ("", ""), ("x'\u{301};id;'\u{301}", "x'\u{301};id;'\u{301}"), ("~root", "./~root"),
    ])
    func aShellReadsAPastedPathAsOneWord(_ path: String, _ word: String) throws {
        let shell = Process()
        shell.executableURL = URL(fileURLWithPath: "/bin/sh")
        shell.arguments = ["-c", "printf '%s' \(ShellWord.path(path))"]
        let output = Pipe()
        shell.standardOutput = output
        try shell.run()
        let data = output.fileHandleForReading.readDataToEndOfFile()
        shell.waitUntilExit()
        #expect(String(decoding: data, as: UTF8.self) == word)
    }
}
