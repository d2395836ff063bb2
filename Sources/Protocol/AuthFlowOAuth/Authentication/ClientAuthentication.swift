public import AuthFlowEssentials
public import AuthFlowHTTP
public import AuthFlowJOSE
import AuthFlowJSON
import HTTPTypes

/// How a client authenticates at the token endpoint and its neighbours (RFC 6749 section 2.3, OIDC Core section 9, RFC 8705).
public struct ClientAuthentication: Sendable {
    /// The registered name of a method, as an open set.
    public struct Method: RawRepresentable, Sendable, Hashable {
        // swift-format-ignore: AllPublicDeclarationsHaveDocumentation
        public let rawValue: String
        // swift-format-ignore: AllPublicDeclarationsHaveDocumentation
        public init(rawValue: String) { self.rawValue = rawValue }

        /// No proof: a public client, protected by PKCE.
        public static let none = Self(rawValue: "none")
        /// The secret in an HTTP Basic header.
        public static let clientSecretBasic = Self(rawValue: "client_secret_basic")
        /// The secret in the request body.
        public static let clientSecretPost = Self(rawValue: "client_secret_post")
        /// A JWT signed with the secret.
        public static let clientSecretJWT = Self(rawValue: "client_secret_jwt")
        /// A JWT signed with a private key.
        public static let privateKeyJWT = Self(rawValue: "private_key_jwt")
        /// A SPIFFE JWT-SVID (draft-ietf-oauth-spiffe-client-auth).
        public static let spiffeJWT = Self(rawValue: "spiffe_jwt")
        /// A certificate of an authority that the server trusts, shown in the TLS handshake (RFC 8705 section 2.1).
        public static let tlsClientAuth = Self(rawValue: "tls_client_auth")
        /// A certificate that was registered itself (RFC 8705 section 2.2).
        public static let selfSignedTLSClientAuth = Self(rawValue: "self_signed_tls_client_auth")
    }

    /// Who an assertion is made for, which servers read differently.
    public enum Audience: String, Sendable, Hashable, CaseIterable {
        /// The issuer, as FAPI 2.0 section 5.3.3.1 demands.
        case issuer
        /// The address of the token endpoint, as OIDC Core section 9 suggests, whichever endpoint is called.
        case tokenEndpoint = "token_endpoint"
        /// The address of the endpoint that is called.
        case endpoint
    }

    /// A request that is to be authenticated.
    public struct Request: Sendable {
        /// `client_id`.
        public let clientID: String
        /// The issuer.
        public let issuer: String
        /// The token endpoint, where there is one.
        public let tokenEndpoint: Endpoint?
        /// The endpoint that is called.
        public let endpoint: Endpoint
        /// The time, by the server's clock where that is known.
        public let time: Date
        /// A random identifier of this request.
        public let identifier: String
        /// `token_endpoint_auth_signing_alg_values_supported`; nil when the server announces nothing.
        public let announcedAlgorithms: [String]?
        /// The algorithms of the client's security profile; nil for any.
        public let allowedAlgorithms: [SignatureAlgorithm]?
        /// Sends requests.
        public let transport: any HTTPTransport
        /// Time, randomness and environment.
        public let host: HostServices
    }

    /// What proves the client in one request. The engine adds `client_id` where the proof does not name the client.
    public struct Proof: Sendable {
        /// Parameters of the form.
        public var parameters: FormParameters = [:]
        /// The value of the `Authorization` field; nil for none.
        public var authorization: Secret?

        /// Creates a proof.
        public init(parameters: FormParameters = [:], authorization: Secret? = nil) {
            self.parameters = parameters
            self.authorization = authorization
        }
    }

    /// The method.
    public let method: Method

    /// The client's secret, for the methods that use one.
    package let secret: Secret?

    /// The algorithm that the secret signs assertions with.
    private var secretAlgorithm: SignatureAlgorithm?

    /// The algorithm that assertions are registered with, when one was named, and who they are made for.
    private(set) var keyAlgorithm: SignatureAlgorithm?
    private(set) var audience: Audience?

    private let prove: @Sendable (Request) async throws -> Proof

    init(_ method: Method, secret: Secret? = nil, _ prove: @escaping @Sendable (Request) async throws -> Proof) {
        self.method = method
        self.secret = secret
        self.prove = prove
    }

    /// A method that is not built in.
    /// - Parameters:
    ///   - method: Its name.
    ///   - prove: Makes the proof. It is called for every attempt at a request, so that nothing is used twice.
    public static func custom(
        _ method: Method,
        _ prove: @escaping @Sendable (Request) async throws -> Proof
    ) -> ClientAuthentication {
        ClientAuthentication(method, prove)
    }

    /// No proof: a public client, which sends its `client_id` alone. Right for everything that runs on a user's device
    /// (RFC 8252 section 8.5: a secret that is shipped to many users is none).
    public static let none = ClientAuthentication(.none) { ["client_id": $0.clientID] }

    /// The secret in an HTTP Basic header.
    public static func clientSecretBasic(_ secret: Secret) -> ClientAuthentication {
        ClientAuthentication(.clientSecretBasic, secret: secret) { request in
            // RFC 6749 section 2.3.1: both are "encoded using the application/x-www-form-urlencoded encoding algorithm"
            // first. Skipping that works until one of them holds a colon, a percent sign or a plus. A space is sent as %20, which
            // also those understand who undo percent-encoding alone.
            let pair = [request.clientID, secret.exposed]
                .map(FormURLEncoding.encodeWithoutPlus).joined(separator: ":")
            return Proof(authorization: Secret("Basic \(Data(pair.utf8).base64EncodedString())"))
        }
    }

    /// The secret in the request body, for providers that do not read the header.
    public static func clientSecretPost(_ secret: Secret) -> ClientAuthentication {
        ClientAuthentication(.clientSecretPost, secret: secret) { request in
            ["client_id": request.clientID, "client_secret": secret.exposed]
        }
    }

    /// A JWT signed with the secret.
    /// - Parameters:
    ///   - secret: The secret. It must be as long as the hash (RFC 7518 section 3.2): 32 bytes for HS256.
    ///   - algorithm: The algorithm that is registered; default: HS256.
    ///   - audience: Who it is made for; default: the issuer.
    public static func clientSecretJWT(
        _ secret: Secret,
        algorithm: SignatureAlgorithm = .hs256,
        audience: Audience = .issuer
    ) -> ClientAuthentication {
        let assertion = ClientAssertion(signer: .secret(secret), algorithm: algorithm, audience: audience)
        var authentication = ClientAuthentication(.clientSecretJWT, secret: secret) { request in
            try await assertion.parameters(for: request)
        }
        authentication.secretAlgorithm = algorithm
        authentication.audience = audience
        return authentication
    }

    /// A JWT signed with a private key, whose public key is registered.
    /// - Parameters:
    ///   - key: The key.
    ///   - algorithm: The algorithm that is registered; default: the best of the key's that the server announces.
    ///   - audience: Who it is made for; default: the issuer.
    public static func privateKeyJWT(
        _ key: SigningKeySource,
        algorithm: SignatureAlgorithm? = nil,
        audience: Audience = .issuer
    ) -> ClientAuthentication {
        let assertion = ClientAssertion(signer: .key(key), algorithm: algorithm, audience: audience)
        var authentication = ClientAuthentication(.privateKeyJWT) { request in
            try await assertion.parameters(for: request)
        }
        (authentication.keyAlgorithm, authentication.audience) = (algorithm, audience)
        return authentication
    }

    /// A secret in the request body that is a JWT, made for each request and good for a minute: Apple's way.
    /// - Parameters:
    ///   - key: Signs the JWT. Its `kid` is the one that the key is registered by.
    ///   - issuer: `iss`: who has registered the key, such as the identifier of a team. `sub` is the client's identifier, `aud` the issuer of
    ///     the server.
    ///   - algorithm: The algorithm; default: the best of the key's.
    public static func signedSecret(
        by key: SigningKeySource,
        issuer: String,
        algorithm: SignatureAlgorithm? = nil
    ) -> ClientAuthentication {
        ClientAuthentication(.clientSecretPost) { request in
            let key = try await key.keyInTask()
            let names: [String: JSON] = [
                "iss": .string(issuer), "sub": .string(request.clientID), "aud": .string(request.issuer),
            ]
            let times = SignedTimes.claims(at: request.time, lifetime: ClientAssertion.lifetime)
            let secret = try await key.jwt(
                .object(names.merging(times) { $1 }),
                type: "JWT",
                algorithm: try key.algorithm(algorithm, allowed: nil, announced: nil)
            )
            return ["client_id": request.clientID, "client_secret": secret]
        }
    }

    /// A JWT of the client's platform, which the server trusts in place of a key of the client's own.
    /// - Parameters:
    ///   - source: Where it comes from; asked for every request.
    ///   - isSPIFFE: Whether it is a SPIFFE JWT-SVID and named as such (draft-ietf-oauth-spiffe-client-auth); default: it is named
    ///     as any other JWT.
    public static func assertion(from source: AssertionSource, isSPIFFE: Bool = false) -> ClientAuthentication {
        ClientAuthentication(isSPIFFE ? .spiffeJWT : .privateKeyJWT) { request in
            let assertion = try await source.assertion(
                for: AssertionSource.Request(
                    clientID: request.clientID,
                    issuer: request.issuer,
                    time: request.time,
                    identifier: request.identifier,
                    resources: [],
                    scopes: [],
                    transport: request.transport,
                    host: request.host
                )
            )
            if let allowed = request.allowedAlgorithms {
                // FAPI 2.0 Security Profile sections 5.3.3.1 and 5.4.1, for what another has signed too.
                let claims = AssertionClaims(assertion.jwt)
                guard claims.audiences == [request.issuer], claims.algorithm.map(allowed.contains) == true else {
                    throw AuthError(
                        .assertionUnusable,
                        "The security profile does not allow the assertion from \(source.name): it was \(claims)."
                    )
                }
            }
            guard !isSPIFFE || AssertionClaims(assertion.jwt).subject?.hasPrefix("spiffe://") == true else {
                throw AuthError(
                    .assertionUnusable,
                    "The assertion from \(source.name) is not a SPIFFE JWT-SVID: its subject is not a SPIFFE ID."
                )
            }
            return [
                "client_id": request.clientID, "client_assertion": assertion.jwt.exposed,
                "client_assertion_type": isSPIFFE ? ClientAssertion.spiffeType : ClientAssertion.type,
            ]
        }
    }

    /// A certificate of an authority that the server trusts. The transport shows it: ``NetworkSettings/clientCertificate``.
    public static let tlsClientAuth = ClientAuthentication(.tlsClientAuth) { ["client_id": $0.clientID] }

    /// A certificate that was registered itself. The transport shows it: ``NetworkSettings/clientCertificate``.
    public static let selfSignedTLSClientAuth = ClientAuthentication(.selfSignedTLSClientAuth) {
        ["client_id": $0.clientID]
    }

    /// Checks what can be known before the first request.
    func check() throws(AuthError) {
        guard let algorithm = secretAlgorithm, let secret else { return }
        guard let definition = algorithm.definition, definition.scheme == .hmac else {
            throw AuthError(
                .invalidConfiguration,
                "client_secret_jwt signs with HS256, HS384 or HS512, not with \(DisplayText.sanitized(algorithm.rawValue, limit: 20))."
            )
        }
        try HMACSignature.requireLength(of: secret, for: algorithm)
    }

    /// Whether the transport shows a certificate, so that RFC 8705 section 5 applies.
    var usesCertificate: Bool { method == .tlsClientAuth || method == .selfSignedTLSClientAuth }

    /// Whether what is sent depends on the clock.
    var isTimed: Bool { method == .privateKeyJWT || method == .clientSecretJWT }

    /// Adds a proof to one attempt at a request. RFC 6749 section 2.3: "The client MUST NOT use more than one authentication
    /// method in each request."
    func authenticate(_ request: inout ProviderRequest, as description: Request) async throws {
        let proof = try await prove(description)
        for pair in proof.parameters.pairs { request.protectedParameters[pair.name] = pair.value }
        if let authorization = proof.authorization {
            request.headerFields[.authorization] = authorization.exposed
        } else if proof.parameters["client_id"] == nil {
            request.protectedParameters["client_id"] = description.clientID
        }
    }
}

extension ClientAuthentication.Proof: ExpressibleByDictionaryLiteral {
    // swift-format-ignore: AllPublicDeclarationsHaveDocumentation
    public init(dictionaryLiteral elements: (String, String)...) {
        for (name, value) in elements { parameters.append(name, value) }
    }
}

extension ClientAuthentication: CustomStringConvertible, WithoutReflection {
    /// The method.
    public var description: String { method.rawValue }
}

extension ClientAuthentication.Proof: CustomStringConvertible, WithoutReflection {
    /// The names of its parameters: their values prove the client.
    public var description: String { parameters.names.joined(separator: " ") }
}
