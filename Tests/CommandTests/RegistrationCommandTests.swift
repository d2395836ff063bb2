import AuthFlow
import AuthFlowJSON
import AuthFlowTesting
import CommandHarness
import Foundation
import Testing

/// `authflow register show`, `renew` and `remove`, with a server that can delete registrations (RFC 7592).
@Suite struct RegistrationCommandTests {
    private typealias Run = CommandHarness.ResourceCommands

    /// A resource to which the user has signed in with a client that was registered for it.
    private func withSignedInResource(
        _ settings: ResourceSettings? = nil,
        _ body: @Sendable (_ emulator: ProtectedResourceEmulator, _ run: Run) async throws -> Void
    ) async throws {
        var deleting = ResourceSettings()
        deleting.deletesRegistrations = true
        try await CommandHarness.withResource(settings ?? deleting) { emulator, run async throws in
            let login = try await run(["login", emulator.resource])
            try #require(login.status == 0, "\(login.standardError)")
            try await body(emulator, run)
            #expect(emulator.violations.isEmpty, "\(emulator.violations)")
        }
    }

    private func registrations(_ run: Run) async throws -> [JSON] {
        let shown = try await run(["register", "show", "--json"])
        #expect(shown.status == 0, "\(shown.standardError)")
        return try #require(try JSON(parsing: Array(shown.output.utf8)).array)
    }

    private func deletions(_ emulator: ProtectedResourceEmulator) -> Int {
        emulator.requests.count { $0.hasPrefix("DELETE /register/") }
    }

    @Test func showsRegistrationsWithoutRequestsAndSecrets() async throws {
        var settings = ResourceSettings()
        settings.deletesRegistrations = true
        settings.authenticationMethods = ["client_secret_basic"]
        try await withSignedInResource(settings) { emulator, run in
            let before = emulator.requests.count
            let shown = try #require(try await registrations(run).first)
            #expect(shown["issuer"]?.string == emulator.origin)
            #expect(shown["client_id"]?.string?.hasPrefix("client-") == true)
            #expect(shown["redirect_uris"]?.strings?.allSatisfy { $0.hasPrefix("http://127.0.0.1:") } == true)
            let expected: Set = [
                "issuer", "client_id", "redirect_uris", "scopes", "registered_at", "secret_expires_at",
            ]
            #expect(Set(try #require(shown.object).keys) == expected)
            let text = try await run(["register", "show", emulator.resource]).output
            #expect(text.contains(emulator.origin) && text.contains("redirects to"))
            #expect(emulator.requests.count == before)
        }
    }

    @Test func removesARegistrationAtTheServerAndSignsOut() async throws {
        try await withSignedInResource { emulator, run in
            let removed = try await run(["register", "remove", emulator.resource])
            // The server has no revocation endpoint.
            #expect(
                removed.status == 9 && removed.standardError.contains("may remain valid"),
                "\(removed.standardError)"
            )
            #expect(removed.standardError.contains("Signed out of \(emulator.resource)"), "\(removed.standardError)")
            #expect(removed.standardError.contains("was removed at \(emulator.origin)"), "\(removed.standardError)")
            #expect(deletions(emulator) == 1)
            #expect(try await registrations(run).isEmpty)
            #expect(try await run(["token", emulator.resource]).status == 4)
            let again = try await run(["register", "remove", emulator.resource])
            #expect(again.status == 0 && again.standardError.contains("There is no such registration"))
            #expect(deletions(emulator) == 1)
        }
    }

    @Test func removesARegistrationFromThisMachineOnly() async throws {
        try await withSignedInResource { emulator, run in
            let removed = try await run(["register", "remove", emulator.origin, "--local"])
            #expect(removed.status == 0, "\(removed.standardError)")
            #expect(deletions(emulator) == 0)
            #expect(try await registrations(run).isEmpty)
            #expect(try await run(["token", emulator.resource]).status == 4)
        }
    }

    @Test(arguments: [500, 403, 429])
    func keepsARegistrationThatTheServerDoesNotDelete(_ status: Int) async throws {
        try await withSignedInResource { emulator, run in
            let clientID = try await registrations(run).first?["client_id"]
            emulator.settings.deletionStatus = status
            let failed = try await run(["register", "remove", emulator.resource])
            #expect(failed.status > 0 && failed.standardError.contains("use --local"), "\(failed.standardError)")
            #expect(try await registrations(run).map { $0["client_id"] } == [clientID])
            // The next attempt deletes the registration.
            emulator.settings.deletionStatus = nil
            let removed = try await run(["register", "remove", emulator.resource])
            #expect(removed.status == 0, "\(removed.standardError)")
            #expect(deletions(emulator) == 2)
            #expect(try await registrations(run).isEmpty)
        }
    }

    /// RFC 7592 section 2.3: the response to the deletion of a client that does not exist has status 401.
    @Test func removesARegistrationThatTheServerHasAlreadyDeleted() async throws {
        try await withSignedInResource { emulator, run in
            emulator.removeClients()
            let removed = try await run(["register", "remove", emulator.resource])
            #expect(removed.standardError.contains("was probably removed there"), "\(removed.standardError)")
            #expect(try await registrations(run).isEmpty)
        }
    }

    @Test func reportsThatAServerDoesNotSupportDeletion() async throws {
        try await withSignedInResource(ResourceSettings()) { emulator, run in
            let removed = try await run(["register", "remove", emulator.resource])
            #expect(removed.standardError.contains("may remain at \(emulator.origin)"), "\(removed.standardError)")
            #expect(deletions(emulator) == 0)
            #expect(try await registrations(run).isEmpty)
        }
    }

    @Test func renewsARegistration() async throws {
        try await withSignedInResource { emulator, run in
            let old = try #require(try await registrations(run).first?["client_id"]?.string)
            let renewed = try await run(["register", "renew", emulator.resource])
            #expect(
                renewed.standardError.contains("Run: authflow login \(emulator.resource)"),
                "\(renewed.standardError)"
            )
            #expect(emulator.registrations == 2 && deletions(emulator) == 1)
            let new = try #require(try await registrations(run).first?["client_id"]?.string)
            #expect(new != old && renewed.standardError.contains(new))
            #expect(try await run(["token", emulator.resource]).status == 4)
            #expect(try await run(["login", emulator.resource]).status == 0)
            #expect(emulator.registrations == 2)
        }
    }

    @Test func aDamagedRegistrationCanBeRemovedFromThisMachine() async throws {
        try await withSignedInResource { emulator, run in
            let files = FileManager.default.enumerator(atPath: "\(run.folder)/data")?.compactMap { $0 as? String } ?? []
            let damaged = files.map { "\(run.folder)/data/\($0)" }.filter {
                (try? String(contentsOfFile: $0, encoding: .utf8))?.contains("registration_access_token") == true
            }
            try #require(!damaged.isEmpty, "\(damaged)")
            for path in damaged { try Data("{".utf8).write(to: URL(fileURLWithPath: path)) }
            let shown = try await run(["register", "show"])
            #expect(shown.standardError.contains("is damaged"), "\(shown.standardError)")
            let failed = try await run(["register", "remove", emulator.resource])
            let command = "authflow register remove \(emulator.origin) --local"
            #expect(failed.status > 0 && failed.standardError.contains(command), "\(failed.standardError)")
            let removed = try await run(["register", "remove", emulator.resource, "--local"])
            #expect(removed.status == 0, "\(removed.standardError)")
            #expect(removed.standardError.contains("could not be read, and was removed"), "\(removed.standardError)")
            #expect(try await registrations(run).isEmpty)
            #expect(try await run(["login", emulator.resource]).status == 0)
        }
    }
}
