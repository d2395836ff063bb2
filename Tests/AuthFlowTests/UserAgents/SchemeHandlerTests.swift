import AuthFlow
import Foundation
import Testing

@testable import AuthFlowDesktop

/// The requests to the desktop and the changes to its files. Here, the desktop is a script that records its
/// arguments; `Tests/Interop/desktop.sh` uses a real desktop.
@Suite struct SchemeHandlerTests {
    @Test(arguments: [
        ("myapp", "/usr/bin/authflow"), ("com.example.App", "/usr/bin/authflow"),
        ("com.exam\nple", "/usr/bin/authflow"),
        ("com.example;x", "/usr/bin/authflow"), ("1com.example", "/usr/bin/authflow"), ("../x.y", "/usr/bin/authflow"),
        ("com.example.app", "authflow"), ("com.example.app", "/opt/my tools/authflow"),
        ("com.example.app", "/opt/a\"b"), ("com.example.app", "/opt/$(id)"), ("com.example.app", "/opt/a\nExec=x"),
        ("com.example.app", "/opt/%u"),
    ]) func rejectsInvalidSchemesAndPrograms(_ scheme: String, _ program: String) throws {
        let home = FileManager.default.temporaryDirectory.appendingPathComponent(UUID().uuidString).path
        let handler = SchemeHandler(scheme: scheme, environment: ["HOME": home, "PATH": "/nowhere"])
        let error = #expect(throws: AuthError.self) { try handler.install(program: program) }
        #expect(error?.code == .invalidConfiguration)
        #expect(!FileManager.default.fileExists(atPath: home))
    }

    #if os(Linux)
    private static let scheme = "com.example.app"
    private static let entry = "authflow-com.example.app.desktop"

    /// A home directory with a fake `xdg-mime`, which stores the default in a file, or else ignores changes
    /// ("stubborn") or fails ("broken").
    private func withDesktop(_ body: (_ home: String, _ handler: SchemeHandler) throws -> Void) throws {
        let home = FileManager.default.temporaryDirectory.appendingPathComponent(UUID().uuidString).path
        try FileManager.default.createDirectory(atPath: "\(home)/bin", withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(atPath: home) }
        let script = """
            #!/bin/sh
            [ -e "$HOME/broken" ] && exit 4
            if [ "$1" = query ]; then cat "$HOME/default" 2>/dev/null; exit 0; fi
            [ -e "$HOME/stubborn" ] || echo "$2" >"$HOME/default"

            """
        try Data(script.utf8).write(to: URL(fileURLWithPath: "\(home)/bin/xdg-mime"))
        try FileManager.default.setAttributes([.posixPermissions: 0o755], ofItemAtPath: "\(home)/bin/xdg-mime")
        let environment = ["HOME": home, "PATH": "\(home)/bin:/usr/bin:/bin"]
        try body(home, SchemeHandler(scheme: Self.scheme, environment: environment))
    }

    private func write(_ text: String, _ path: String) throws {
        try Data(text.utf8).write(to: URL(fileURLWithPath: path))
    }

    @Test func installsAndRemovesTheDesktopEntry() throws {
        try withDesktop { home, handler in
            #expect(!handler.isInstalled)
            try handler.install(program: "/usr/bin/authflow")
            #expect(handler.isInstalled)
            #expect(handler.program == "/usr/bin/authflow")
            let text = try String(contentsOfFile: handler.entryPath, encoding: .utf8)
            #expect(text.contains("\nExec=/usr/bin/authflow handle-redirect %u\n"))
            #expect(text.contains("\nMimeType=x-scheme-handler/com.example.app;\n"))
            // The handler is installed again, as after an update.
            try handler.install(program: "/opt/authflow")
            #expect(handler.program == "/opt/authflow")
            #expect(try handler.remove())
            #expect(!handler.hasEntry)
            #expect(try !handler.remove())
        }
    }

    @Test func leavesOtherAssociationsAlone() throws {
        try withDesktop { home, handler in
            let list = "\(home)/.config/mimeapps.list"
            try FileManager.default.createDirectory(atPath: "\(home)/.config", withIntermediateDirectories: true)
            try FileManager.default.createDirectory(
                atPath: "\(home)/.local/share/applications",
                withIntermediateDirectories: true
            )
            try write(
                """
                [Default Applications]
                x-scheme-handler/com.example.app=\(Self.entry);other.desktop;
                x-scheme-handler/com.example.app2=\(Self.entry)
                text/html=firefox.desktop

                """,
                list
            )
            #expect(try !handler.remove())
            let left = try String(contentsOfFile: list, encoding: .utf8)
            #expect(left.contains("x-scheme-handler/com.example.app=other.desktop;\n"))
            #expect(left.contains("x-scheme-handler/com.example.app2=\(Self.entry)\ntext/html=firefox.desktop\n"))
            // A file without an AuthFlow entry for this scheme is not even written.
            let before = try FileManager.default.attributesOfItem(atPath: list)[.systemFileNumber] as? Int
            _ = try handler.remove()
            #expect(try FileManager.default.attributesOfItem(atPath: list)[.systemFileNumber] as? Int == before)
        }
    }

    /// A user may have replaced the list with a symbolic link, which writing the list would replace with a file.
    @Test func doesNotWriteAListThatContainsOnlyAnotherProgramForTheScheme() throws {
        try withDesktop { home, handler in
            let list = "\(home)/.local/share/applications/mimeapps.list"
            try FileManager.default.createDirectory(
                atPath: "\(home)/.local/share/applications",
                withIntermediateDirectories: true
            )
            try write("[Default Applications]\nx-scheme-handler/com.example.app=other.desktop\n", "\(home)/mine.list")
            try FileManager.default.createSymbolicLink(atPath: list, withDestinationPath: "\(home)/mine.list")
            #expect(try !handler.remove())
            #expect(try FileManager.default.destinationOfSymbolicLink(atPath: list) == "\(home)/mine.list")
        }
    }

    @Test func replacesAnotherProgramsSchemeHandlerOnlyOnRequest() throws {
        try withDesktop { home, handler in
            try write("other.desktop\n", "\(home)/default")
            let error = #expect(throws: AuthError.self) { try handler.install(program: "/usr/bin/authflow") }
            #expect(error?.message.contains("other.desktop") == true)
            #expect(!handler.hasEntry)
            try handler.install(program: "/usr/bin/authflow", replacing: true)
            #expect(handler.isInstalled)
        }
    }

    @Test(arguments: [
        ("stubborn", "The desktop's handler for com.example.app: URLs is still not set"),
        ("broken", "exited with status 4"),
    ])
    func reportsThatTheDesktopDidNotRegisterTheScheme(_ fault: String, _ message: String) throws {
        try withDesktop { home, handler in
            try write("", "\(home)/\(fault)")
            let error = #expect(throws: AuthError.self) { try handler.install(program: "/usr/bin/authflow") }
            #expect(error?.code == .userAgentFailed)
            #expect(error?.message.contains(message) == true, "\(error?.message ?? "")")
            // A sign-in considers the scheme registered if there is an entry.
            #expect(!handler.hasEntry)
        }
    }
    #endif
}
