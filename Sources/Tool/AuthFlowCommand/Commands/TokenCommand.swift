import ArgumentParser
import AuthFlow
import AuthFlowEssentials

struct TokenCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "token",
        abstract: "Print a fresh access token for programs. Never signs in; exits with 4 when a login is needed."
    )

    @OptionGroup var resource: ResourceOptions

    @OptionGroup var scope: ScopeOptions

    @OptionGroup var options: ProfileOptions

    @Option(
        help:
            "The minimum remaining lifetime of the token, in seconds. For short-lived tokens, it is capped at a quarter of their lifetime."
    )
    var minTTL = 60

    @Flag(help: "Get a new token even if the current token has not expired, for example because an API rejects it.")
    var refresh = false

    @Option(
        help:
            "The output format: raw, header (for curl -H @-), curl (for curl -K -), env (for a shell), or json (with the token's type and expiry)."
    )
    var format: TokenFormat?

    @Flag(help: "The same as --format json.")
    var json = false

    /// The format in which the token is printed.
    var usedFormat: TokenFormat { format ?? (json ? .json : .raw) }

    func validate() throws {
        // With a profile, --resource selects one of the profile's resources, and --scope the scopes of its token.
        if resource.url != nil || resource.resource == nil || resource.assumeOrigin {
            try resource.check(options)
        }
        guard resource.url != nil || resource.resource != nil || scope.scopes.isEmpty else {
            throw ValidationError("--scope needs --resource: all other scopes are requested at sign-in.")
        }
        guard !resource.hasAddress || scope.scopes.isEmpty else {
            throw ValidationError("Scopes are requested at sign-in: authflow login URL --scope SCOPE")
        }
        guard TokenRequest.lifetimes.contains(minTTL) else {
            throw ValidationError("--min-ttl must be a number of seconds from 0 to 86400.")
        }
        guard !refresh || !resource.hasAddress else {
            throw ValidationError("--refresh needs a profile: the token for a URL is replaced when it is rejected.")
        }
        guard !json || format == nil || format == .json else {
            throw ValidationError("--json cannot be combined with another --format.")
        }
    }

    func run() async throws {
        try await TokenRequest(
            choice: options.choice,
            resource: try resource.choice(options),
            oneOf: resource.url == nil ? resource.resource : nil,
            scopes: scope.scopes,
            minimumLifetime: minTTL,
            refreshes: refresh,
            format: usedFormat
        ).run()
    }
}

/// The options of `authflow token`.
struct TokenRequest: Hashable {
    /// Valid values of `--min-ttl`, in seconds.
    static let lifetimes = 0...86_400

    var choice = ProfileChoice()
    /// The protected resource; nil if a profile is used instead.
    var resource: ResourceChoice?
    /// The profile's resource for which the token is requested; nil for the profile's own token.
    var oneOf: String?
    /// The scopes of the token for ``oneOf``; empty for all scopes.
    var scopes: [String] = []
    var minimumLifetime = 60
    /// Whether to get a new token even if the current token has not expired.
    var refreshes = false
    var format = TokenFormat.raw

    func run() async throws { try format.print(try await DelayNotice().during(tokens)) }

    private func tokens() async throws -> TokenSet {
        let duration = Duration.seconds(minimumLifetime)
        guard let oneOf else {
            return if let resource {
                try await resource.client().freshCredential(lasting: duration).tokens
            } else if refreshes {
                try await choice.client().refresh().tokens
            } else {
                try await choice.client().freshCredential(lasting: duration).tokens
            }
        }
        let client = try choice.client()
        let scopes = scopes.isEmpty ? nil : scopes
        let tokens = try await client.freshTokens(for: oneOf, scopes: scopes, lasting: duration)
        guard refreshes else { return tokens }
        return try await client.freshTokens(for: oneOf, scopes: scopes, replacing: tokens.accessToken)
    }
}
