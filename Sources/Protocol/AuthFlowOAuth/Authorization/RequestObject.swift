import AuthFlowEssentials
import AuthFlowIssuer

extension OAuthClient {
    /// The lifetime of a request object, in seconds. FAPI 2.0 Message Signing section 5.3.2 allows up to an hour.
    private static let requestObjectLifetime: Int64 = 300

    /// Signs an authorization request (RFC 9101 section 4), and then encrypts it if the registration requires encryption ("a nested JWT").
    func requestObject(
        _ parameters: FormParameters,
        _ source: SigningKeySource,
        _ metadata: ProviderMetadata
    ) async throws -> String {
        let claims = try requestObjectClaims(parameters, metadata)
        let key = try await source.loadKey()
        let advertised = metadata.advertised("request_object_signing_alg_values_supported")
        let algorithm = try key.algorithm(
            registration.requestObjectAlgorithm,
            allowed: registration.securityProfile?.algorithms,
            advertised: advertised
        )
        // Section 10.8: explicit typing prevents the use of the object as another kind of JWT.
        let object = try await key.jwt(claims, type: "oauth-authz-req+jwt", algorithm: algorithm)
        guard let encryption = registration.requestObjectEncryption else { return object }
        return try encryption.encrypted(object, with: try await server.encryptionKeys(metadata), metadata, host)
    }

    /// The parameters of a request whose request object the server fetches (RFC 9101 section 5.2, OIDC Core section 6.2).
    func requestByReference(
        _ parameters: FormParameters,
        _ reference: RequestObjectReference,
        _ metadata: ProviderMetadata
    ) async throws -> FormParameters {
        // OIDC Discovery section 3: "If omitted, the default value is true."
        guard metadata.json["request_uri_parameter_supported"]?.bool != false else {
            throw metadata.unsupported("does not support the request_uri parameter.")
        }
        let object: String
        if let source = registration.requestObjectKey {
            object = try await requestObject(parameters, source, metadata)
        } else {
            let header: JSON = ["alg": "none", "typ": "oauth-authz-req+jwt"]
            let claims = try requestObjectClaims(parameters, metadata)
            object = "\(Base64URL.encode(try header.serialized())).\(Base64URL.encode(try claims.serialized()))."
        }
        let url = try await reference.publish(Secret(object))
        // RFC 9101 section 5.2: "The entire Request URI SHOULD NOT exceed 512 ASCII characters", and it must use https. OIDC Core section 6.2: the
        // fragment may contain the hash of the object, so that the server does not use a cached object instead.
        guard url.utf8.count <= 512, (try? Endpoint(allowingFragment: url, name: "request_uri")) != nil else {
            throw AuthError(
                .invalidConfiguration,
                "The URL of the request object must use https and have at most 512 characters (RFC 9101 section 5.2)."
            )
        }
        var sent: FormParameters = ["client_id": registration.clientID, "request_uri": url]
        // OIDC Core section 6.2: the parameters that OAuth 2.0 requires, and scope, are also sent outside the request object.
        sent["response_type"] = parameters["response_type"]
        sent["scope"] = parameters["scope"]
        return sent
    }

    private func requestObjectClaims(_ parameters: FormParameters, _ metadata: ProviderMetadata) throws -> JSON {
        var claims: [String: JSON] = [:]
        for name in parameters.names { claims[name] = try Self.claim(name, parameters.values(for: name)) }
        // A configured parameter named sub is omitted. Section 10.8: with a sub claim, the object could be used as a
        // client assertion.
        claims["sub"] = nil
        claims.merge(SignedTimes.claims(at: server.time, lifetime: Self.requestObjectLifetime)) { $1 }
        // Section 4: iss is the client, aud the server. Message Signing section 5.3.2: aud is the issuer.
        claims["iss"] = .string(registration.clientID)
        claims["aud"] = .string(metadata.issuer)
        claims["jti"] = .string(host.randomToken())
        return .object(claims)
    }

    /// Section 4: each parameter becomes a claim of the matching JSON type: a number remains a number, and JSON remains
    /// JSON.
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
