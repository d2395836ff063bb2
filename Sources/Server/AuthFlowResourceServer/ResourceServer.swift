import AuthFlowEssentials
public import AuthFlowOAuth

/// An API that receives access tokens (RFC 6749 section 1.1: "resource server"), and decides which requests are
/// authorized.
///
/// Create one instance for each API and share it: any number of tasks may use it concurrently.
///
/// ```swift
/// let api = try ResourceServer(
///     "https://api.example.com/orders",
///     issuers: [TrustedIssuer(AuthorizationServer(issuer: "https://id.example.com"))]
/// )
/// let authorization = try await api.authorize(request, requiring: ["orders:read"])
/// ```
///
/// It rejects an unauthorized request with a ``Rejection``, which contains a complete response. It works with any web framework.
public final class ResourceServer: Sendable {
    /// The identifier of the API (RFC 8707, RFC 9728): its URL, exactly as clients specify it.
    public let resource: Endpoint

    /// The issuers whose tokens are accepted.
    public let issuers: [TrustedIssuer]

    /// The rules.
    public let rules: ResourceServerRules

    let host: HostServices
    private let cache: TokenCache<AccessToken>
    /// The issuer whose tokens are introspected, and the API's client at that issuer.
    private let introspector: (issuer: TrustedIssuer, client: OAuthClient)?
    private let introspection: IntrospectionCache
    private let nonces: ProofNonces?
    private let observer: (@Sendable (AuthorizationDecision) -> Void)?

    /// Creates a resource server. The server sends no requests before the first token arrives.
    /// - Parameters:
    ///   - resource: The identifier of the API: an `https` URL; `http` only on loopback.
    ///   - issuers: The issuers whose tokens are accepted.
    ///   - rules: The rules; default: bearer tokens and DPoP-bound tokens are accepted, and at most 10,000 verified
    ///     tokens are cached.
    ///   - host: The clock and random number generator; default: the system's.
    ///   - observer: Receives each decision. It must not block. `AuthFlowObservability` records decisions as metrics.
    /// - Throws: ``/AuthFlow/AuthError`` with `invalid_configuration` if the resource is not a valid URL or has a
    ///   query, if `issuers` is empty or ambiguous, if JWT introspection is enabled without an introspector, or if
    ///   more than one issuer has an introspector: a token without an issuer must not be sent to the wrong issuer.
    public init(
        _ resource: String,
        issuers: [TrustedIssuer],
        rules: ResourceServerRules = ResourceServerRules(),
        host: HostServices = .system,
        observer: (@Sendable (AuthorizationDecision) -> Void)? = nil
    ) throws(AuthError) {
        self.observer = observer
        self.resource = try Endpoint(resource, name: "resource")
        // RFC 8707 section 2: "The URI MUST NOT include a fragment component. It SHOULD NOT include a query component".
        guard self.resource.query == nil else {
            throw AuthError(
                .invalidConfiguration,
                "The resource identifier has a query component, which RFC 8707 section 2 discourages. Remove it."
            )
        }
        guard !issuers.isEmpty else {
            throw AuthError(.invalidConfiguration, "A resource server needs at least one issuer.")
        }
        guard Set(issuers.map(\.name)).count == issuers.count else {
            throw AuthError(.invalidConfiguration, "The resource server lists an issuer more than once.")
        }
        let templates = issuers.compactMap(\.tenants)
        guard issuers.allSatisfy({ issuer in issuer.tenants != nil || !templates.contains { $0.covers(issuer.name) } }),
            templates.indices.allSatisfy({ index in !templates[..<index].contains { $0.overlaps(templates[index]) } })
        else {
            throw AuthError(
                .invalidConfiguration,
                "An issuer is also a tenant of another issuer, or two issuers accept the same tenant, so the rules for its tokens are ambiguous."
            )
        }
        guard issuers.count(where: { $0.introspector != nil }) <= 1 else {
            throw AuthError(
                .invalidConfiguration,
                "Only one issuer can have an introspector: an opaque token must not be sent to the wrong issuer."
            )
        }
        guard issuers.allSatisfy({ !$0.introspectsJWTs || $0.introspector != nil }) else {
            throw AuthError(.invalidConfiguration, "JWT introspection is enabled for an issuer with no introspector.")
        }
        try rules.check()
        self.issuers = issuers
        self.rules = rules
        self.host = host
        self.cache = TokenCache(limit: rules.cachedTokens)
        self.introspector = issuers.lazy.compactMap { issuer in issuer.introspector.map { (issuer, $0) } }.first
        self.introspection = IntrospectionCache(limit: rules.cachedTokens)
        self.nonces = rules.dpop.nonces.map { ProofNonces($0, host: host) }
    }

    /// Decides whether a request is authorized.
    /// - Parameters:
    ///   - request: The request. The body is never read: tokens in form-encoded bodies (RFC 6750 section 2.2) and
    ///     queries (section 2.3) are not accepted.
    ///   - requirement: The requirement of the route; default: a valid token.
    ///   - certificate: The client certificate of the TLS connection, in DER; default: none. Behind a proxy, set
    ///     ``ResourceServerRules/certificateField`` to the field that the proxy sets.
    /// - Throws: ``Rejection``: the response for the client, and the reason for the log.
    public func authorize(
        _ request: HTTPRequest,
        requiring requirement: Requirement = Requirement(),
        clientCertificate certificate: [UInt8]? = nil
    ) async throws(Rejection) -> Authorization {
        guard let observer else { return try await decide(request, requirement, certificate) }
        let start = ContinuousClock.now
        do throws(Rejection) {
            let authorization = try await decide(request, requirement, certificate)
            observer(AuthorizationDecision(nil, start.duration(to: .now)))
            return authorization
        } catch {
            observer(AuthorizationDecision(error, start.duration(to: .now)))
            throw error
        }
    }

    /// Decides whether an authorized request also meets the requirement of another route. A request with a DPoP
    /// proof cannot be authorized twice, because the proof is accepted only once.
    /// - Returns: `true` if the authorization meets the requirement; `false`, without a check, if another API created it.
    /// - Throws: ``Rejection`` when the token does not meet the requirement of the route.
    public func isAuthorized(
        _ authorization: Authorization,
        requiring requirement: Requirement
    ) throws(Rejection) -> Bool {
        guard authorization.isMade(by: self) else { return false }
        var writer = RejectionWriter(resource: resource, rules: rules, requirement: requirement)
        writer.scheme = authorization.isDPoPBound ? .dpop : .bearer
        writer.isHead = authorization.isHead
        do throws(TokenFailure) {
            try requirement.check(authorization.token, now: host.now(), leeway: rules.clockLeeway.seconds)
            return true
        } catch {
            throw writer.rejection(for: error)
        }
    }

    private func decide(
        _ request: HTTPRequest,
        _ requirement: Requirement,
        _ certificate: [UInt8]?
    ) async throws(Rejection) -> Authorization {
        var writer = RejectionWriter(resource: resource, rules: rules, requirement: requirement)
        writer.isHead = request.method == .head
        do {
            guard let presented = try PresentedToken(request) else { throw writer.unauthenticated() }
            writer.scheme = presented.scheme
            let token = try await accessToken(presented.token)
            let binding = token.binding
            try binding.check(scheme: presented.scheme, demand: rules.binding)
            var nonce: String?
            if let thumbprint = binding.key {
                nonce = try await checkProof(request, presented.token, thumbprint)
                writer.nonce = nonce
            }
            if let thumbprint = binding.certificate {
                let shown = try certificate ?? rules.certificateField?.certificate(in: request.headerFields)
                try TokenBinding.check(shown, thumbprint: thumbprint)
            }
            try requirement.check(token, now: host.now(), leeway: rules.clockLeeway.seconds)
            return Authorization(token, by: self, nonce: nonce, isHead: writer.isHead)
        } catch let rejection as Rejection {
            throw rejection
        } catch let failure as TokenFailure {
            // The response includes the nonce that the client must send.
            if case .requiresNonce = failure { writer.nonce = nonces?.next() }
            throw writer.rejection(for: failure)
        } catch {
            throw writer.unavailable(error)
        }
    }

    // MARK: - Access tokens

    /// The maximum size of a cached token, in bytes. The cache limits only the number of tokens, and a token's claims
    /// occupy several times its size in memory.
    private static let maximumCachedSize = 8 * 1024

    /// Returns the verified form of a token, from the cache if possible.
    private func accessToken(_ token: Secret) async throws -> AccessToken {
        let digest = TokenDigest(token)
        let now = host.now()
        if let known = cache.value(digest, at: now) { return try await withConsent(of: known, token, digest, nil) }
        return try await accessToken(token, digest, at: now, steps: nil)
    }

    /// Verifies a token that is not in the cache.
    /// - Parameter steps: Receives each check as it begins. If set, the token is not cached, and is introspected only
    ///   if `steps` allows it.
    func accessToken(
        _ token: Secret,
        _ digest: TokenDigest,
        at now: Date,
        steps: TokenReport.Recorder?
    ) async throws -> AccessToken {
        steps?.begin(.form)
        try PresentedToken.requireCharacters(of: token)
        steps?.begin(.issuer)
        // The token is parsed only once, both to choose the issuer and to verify the token.
        let decrypted = try decrypted(token)
        guard let jws = try? JWS(decrypted) else {
            let malformed = "it is a malformed JWT"
            let isJOSE = Self.isJOSE(token)
            guard issuers.count == 1 || !isJOSE else { throw TokenFailure.invalid(malformed) }
            let reason = isJOSE ? malformed : "it is not a JWT, and introspection is not configured"
            return try await introspected(token, digest, orRefusedAs: reason, steps)
        }
        // The issuer is chosen from the configured issuers before any metadata is fetched.
        guard let named = jws.payload["iss"]?.string else {
            guard issuers.count == 1 else { throw TokenFailure.invalid("it has no issuer (iss)") }
            return try await introspected(token, digest, orRefusedAs: "it has no issuer (iss)", steps)
        }
        guard let issuer = issuers.first(where: { $0.issuer(for: jws.payload)?.isIdentical(to: named) == true }) else {
            throw TokenFailure.invalid(
                "its issuer \"\(Self.quotable(named))\" is not trusted (iss)"
            )
        }
        guard !issuer.requiresEncryption || JWE.isEncrypted(token) else {
            throw TokenFailure.invalid("it is not encrypted, which is required for this issuer")
        }
        steps?.end(.passed(DisplayText.sanitized(named, limit: 200)))
        var verification = AccessTokenVerification(issuer: issuer, resource: resource, issuerName: named)
        verification.steps = steps
        let verified = try await verification.verify(jws, now: now, leeway: rules.clockLeeway.seconds)
        if let end = verified.end, steps == nil, token.exposed.utf8.count <= Self.maximumCachedSize {
            // A token is never cached beyond its expiry. The clock leeway applies only when a token is verified again.
            let time = now.timeIntervalSince1970
            let limit = min(time + rules.verificationCacheTime.seconds, end)
            cache.store(verified, digest, from: max(time, verified.start), until: limit)
        }
        return try await withConsent(of: verified, token, digest, steps)
    }

    /// Text from the client, sanitized so that it can be quoted in a log.
    private static func quotable(_ text: String) -> String {
        String(DisplayText.sanitized(text, limit: 200).map { $0 == "\"" || $0 == "\\" ? "'" : $0 })
    }

    /// Introspects a verified JWT, if configured, to check whether it is still active.
    private func withConsent(
        of verified: AccessToken,
        _ token: Secret,
        _ digest: TokenDigest,
        _ steps: TokenReport.Recorder?
    ) async throws -> AccessToken {
        guard let (issuer, client) = introspector, issuer.introspectsJWTs,
            issuer.issuer(for: verified.claims)?.isIdentical(to: verified.issuer) == true
        else { return verified }
        steps?.begin(.introspection)
        guard steps?.introspects ?? true else {
            steps?.end(.skipped("introspection was disabled"))
            return verified
        }
        _ = try await introspected(token, digest, issuer, client, isVerified: true)
        return verified
    }

    /// Whether a token appears to be a JWT. The issuer of a malformed JWT is unknown, so introspection could send the
    /// token to the wrong issuer.
    private static func isJOSE(_ token: Secret) -> Bool {
        let first = token.exposed.prefix { $0 != "." }
        return first.utf8.count < token.exposed.utf8.count
            && Base64URL.decode(String(first))?.first == UInt8(ascii: "{")
    }

    private func decrypted(_ token: Secret) throws -> Secret {
        guard JWE.isEncrypted(token) else { return token }
        if let encrypted = try? JWE(token) {
            var tried: Set<JSON> = []
            // The issuer of an encrypted token is not known until the token is decrypted.
            for issuer in issuers {
                guard let source = issuer.decryptionKeys else { continue }
                // A key that cannot be loaded does not make the token invalid, so its error is thrown as is. Issuers often share the API's key, and
                // any client can send tokens that cannot be decrypted, so no key is tried twice.
                let keys = encrypted.candidates(among: try source.keys().filter { !tried.contains($0.publicJWK) })
                tried.formUnion(keys.map(\.publicJWK))
                if let content = try? encrypted.decrypted(with: keys) { return content }
            }
        }
        // The token may come from an issuer that encrypts its tokens, and must not be sent to a different issuer.
        guard let introspector, issuers.allSatisfy({ $0.decryptionKeys == nil || $0.name == introspector.issuer.name })
        else { throw TokenFailure.invalid("it is encrypted, but none of the configured keys can decrypt it") }
        return token
    }

    private func introspected(
        _ token: Secret,
        _ digest: TokenDigest,
        orRefusedAs reason: String,
        _ steps: TokenReport.Recorder?
    ) async throws -> AccessToken {
        guard let (issuer, client) = introspector else { throw TokenFailure.invalid(reason) }
        steps?.end(.passed("not named in the token, so the token is introspected at \(issuer.name)"))
        steps?.begin(.introspection)
        guard steps?.introspects ?? true else { throw TokenReport.IntrospectionNotAllowed() }
        return try await introspected(token, digest, issuer, client, isVerified: false)
    }

    /// - Parameter isVerified: Whether the token is a JWT that names its audience and has passed verification.
    private func introspected(
        _ token: Secret,
        _ digest: TokenDigest,
        _ issuer: TrustedIssuer,
        _ client: OAuthClient,
        isVerified: Bool
    ) async throws -> AccessToken {
        let time = rules.introspectionCacheTime.seconds
        let claims = try await introspection.claims(digest, time, isVerified: isVerified, now: host.now) {
            try await client.introspect(token)
        }
        return try IntrospectedToken(issuer: issuer, resource: resource, isVerified: isVerified).check(
            claims,
            now: host.now(),
            leeway: rules.clockLeeway.seconds
        )
    }

    // MARK: - Proofs

    /// - Returns: The nonce for the client's next proof, if the client needs a new nonce.
    private func checkProof(_ request: HTTPRequest, _ token: Secret, _ thumbprint: String) async throws -> String? {
        guard rules.dpop.isAccepted else {
            throw TokenFailure.proofsAreNotAccepted
        }
        let now = host.now()
        let verification = ProofVerification(
            algorithms: rules.dpop.algorithms,
            window: rules.dpop.window.seconds,
            nonces: nonces
        )
        let proof = try verification.check(
            request.headerFields[values: .dpop],
            method: request.method.rawValue,
            address: try rules.address(request, resource),
            token: token,
            thumbprint: thumbprint,
            now: now
        )
        // Only a proof that passed every other check is stored, so that invalid proofs cannot fill the cache.
        guard try await rules.dpop.proofs.isFirstUse(of: proof.identifier, at: now, within: rules.dpop.window * 2)
        else {
            throw TokenFailure.invalidProof("it was replayed (jti)")
        }
        return proof.nextNonce
    }
}

extension ResourceServer: CustomStringConvertible, NonReflectable {
    /// The resource and its issuers.
    public var description: String { "\(resource), tokens of \(issuers.map(\.name).joined(separator: ", "))" }
}
