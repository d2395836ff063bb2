import AuthFlowTesting
import ConformanceRows
import Foundation

/// Runs all rows of the conformance table over sockets and prints the result as Markdown.
@main enum Main {
    static func main() async {
        var tables = ""
        var passed = 0
        var failed = 0
        var notApplicable = 0
        for section in ConformanceTable.sections {
            tables += "\n## \(section.title)\n\n| row | test | required behavior | result |\n|---|---|---|---|\n"
            for row in section.rows {
                let result: String
                switch row.check {
                case .notApplicable(let reason):
                    notApplicable += 1
                    result = "not applicable: \(reason)"
                case .trial(let trial):
                    do {
                        try await trial(.sockets)
                        passed += 1
                        result = "pass"
                    } catch {
                        failed += 1
                        result = "**FAIL**: \(error)"
                    }
                }
                tables += "| \(row.number) | \(row.name) | \(row.demand) | \(result) |\n"
            }
        }
        print(
            """
            # Conformance

            This page lists the requirements of the OpenID Foundation's suite for a client (rows 1 to 131, by test
            name) and its checks of every request (I); of MCP's authorization and transport (M, by the names of its
            conformance suite's scenarios); of RFC 10017 and Back-Channel Logout for web applications (W, L); of RFC
            6750, 7662, 8705, 9068, 9449, 9470 and 9728 for APIs (A); of FAPI 2.0 for clients (F); and AuthFlow's additional requirements (O).
            Rows 126 to 131 are about the device grant, which the Foundation's suite does not cover. Every row runs through the public API
            against the emulator: in process and over sockets in `make test`, and over sockets here. A row also fails
            if the emulator receives a request other than a revocation after a manipulated message.

            This page is written by `make conformance`, and CI compares it with the command's output. It is our
            interpretation of those tests: AuthFlow has not been certified by the Foundation.

            **\(passed) pass, \(failed) fail, \(notApplicable) not applicable.**
            \(tables)
            """,
            terminator: ""
        )
        exit(failed == 0 ? 0 : 1)
    }
}
