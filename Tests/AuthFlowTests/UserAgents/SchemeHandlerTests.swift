import AuthFlow
import Foundation
import Testing

/// What can go wrong before the desktop is asked. The desktop itself is asked in `Tests/Interop/browser.sh`.
@Suite struct SchemeHandlerTests {
    @Test(arguments: [
        ("myapp", "/usr/bin/authflow"), ("com.example.App", "/usr/bin/authflow"),
        ("com.exam\nple", "/usr/bin/authflow"),
        ("com.example;x", "/usr/bin/authflow"), ("1com.example", "/usr/bin/authflow"), ("../x.y", "/usr/bin/authflow"),
        ("com.example.app", "authflow"), ("com.example.app", "/opt/my tools/authflow"),
        ("com.example.app", "/opt/a\"b"), ("com.example.app", "/opt/$(id)"), ("com.example.app", "/opt/a\nExec=x"),
        ("com.example.app", "/opt/%u"),
    ]) func refuses(_ scheme: String, _ program: String) throws {
        let home = FileManager.default.temporaryDirectory.appendingPathComponent(UUID().uuidString).path
        let handler = SchemeHandler(scheme: scheme, environment: ["HOME": home, "PATH": "/nowhere"])
        let error = #expect(throws: AuthError.self) { try handler.install(program: program) }
        #expect(error?.code == .invalidConfiguration)
        #expect(!FileManager.default.fileExists(atPath: home))
    }
}
