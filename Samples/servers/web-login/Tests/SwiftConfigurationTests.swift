import AuthFlow
import AuthFlowOIDC
import AuthFlowServerConfiguration
import AuthFlowSwiftConfiguration
import Configuration
import Foundation
import Testing

/// A web application that is configured with swift-configuration.
@Suite struct SwiftConfigurationTests {
    private static let variables = [
        "AUTH_PROFILES_STAFF_PROVIDER": "oidc",
        "AUTH_PROFILES_STAFF_ISSUER": "https://login.example.com",
        "AUTH_PROFILES_STAFF_CLIENT_ID": "web",
        "AUTH_PROFILES_STAFF_CLIENT_SECRET": "a secret of some length",
        "AUTH_PROFILES_STAFF_REDIRECT_URI": "https://app.example.com/callback",
        "AUTH_PROFILES_STAFF_SCOPES": "openid,profile",
        "AUTH_PROFILES_STAFF_STORE": "memory",
        "AUTH_SERVER_APPLICATION_NAME": "Orders",
        "AUTH_SERVER_IDLE_TIME": "600",
        "AUTH_SERVER_PERSISTENT": "true",
        "AUTH_SERVER_TAG_KEYS": "the first key of the tags,the second key of the tags",
    ]

    private static func file(_ changes: [String: String?] = [:]) async throws -> ConfigurationFile {
        let provider = EnvironmentVariablesProvider(
            environmentVariables: variables.merging(changes.mapValues { $0 ?? "" }) { $1 }.filter { !$0.value.isEmpty }
        )
        return try await ConfigurationFile(
            reader: ConfigReader(provider: provider).scoped(to: "auth"),
            profiles: ["staff"],
            providers: [.oidc],
            server: SessionServer.configurationKeys
        )
    }

    @Test func environmentVariablesConfigureASessionServer() async throws {
        let file = try await Self.file()
        #expect(file.profileNames == ["staff"])
        var found: SessionServerOptions?
        _ = try SessionServer(configuration: file, providers: [.oidc]) { options in found = options }
        let options = try #require(found)
        #expect(options.origin == "https://app.example.com")
        #expect(options.pages.applicationName == "Orders")
        #expect(options.idleTime == .seconds(600))
        #expect(options.isPersistent)
        #expect(options.tagKeys.map(\.exposed) == ["the first key of the tags", "the second key of the tags"])
        #expect(options.lifetime == .seconds(43_200))
    }

    @Test func readsAClientSecretFromAFile() async throws {
        let path = FileManager.default.temporaryDirectory.appending(path: UUID().uuidString).path
        try Data("a secret of a file\n".utf8).write(to: URL(filePath: path))
        defer { try? FileManager.default.removeItem(atPath: path) }
        let file = try await Self.file([
            "AUTH_PROFILES_STAFF_CLIENT_SECRET": nil, "AUTH_PROFILES_STAFF_CLIENT_SECRET_FILE": path,
        ])
        _ = try SessionServer(configuration: file, providers: [.oidc])
    }

    @Test(arguments: [
        ("AUTH_PROFILES_STAFF_CLIENT_ID", nil, "profiles.staff"),
        ("AUTH_PROFILES_STAFF_ISSUER", "login.example.com", "profiles.staff.issuer"),
        ("AUTH_SERVER_IDLE_TIME", "1", "server.idle_time"),
        ("AUTH_PROFILES_STAFF_CLIENT_SECRET", nil, "confidential"),
    ]) func aConfigurationErrorIdentifiesTheInvalidSetting(_ name: String, _ value: String?, _ place: String)
        async throws
    {
        let file = try await Self.file([name: value])
        let error = #expect(throws: ConfigurationError.self) {
            try SessionServer(configuration: file, providers: [.oidc])
        }
        let text = "\(try #require(error))"
        #expect(text.contains(place))
        #expect(text.hasPrefix("configuration: "))
    }

    @Test(arguments: [
        ("both forms of a value", ["AUTH_PROFILES_STAFF_CLIENT_SECRET_FILE": "/run/secrets/client"]),
        ("an empty secret", ["AUTH_PROFILES_STAFF_CLIENT_SECRET": " ", "AUTH_SERVER_TAG_KEYS": ","]),
        ("two stores", ["AUTH_PROFILES_STAFF_STORE_NAME": "postgresql"]),
    ]) func rejectsConflictingOrEmptyVariables(_: String, _ changes: [String: String]) async throws {
        let error = await #expect(throws: ConfigurationError.self) { try await Self.file(changes) }
        #expect(error?.issues.first?.line == 0)
    }

    @Test func readsStoreOptionsTogetherWithTheStoreName() async throws {
        let file = try await Self.file([
            "AUTH_PROFILES_STAFF_STORE": "file", "AUTH_PROFILES_STAFF_STORE_DIRECTORY": "/tmp/none",
        ])
        let error = #expect(throws: ConfigurationError.self) {
            try SessionServer(configuration: file, providers: [.oidc])
        }
        #expect("\(try #require(error))".contains("cannot store the sessions"))
    }

    @Test func rejectsProfilesThatMapToTheSameVariables() async throws {
        let reader = ConfigReader(provider: EnvironmentVariablesProvider(environmentVariables: Self.variables))
        let error = await #expect(throws: AuthError.self) {
            try await ConfigurationFile(reader: reader, profiles: ["eu-west", "eu_west"], providers: [.oidc])
        }
        #expect(error?.code == .invalidConfiguration)
    }

    /// Without an error, the reader would treat the value as missing, and the default would apply.
    @Test func rejectsAValueOfTheWrongType() async throws {
        await #expect(throws: (any Error).self) { try await Self.file(["AUTH_SERVER_IDLE_TIME": "ten minutes"]) }
    }

    @Test func configurationErrorsDoNotContainSecrets() async throws {
        let secret = "a secret of some length"
        let file = try await Self.file(["AUTH_PROFILES_STAFF_ISSUER": "http://login.example.com"])
        let error = #expect(throws: ConfigurationError.self) {
            try SessionServer(configuration: file, providers: [.oidc])
        }
        #expect(!"\(try #require(error))".contains(secret))
    }
}
