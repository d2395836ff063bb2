public import AuthFlow

/// ForgeRock (PingAM): an OpenID provider where users sign in through a tree that the client can choose.
public struct ForgeRockProvider: Sendable {
    private let realm: ForgeRockRealm
    public let issuer: String
    private let acrValues: [String]
    private let requiresACR: Bool
    private let minimumAuthLevel: Int?

    /// Creates a provider.
    /// - Parameters:
    ///   - realm: The realm.
    ///   - issuer: The issuer, if it differs from the realm's URL: older servers omit `/realms/root`.
    ///   - acrValues: `acr_values`: names that the server maps to trees, in order of preference.
    ///   - requiresACR: Whether one of these values is required (an essential claim). If so, the server signs the user
    ///     in again when necessary, and an ID Token with another `acr`, or none, is rejected. If a request has an essential `acr` claim
    ///     with values, or else `acr_values` that contain any of these values, only the values that occur in both are accepted. If the
    ///     server does not support the `claims` parameter, a request's `acr_values` do not limit the accepted values.
    ///   - minimumAuthLevel: The minimum `auth_level` of a sign-in; nil for no minimum. It is read from the ID Token, or else from
    ///     an access token that is a JWT; a sign-in whose level cannot be read is rejected.
    public init(
        realm: ForgeRockRealm,
        issuer: String? = nil,
        acrValues: [String] = [],
        requiresACR: Bool = false,
        minimumAuthLevel: Int? = nil
    ) {
        self.realm = realm
        self.issuer = issuer ?? realm.oauthURL
        self.acrValues = acrValues
        self.requiresACR = requiresACR
        self.minimumAuthLevel = minimumAuthLevel
    }
}

extension ForgeRockProvider: ProviderAdapter {
    public func metadata(in context: ServerContext) async throws -> ProviderMetadata {
        let address = try Endpoint("\(realm.oauthURL)/.well-known/openid-configuration")
        var metadata = try await context.discover(at: address)
        // Some versions advertise a revocation endpoint that does not exist.
        if let advertised = metadata.revocationEndpoint?.url, advertised.hasSuffix("/revoke"),
            !advertised.hasSuffix("/token/revoke")
        {
            metadata.revocationEndpoint = try Endpoint("\(advertised.dropLast("revoke".count))token/revoke")
        }
        return metadata
    }

    /// Checks `acr` and `auth_level`; after a refresh, only if the new tokens have them. The access token is trusted because it came directly
    /// from the token endpoint; a token from anywhere else would not be.
    public func check(_ credential: Credential, replacing previous: Credential?, in context: ProviderContext)
        async throws
    {
        let idToken = credential.tokens.verifiedIDToken
        func present(_ value: JSON?) -> JSON? { value == .null ? nil : value }
        let acr = present(idToken?.claims["acr"])
        if requiresACR, !acrValues.isEmpty, previous == nil || acr != nil {
            // If the claim could not be requested as essential, the server may have ignored the request.
            guard let acr = acr?.string, acrValues.containsIdentical(acr) else {
                throw AuthError(
                    .insufficientUserAuthentication,
                    "The user was not authenticated as requested: acr must be one of \(acrValues.joined(separator: ", "))."
                )
            }
        }
        guard let minimumAuthLevel else { return }
        let parts = credential.tokens.accessToken.exposed.split(separator: ".", omittingEmptySubsequences: false)
        let claims = parts.count == 3 ? Base64URL.decode(parts[1]).flatMap { try? JSON(parsing: $0) } : nil
        let levels = [idToken?.claims["auth_level"], claims?["auth_level"]].map(present)
        // A refresh response need not contain an ID Token. If it does not, the previous ID Token is retained.
        let isRetained = previous != nil && previous?.tokens.verifiedIDToken == idToken
        let level = (isRetained ? levels.reversed() : levels).lazy.compactMap(\.self).first
        guard previous == nil || level != nil else { return }
        guard let number = level?.number, number >= Double(minimumAuthLevel) else {
            let problem =
                if level == nil {
                    "the tokens have no auth_level"
                } else if let number = level?.number {
                    "auth_level is \(level?.integer.map { "\($0)" } ?? "\(number)")"
                } else {
                    "auth_level is not a number"
                }
            throw AuthError(
                .insufficientUserAuthentication,
                "The user's authentication is weaker than requested: \(problem). It must be at least \(minimumAuthLevel)."
            )
        }
    }

    public func prepare(_ request: inout ProviderRequest, in context: ProviderContext) async throws {
        guard request.purpose == .authorization, !acrValues.isEmpty else { return }
        // OpenID Connect Discovery section 3: when claims_parameter_supported is false, which is also the default, the server may ignore the
        // claims parameter, or respond with an error. Metadata without the member does not show which, so the stricter request is sent.
        let supportsClaimsParameter = try await context.metadata().json["claims_parameter_supported"]?.bool != false
        guard requiresACR, supportsClaimsParameter else {
            request.parameters["acr_values"] = request.parameters["acr_values"] ?? acrValues.joined(separator: " ")
            return
        }
        // OpenID Connect Core section 5.5.1.1. The engine reads the claim from the request and checks the ID Token
        // against it.
        var claims = try request.parameters["claims"].map { try JSON(parsing: Array($0.utf8)).object ?? [:] } ?? [:]
        var idToken = claims["id_token"]?.object ?? [:]
        // The values that this request requires, for a step-up, take precedence: some of the configured values may be weaker.
        let acr = idToken["acr"]
        guard acr?["essential"]?.bool != true || acr?["values"] == nil && acr?["value"] == nil else { return }
        let requested = (request.parameters["acr_values"] ?? "").split(separator: " ").map(String.init)
            .filter { acrValues.containsIdentical($0) }
        let values = requested.isEmpty ? acrValues : requested
        idToken["acr"] = ["essential": true, "values": .array(values.map(JSON.string))]
        claims["id_token"] = .object(idToken)
        request.parameters["claims"] = String(decoding: try JSON.object(claims).serialized(), as: UTF8.self)
    }
}
