public import AuthFlowEssentials
public import AuthFlowHTTP
public import AuthFlowJOSE
import AuthFlowJSON
import HTTPTypes

/// The client authentication at the token endpoint and similar endpoints (RFC 6749 section 2.3, OIDC Core section 9, RFC 8705).
public struct ClientAuthentication: Sendable {
    /// The registered name of a method, from an extensible set.
    public struct Method: RawRepresentable, Sendable, Hashable {
        public let rawValue: String
        public init(rawValue: String) { self.rawValue = rawValue }

        /// No client authentication: a public client, protected by PKCE.
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
        /// A certificate from a CA that the server trusts, presented in the TLS handshake (RFC 8705 section 2.1).
        public static let tlsClientAuth = Self(rawValue: "tls_client_auth")
        /// A self-signed certificate that is registered with the server (RFC 8705 section 2.2).
        public static let selfSignedTLSClientAuth = Self(rawValue: "self_signed_tls_client_auth")
    }

    /// The audience of an assertion. Servers differ in the audience that they accept.
    public enum Audience: String, Sendable, Hashable, CaseIterable {
        /// The issuer, as FAPI 2.0 section 5.3.3.1 requires.
        case issuer
        /// The URL of the token endpoint, as OIDC Core section 9 suggests, whichever endpoint is called.
        case tokenEndpoint = "token_endpoint"
        /// The URL of the endpoint that is called.
        case endpoint
    }

    /// A request that needs client authentication.
    public struct Request: Sendable {
        /// `client_id`.
        public let clientID: String
        /// The issuer.
        public let issuer: String
        /// The token endpoint, if there is one.
        public let tokenEndpoint: Endpoint?
        /// The endpoint that is called.
        public let endpoint: Endpoint
        /// The current time, according to the server's clock if its offset is known.
        public let time: Date
        /// A random identifier for this request.
        public let identifier: String
        /// `token_endpoint_auth_signing_alg_values_supported`, or the corresponding list for the revocation or introspection endpoint; nil when the
        /// server does not advertise it.
        package let advertisedAlgorithms: [String]?
        /// The algorithms of the client's security profile; nil for any.
        package let allowedAlgorithms: [SignatureAlgorithm]?
        /// Sends requests.
        public let transport: any HTTPTransport
        /// The clock, random number generator and environment.
        public let host: HostServices
    }

    /// The client authentication for one request. The engine adds `client_id` if the proof contains neither it nor an `Authorization` field.
    public struct Proof: Sendable {
        /// The form parameters.
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

    /// The assertion that this client signs; nil for other methods, and for an assertion from another party.
    private(set) var assertion: ClientAssertion?

    /// Whether the proof contains timestamps, and is therefore rejected if the clock is wrong.
    let containsTimestamps: Bool

    /// Whether the server's metadata determines how the secret is sent.
    private var followsMetadata = false

    private let prove: @Sendable (Request) async throws -> Proof

    init(
        _ method: Method,
        secret: Secret? = nil,
        containsTimestamps: Bool = false,
        _ prove: @escaping @Sendable (Request) async throws -> Proof
    ) {
        self.method = method
        self.secret = secret
        self.containsTimestamps = containsTimestamps
        self.prove = prove
    }

    private init(_ method: Method, _ assertion: ClientAssertion, secret: Secret? = nil) {
        self.init(method, secret: secret, containsTimestamps: true) { try await assertion.parameters(for: $0) }
        self.assertion = assertion
    }

    /// A custom method.
    /// - Parameters:
    ///   - method: The name of the method.
    ///   - prove: Creates the proof. It is called for each attempt to send a request, so that no proof is reused.
    public static func custom(
        _ method: Method,
        _ prove: @escaping @Sendable (Request) async throws -> Proof
    ) -> ClientAuthentication {
        // The JWT of a custom proof may contain timestamps.
        ClientAuthentication(method, containsTimestamps: method == .privateKeyJWT || method == .clientSecretJWT, prove)
    }

    /// No client authentication: a public client, which sends only its `client_id`. Use it for every program that runs
    /// on a user's device (RFC 8252 section 8.5: a secret that is shipped to many users is not a secret).
    public static let none = ClientAuthentication(.none) { _ in [:] }

    /// The secret, sent as the server's metadata requires: in the request body if `token_endpoint_auth_methods_supported`, or the corresponding list
    /// for the revocation or introspection endpoint, contains `client_secret_post` and not `client_secret_basic`, otherwise in an HTTP Basic header
    /// (the default of RFC 8414 section 2).
    public static func clientSecret(_ secret: Secret) -> ClientAuthentication {
        var authentication = clientSecretBasic(secret)
        authentication.followsMetadata = true
        return authentication
    }

    /// The client authentication for an endpoint for which the server advertises these methods.
    package func resolved(for advertised: [String]?) -> ClientAuthentication {
        guard followsMetadata, let secret, let advertised, advertised.contains(Method.clientSecretPost.rawValue),
            !advertised.contains(Method.clientSecretBasic.rawValue)
        else { return self }
        return .clientSecretPost(secret)
    }

    /// The secret in an HTTP Basic header.
    public static func clientSecretBasic(_ secret: Secret) -> ClientAuthentication {
        ClientAuthentication(.clientSecretBasic, secret: secret) { request in
            // RFC 6749 section 2.3.1: both are "encoded using the application/x-www-form-urlencoded encoding algorithm"
            // first. Otherwise authentication may fail when the ID or the secret contains a colon, a percent sign or a
            // plus sign. A space is sent as %20, so that servers that decode only percent-encoding can also decode it.
            let pair = [request.clientID, secret.exposed]
                .map(FormURLEncoding.encodeWithoutPlus).joined(separator: ":")
            return Proof(authorization: Secret("Basic \(Data(pair.utf8).base64EncodedString())"))
        }
    }

    /// The secret in the request body, for providers that do not support HTTP Basic authentication.
    public static func clientSecretPost(_ secret: Secret) -> ClientAuthentication {
        ClientAuthentication(.clientSecretPost, secret: secret) { request in
            ["client_id": request.clientID, "client_secret": secret.exposed]
        }
    }

    /// A JWT signed with the secret.
    /// - Parameters:
    ///   - secret: The secret. It must be at least as long as the hash (RFC 7518 section 3.2): 32 bytes for HS256.
    ///   - algorithm: The registered algorithm; default: HS256.
    ///   - audience: The audience; default: the issuer.
    public static func clientSecretJWT(
        _ secret: Secret,
        algorithm: SignatureAlgorithm = .hs256,
        audience: Audience = .issuer
    ) -> ClientAuthentication {
        let assertion = ClientAssertion(signer: .secret(secret), algorithm: algorithm, audience: audience)
        return ClientAuthentication(.clientSecretJWT, assertion, secret: secret)
    }

    /// A JWT signed with a private key whose public key is registered.
    /// - Parameters:
    ///   - key: The key.
    ///   - algorithm: The registered algorithm; default: the best one that the key supports and the server advertises.
    ///   - audience: The audience; default: the issuer.
    ///   - certificate: The certificate of the key, if the server identifies the key by its certificate's thumbprint (`x5t#S256`), as
    ///     Microsoft Entra does; default: none.
    public static func privateKeyJWT(
        _ key: SigningKeySource,
        algorithm: SignatureAlgorithm? = nil,
        audience: Audience = .issuer,
        certificate: CertificateBinding? = nil
    ) -> ClientAuthentication {
        let assertion = ClientAssertion(
            signer: .key(key),
            algorithm: algorithm,
            audience: audience,
            certificate: certificate
        )
        return ClientAuthentication(.privateKeyJWT, assertion)
    }

    /// A JWT as the client secret in the request body, as Apple requires. It is created for each request and valid for
    /// one minute.
    /// - Parameters:
    ///   - key: The key that signs the JWT. Its `kid` is the registered key ID.
    ///   - issuer: `iss`: the identifier of the party that registered the key, such as a team ID. `sub` is the client identifier,
    ///     `aud` the server's issuer.
    ///   - algorithm: The algorithm; default: the best algorithm that the key supports.
    public static func signedSecret(
        by key: SigningKeySource,
        issuer: String,
        algorithm: SignatureAlgorithm? = nil
    ) -> ClientAuthentication {
        ClientAuthentication(.clientSecretPost, containsTimestamps: true) { request in
            let key = try await key.loadKey()
            let names: [String: JSON] = [
                "iss": .string(issuer), "sub": .string(request.clientID), "aud": .string(request.issuer),
            ]
            let times = SignedTimes.claims(at: request.time, lifetime: ClientAssertion.lifetime)
            let secret = try await key.jwt(
                .object(names.merging(times) { $1 }),
                type: "JWT",
                algorithm: try key.algorithm(algorithm, allowed: nil, advertised: nil)
            )
            return ["client_id": request.clientID, "client_secret": secret]
        }
    }

    /// A JWT from the client's platform, which the server trusts instead of a key held by the client.
    /// - Parameters:
    ///   - source: The source of the JWT. It is called for each request.
    ///   - isSPIFFE: Whether it is a SPIFFE JWT-SVID, which is sent with a separate assertion type
    ///     (draft-ietf-oauth-spiffe-client-auth); default: false, which sends it as `jwt-bearer`.
    public static func assertion(from source: AssertionSource, isSPIFFE: Bool = false) -> ClientAuthentication {
        ClientAuthentication(isSPIFFE ? .spiffeJWT : .privateKeyJWT, containsTimestamps: !isSPIFFE) { request in
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

    /// A certificate from a CA that the server trusts. The transport presents it: ``NetworkSettings/clientCertificate``.
    public static let tlsClientAuth = ClientAuthentication(.tlsClientAuth) { _ in [:] }

    /// A self-signed certificate that is registered. The transport presents it: ``NetworkSettings/clientCertificate``.
    public static let selfSignedTLSClientAuth = ClientAuthentication(.selfSignedTLSClientAuth) { _ in [:] }

    /// Performs the checks that are possible before the first request.
    func check() throws(AuthError) {
        guard secret?.exposed.isEmpty != true else {
            throw AuthError(
                .invalidConfiguration,
                "The client secret is empty. If it comes from an environment variable, check that the variable is set."
            )
        }
        guard let algorithm = assertion?.algorithm, let secret else { return }
        guard let definition = algorithm.definition, definition.scheme == .hmac else {
            throw AuthError(
                .invalidConfiguration,
                "client_secret_jwt signs with HS256, HS384 or HS512, not with \(DisplayText.sanitized(algorithm.rawValue, limit: 20))."
            )
        }
        try HMACSignature.requireLength(of: secret, for: algorithm)
    }

    /// Whether the transport presents a certificate, in which case RFC 8705 section 5 applies.
    var usesCertificate: Bool { method == .tlsClientAuth || method == .selfSignedTLSClientAuth }

    /// Adds the client authentication to one attempt to send a request. RFC 6749 section 2.3: "The client MUST NOT use more than
    /// one authentication method in each request."
    func authenticate(_ request: inout ProviderRequest, as description: Request) async throws {
        let proof = try await prove(description)
        if let allowed = description.allowedAlgorithms, let assertion = proof.parameters["client_assertion"] {
            // FAPI 2.0 Security Profile sections 5.3.3.1 and 5.4.1 also apply to an assertion signed by another party.
            let claims = AssertionClaims(Secret(assertion))
            guard claims.audiences == [description.issuer], claims.algorithm.map(allowed.contains) == true else {
                throw AuthError(
                    .assertionUnusable,
                    "The security profile does not allow the client assertion: it was \(claims)."
                )
            }
        }
        for pair in proof.parameters.pairs { request.protectedParameters[pair.name] = pair.value }
        if let authorization = proof.authorization {
            request.headerFields[.authorization] = authorization.exposed
        } else if proof.parameters["client_id"] == nil {
            request.protectedParameters["client_id"] = description.clientID
        }
    }
}

extension ClientAuthentication.Proof: ExpressibleByDictionaryLiteral {
    public init(dictionaryLiteral elements: (String, String)...) {
        for (name, value) in elements { parameters.append(name, value) }
    }
}

extension ClientAuthentication: CustomStringConvertible, NonReflectable {
    /// The method.
    public var description: String { method.rawValue }
}

extension ClientAuthentication.Proof: CustomStringConvertible, NonReflectable {
    /// Only the names of its parameters, because their values authenticate the client.
    public var description: String { parameters.names.joined(separator: " ") }
}
