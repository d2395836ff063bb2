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

    /// The stored files that contain a text.
    private func files(_ run: Run, containing text: String) throws -> Set<String> {
        let folder = "\(run.folder)/data/authflow"
        let paths = try FileManager.default.contentsOfDirectory(atPath: folder).map { "\(folder)/\($0)" }
        return Set(paths.filter { (try? String(contentsOfFile: $0, encoding: .utf8))?.contains(text) == true })
    }

    private func damage(_ paths: Set<String>) throws {
        try #require(!paths.isEmpty)
        for path in paths { try Data("{".utf8).write(to: URL(fileURLWithPath: path)) }
    }

    /// The file of the current registration, which has a second file under its client ID. A renewal replaces the latter.
    private func currentFile(_ emulator: ProtectedResourceEmulator, _ run: Run) async throws -> String {
        let before = try files(run, containing: "redirect_uris")
        #expect(try await run(["register", "renew", emulator.resource]).status == 9)
        let common = before.intersection(try files(run, containing: "redirect_uris"))
        #expect(try await run(["login", emulator.resource]).status == 0)
        try #require(common.count == 1, "\(common)")
        return try #require(common.first)
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
            let text = try await run(["register", "show", emulator.resource])
            #expect(text.output.contains(emulator.origin) && text.output.contains("redirects to"))
            #expect(!text.standardError.contains("Warning"), "\(text.standardError)")
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

    @Test(arguments: [(500, 7), (403, 1), (429, 7)] as [(Int, Int32)])
    func keepsARegistrationThatTheServerDoesNotDelete(_ status: Int, _ exitStatus: Int32) async throws {
        try await withSignedInResource { emulator, run in
            let clientID = try await registrations(run).first?["client_id"]
            emulator.settings.deletionStatus = status
            let failed = try await run(["register", "remove", emulator.resource])
            #expect(failed.status == exitStatus, "\(failed.standardError)")
            #expect(failed.standardError.contains("use --local"), "\(failed.standardError)")
            #expect(failed.standardError.contains("(status \(status))"), "\(failed.standardError)")
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
            // The server has no revocation endpoint.
            #expect(
                renewed.status == 9 && renewed.standardError.contains("may remain valid"),
                "\(renewed.standardError)"
            )
            #expect(
                renewed.standardError.contains("run: authflow login \(emulator.resource)"),
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

    @Test func mcpStatusReportsADamagedCredential() async throws {
        try await withSignedInResource { emulator, run in
            try damage(try files(run, containing: "\"access_token\""))
            let status = try await run(["mcp", "status"])
            let state = "cannot be read; for details, run: authflow status \(emulator.resource)"
            let expected = "\(emulator.resource)  \(state)\n"
            #expect(status.status == 0 && status.output == expected, "\(status.output)\(status.standardError)")
            let json = try await run(["mcp", "status", "--json"]).output
            let entry = try JSON(parsing: Array(json.utf8)).array?.first
            #expect(entry?["error"] == "credential_unusable" && entry?["login_required"] == true)
            let file = URL(fileURLWithPath: "\(run.folder)/-settings.json")
            try Data(#"{"resource_client": {}}"#.utf8).write(to: file)
            let configured = try await run(["mcp", "status", "--config=-settings.json"]).output
            #expect(configured.hasSuffix("run: authflow status --config=-settings.json \(emulator.resource)\n"))
            #expect(try await run(["status", emulator.resource]).standardError.contains("is damaged"))
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

    @Test func aReadableRegistrationIsDeletedEvenIfTheCurrentRegistrationIsDamaged() async throws {
        try await withSignedInResource { emulator, run in
            try damage([try await currentFile(emulator, run)])
            let removed = try await run(["register", "remove", emulator.resource])
            #expect(removed.status == 9, "\(removed.standardError)")
            #expect(removed.standardError.contains("was removed at \(emulator.origin)"), "\(removed.standardError)")
            // The renewal has deleted the first registration.
            #expect(deletions(emulator) == 2)
            #expect(try await registrations(run).isEmpty)
        }
    }

    @Test func anEarlierRegistrationThatCannotBeReadIsNotReportedAsMissing() async throws {
        try await withSignedInResource { emulator, run in
            try FileManager.default.removeItem(atPath: try await currentFile(emulator, run))
            for path in try files(run, containing: "redirect_uris") {
                try FileManager.default.setAttributes([.posixPermissions: 0o644], ofItemAtPath: path)
            }
            let removed = try await run(["register", "remove", emulator.resource])
            #expect(removed.status == 8 && removed.standardError.contains("chmod 600"), "\(removed.standardError)")
        }
    }

    /// After a restore from a backup, other users may be able to read the current registration and the copy under its client ID.
    @Test func registrationsThatCannotBeReadAreRemovedFromThisMachine() async throws {
        try await withSignedInResource { emulator, run in
            for path in try files(run, containing: "redirect_uris") {
                try FileManager.default.setAttributes([.posixPermissions: 0o644], ofItemAtPath: path)
            }
            #expect(try await run(["register", "show", "--json"]).status == 8)
            let removed = try await run(["register", "remove", emulator.resource, "--local"])
            #expect(removed.status == 0, "\(removed.standardError)")
            #expect(removed.standardError.contains("could not be read, and was removed"), "\(removed.standardError)")
            #expect(try files(run, containing: "redirect_uris").isEmpty)
        }
    }

    @Test func doesNotReportASignOutIfThereAreNoTokens() async throws {
        try await withSignedInResource { emulator, run in
            for path in try files(run, containing: #""access_token""#) {
                try FileManager.default.removeItem(atPath: path)
            }
            let removed = try await run(["register", "remove", emulator.resource])
            #expect(removed.status == 0 && deletions(emulator) == 1, "\(removed.standardError)")
            #expect(!removed.standardError.contains("Signed out of"), "\(removed.standardError)")
        }
    }

    @Test func aDamagedListOfRegistrationsIsNotReportedAsEmpty() async throws {
        try await withSignedInResource { emulator, run in
            try damage(try files(run, containing: "\(emulator.origin) \(emulator.origin)"))
            let shown = try await run(["register", "show"])
            #expect(shown.status == 0 && shown.standardError.contains("may be incomplete"), "\(shown.standardError)")
            let removed = try await run(["register", "remove", emulator.resource])
            #expect(removed.status == 8 && removed.standardError.contains("may remain"), "\(removed.standardError)")
            // The file determines the store, and with it the list.
            let path = "\(run.folder)/empty.json"
            try Data(#"{"resource_client": {}}"#.utf8).write(to: URL(fileURLWithPath: path))
            let configured = try await run(["register", "remove", emulator.resource, "--config", path])
            let command = "run: authflow login \(emulator.resource) --config \(path)\n"
            #expect(configured.standardError.hasSuffix(command), "\(configured.standardError)")
        }
    }

    /// A server can issue tokens for resources of several origins.
    @Test func theRemovalOfADamagedRegistrationDoesNotAffectResourcesOfOtherOrigins() async throws {
        try await CommandHarness.withResource { emulator, run async throws in
            #expect(try await run(["login", emulator.resource]).status == 0)
            try damage(try files(run, containing: "redirect_uris"))
            try await EmulatorServer.run { origin -> ProtectedResourceEmulator in
                var settings = ResourceSettings()
                settings.authorizationServer = emulator.origin
                return ProtectedResourceEmulator(origin: origin, settings: settings)
            } _: { other in
                let login = try await run(["login", other.resource])
                #expect(login.status == 0, "\(login.standardError)")
                let removed = try await run(["register", "remove", emulator.resource, "--local"])
                #expect(
                    removed.status == 0 && removed.standardError.contains("could not be read, and was removed"),
                    "\(removed.standardError)"
                )
                #expect(try await run(["token", emulator.resource]).status == 4)
                #expect(try await run(["token", other.resource]).status == 0)
            }
        }
    }

    /// The URL without a path selects every registration for the origin, even if it is also the URL of a resource.
    @Test func aDamagedRegistrationStopsTheRemovalByOrigin() async throws {
        var settings = ResourceSettings()
        settings.deletesRegistrations = true
        settings.endpoint = "/"
        try await withSignedInResource(settings) { emulator, run in
            try damage([try await currentFile(emulator, run)])
            let failed = try await run(["register", "remove", emulator.origin])
            #expect(failed.status == 8 && failed.standardError.contains("is damaged"), "\(failed.standardError)")
        }
    }
}
