import AuthFlow
import CommandHarness
import Testing

@Suite struct ShellWordTests {
    @Test(arguments: [
        ("/home/a/file", "/home/a/file"), ("x';touch PWNED;'", "x';touch PWNED;'"), ("it's a\"$HOME", "it's a\"$HOME"),
        ("$(id)", "$(id)"), ("`id`", "`id`"), ("a\\", "a\\"), ("-rf", "./-rf"), ("a\nb\u{1B}", "a b "), ("*", "*"),
        ("", ""), ("x'\u{301};id;'\u{301}", "x'\u{301};id;'\u{301}"), ("~root", "./~root"),
    ])
    func aShellReadsAPastedPathAsOneWord(_ path: String, _ word: String) async throws {
        let script = "printf '%s' \(ShellWord.path(path))"
        #expect(try await CommandHarness.run(["-c", script], program: "/bin/sh").output == word)
    }

    @Test(arguments: ["~", "~root/x", "=ls", "a~b=c", ""]) func aShellExpandsNoWord(_ word: String) async throws {
        let script = "printf '%s' \(ShellWord.quoted(word))"
        #expect(try await CommandHarness.run(["-c", script], program: "/bin/sh").output == word)
        #expect(ShellWord.quoted("=ls") == "'=ls'")
        // Bash also expands a tilde after "=" and ":".
        #expect(ShellWord.quoted("a=~root") == "'a=~root'")
    }
}
