public import AuthFlow
import AuthFlowJSON

/// ForgeRock (PingAM): an OpenID provider whose sign-in is a tree that the client can choose.
public struct ForgeRockProvider: Sendable {
    // swift-format-ignore: AllPublicDeclarationsHaveDocumentation
    public let id: ProviderID = "forgerock"

    private let realm: ForgeRockRealm
    private let issuer: String
    private let acrValues: [String]
    private let requiresACR: Bool

    /// Creates a provider.
    /// - Parameters:
    ///   - realm: The realm.
    ///   - issuer: The issuer, when the server names another than the realm's address: older ones leave out `/realms/root`.
    ///   - acrValues: `acr_values`: names that the server maps to trees, best first.
    ///   - requiresACR: Whether it must be one of these trees (an essential claim): the server then signs the person in anew when
    ///     need be, and an ID Token that does not say so is refused.
    public init(realm: ForgeRockRealm, issuer: String? = nil, acrValues: [String] = [], requiresACR: Bool = false) {
        self.realm = realm
        self.issuer = issuer ?? realm.oauthURL
        self.acrValues = acrValues
        self.requiresACR = requiresACR
    }
}

extension ForgeRockProvider: ProviderAdapter {
    // swift-format-ignore: AllPublicDeclarationsHaveDocumentation
    public func metadata(in context: ProviderContext) async throws -> ProviderMetadata {
        let address = try Endpoint("\(realm.oauthURL)/.well-known/openid-configuration")
        var metadata = try await discoveredMetadata(issuer: issuer, at: address, in: context)
        // Some versions announce an address for revocation that they do not have.
        if let announced = metadata.revocationEndpoint?.url, announced.hasSuffix("/revoke"),
            !announced.hasSuffix("/token/revoke")
        {
            metadata.revocationEndpoint = try Endpoint("\(announced.dropLast("revoke".count))token/revoke")
        }
        return metadata
    }

    // swift-format-ignore: AllPublicDeclarationsHaveDocumentation
    public func prepare(_ request: inout ProviderRequest, in context: ProviderContext) async throws {
        guard request.purpose == .authorization, !acrValues.isEmpty else { return }
        guard requiresACR else {
            request.parameters["acr_values"] = request.parameters["acr_values"] ?? acrValues.joined(separator: " ")
            return
        }
        // OpenID Connect Core section 5.5.1.1. The engine reads the demand from the request and checks the ID Token by it.
        var claims = try request.parameters["claims"].map { try JSON(parsing: Array($0.utf8)).object ?? [:] } ?? [:]
        var idToken = claims["id_token"]?.object ?? [:]
        idToken["acr"] = ["essential": true, "values": .array(acrValues.map(JSON.string))]
        claims["id_token"] = .object(idToken)
        request.parameters["claims"] = String(decoding: try JSON.object(claims).serialized(), as: UTF8.self)
    }
}
