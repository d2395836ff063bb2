import AuthFlowJSON

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

extension OAuthClient {
    /// The longest time that a request object is good for, in seconds. FAPI 2.0 Message Signing section 5.3.2 allows an hour.
    private static let requestObjectLifetime: Int64 = 300

    /// Signs an authorization request (RFC 9101 section 4).
    func requestObject(
        _ parameters: FormParameters,
        _ source: SigningKeySource,
        _ metadata: ProviderMetadata
    ) async throws -> String {
        var claims: [String: JSON] = [:]
        for name in parameters.names { claims[name] = try Self.claim(name, parameters.values(for: name)) }
        // A configured parameter of the same name is none of the request's. Section 10.8: with a sub the object could serve as a
        // client assertion.
        claims["sub"] = nil
        claims.merge(SignedTimes.claims(at: server.time, lifetime: Self.requestObjectLifetime)) { $1 }
        // Section 4: iss is the client, aud the server. Message Signing section 5.3.2: aud is the issuer.
        claims["iss"] = .string(registration.clientID)
        claims["aud"] = .string(metadata.issuer)
        claims["jti"] = .string(host.randomToken())
        let key = try source.key()
        let announced = metadata.json["request_object_signing_alg_values_supported"]?.strings
        let algorithm = try key.algorithm(
            nil,
            allowed: registration.securityProfile?.algorithms,
            announced: announced
        )
        // Section 10.8: a type of its own keeps it from being taken for another kind of JWT.
        return try await key.jwt(.object(claims), type: "oauth-authz-req+jwt", algorithm: algorithm)
    }

    /// Section 4: a parameter is a claim of its own type; numbers are numbers, and JSON is JSON.
    private static func claim(_ name: String, _ values: [String]) throws(AuthError) -> JSON {
        guard values.count == 1, let value = values.first else { return .array(values.map(JSON.string)) }
        switch name {
        case "max_age": return Int64(value).map(JSON.integer) ?? .string(value)
        case "claims", "authorization_details":
            guard let json = try? JSON(parsing: Array(value.utf8)) else {
                throw AuthError(.invalidConfiguration, "The parameter \"\(name)\" is not JSON.")
            }
            return json
        default: return .string(value)
        }
    }
}
