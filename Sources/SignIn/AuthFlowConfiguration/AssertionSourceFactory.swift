public import AuthFlowOAuth
import AuthFlowSignIn

/// Creates an assertion source from its options. A program lists the factories for the sources that it supports.
public struct AssertionSourceFactory: Sendable {
    /// The values from which a source can be created.
    public struct Context: Sendable {
        /// The clock, random number generator and environment.
        public let host: HostServices
        /// The client's key, with its registered algorithm; nil when the profile has no key.
        let clientKey: ClientKey?
        /// Creates the client of another profile in the same file.
        let client: @Sendable (_ profile: String) throws -> AuthClient
        /// The names of the other profiles.
        let profileNames: [String]
    }

    /// The name that selects the source in a profile.
    package let name: String

    /// The keys of the source's options.
    let keys: [ConfigurationKeyDeclaration]

    let make: @Sendable (_ options: ConfigurationObject, _ context: Context) throws -> AssertionSource

    /// Creates a factory.
    public init(
        _ name: String,
        keys: [any AnyConfigurationKey] = [],
        make: @escaping @Sendable (_ options: ConfigurationObject, _ context: Context) throws -> AssertionSource
    ) {
        self.name = name
        self.keys = keys.map(\.declaration)
        self.make = make
    }
}

extension AssertionSourceFactory {
    /// The required audience of the assertions; several sources share this key.
    package static let audience = ConfigurationKey(
        "audience",
        .text,
        "The required audience of the assertion. Default: the provider's issuer."
    )

    /// `file`: a file that the platform keeps up to date.
    public static var file: AssertionSourceFactory {
        let path = ConfigurationKey("path", required: .path, "The file that contains the assertion, read for each use.")
        return AssertionSourceFactory("file", keys: [path, audience]) { options, _ in
            .file(path: try options[path], audience: try options[audience])
        }
    }

    /// `environment`: an environment variable that a CI system sets.
    public static var environment: AssertionSourceFactory {
        let variable = ConfigurationKey("variable", required: .text, "The name of the environment variable.")
        return AssertionSourceFactory("environment", keys: [variable, audience]) { options, _ in
            .environment(try options[variable], audience: try options[audience])
        }
    }

    /// `actions`: an ID Token that the CI platform issues for a job.
    public static var actionsRunner: AssertionSourceFactory {
        let audience = ConfigurationKey("audience", .text, "The audience to request. Default: the issuer.")
        return AssertionSourceFactory("actions", keys: [audience]) { options, _ in
            .actionsRunner(audience: try options[audience])
        }
    }

    /// `key`: an assertion that the client signs itself, with `client_key`.
    public static var key: AssertionSourceFactory {
        let subject = ConfigurationKey("subject", required: .text, "The subject of the access token (sub).")
        let issuer = ConfigurationKey("issuer", .text, "The issuer (iss). Default: client_id.")
        let audience = ConfigurationKey("audience", .text, "The audience (aud). Default: the provider's issuer.")
        return AssertionSourceFactory("key", keys: [subject, issuer, audience]) { options, context in
            guard let key = context.clientKey else {
                throw options.error("an assertion that the client signs requires a \"client_key\"")
            }
            return .signed(
                by: key.source,
                subject: try options[subject],
                issuer: try options[issuer],
                audience: try options[audience],
                algorithm: key.algorithm
            )
        }
    }

    /// `profile`: the sign-in of another profile, whose provider issues an assertion for this profile.
    public static var profile: AssertionSourceFactory {
        let profile = ConfigurationKey("profile", required: .text, "The profile of the user's identity provider.")
        return AssertionSourceFactory("profile", keys: [profile]) { options, context in
            let name = try options[profile]
            guard context.profileNames.contains(name) else {
                throw options.error(
                    "there is no other profile \"\(DisplayText.sanitized(name, limit: 60))\"",
                    at: profile
                )
            }
            return .signIn(name) { try context.client(name) }
        }
    }

    /// The sources that depend only on this package and the operating system.
    public static var standard: [AssertionSourceFactory] { [.file, .environment, .actionsRunner, .key, .profile] }
}
