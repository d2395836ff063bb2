public import AuthFlowOAuth

extension AssertionSource {
    /// The maximum size of a file or response, in bytes.
    private static let maximumSize = 64 * 1024

    /// A file that the platform keeps up to date: a projected service account token, or a SPIFFE JWT-SVID. It is read on each use.
    /// - Parameters:
    ///   - path: The file.
    ///   - audience: The required audience of the JWT; default: the authorization server's issuer identifier.
    public static func file(path: String, audience: String? = nil) -> AssertionSource {
        let name = "the file \(DisplayText.sanitized(path))"
        return AssertionSource(name, audience: audience) { _ in
            guard let bytes = BoundedFile.contents(ofPlainFile: path, maximumSize: maximumSize) else {
                throw AuthError(
                    .assertionUnusable,
                    "No assertion is available: \(name) does not exist, is not a regular file, cannot be read, or is larger than \(maximumSize) bytes."
                )
            }
            return try Assertion(printed: bytes, by: name)
        }
    }

    /// An environment variable that a CI system sets for a job. Its value does not change during the job.
    /// - Parameters:
    ///   - variable: The variable's name.
    ///   - audience: The required audience of the JWT; default: the authorization server's issuer identifier.
    public static func environment(_ variable: String, audience: String? = nil) -> AssertionSource {
        let name = "the environment variable \(DisplayText.sanitized(variable))"
        return AssertionSource(name, audience: audience) { request in
            guard let text = request.host.environment[variable], !text.isEmpty else {
                throw AuthError(
                    .assertionUnusable,
                    "No assertion is available: \(name) is unset or empty. Request the token in the job definition."
                )
            }
            return try Assertion(printed: Array(text.utf8), by: name)
        }
    }

    /// The CI platform of a job, which issues ID Tokens on request: `ACTIONS_ID_TOKEN_REQUEST_URL` is the endpoint, and
    /// `ACTIONS_ID_TOKEN_REQUEST_TOKEN` authorizes the request.
    /// - Parameter audience: The audience to request; default: the authorization server's issuer identifier.
    public static func actionsRunner(audience: String? = nil) -> AssertionSource {
        let name = "the job's runner"
        let identity = "\(name)\u{0}\(audience ?? "")"
        return AssertionSource(name, identity: identity, audience: audience) { request in
            let environment = request.host.environment
            guard let url = environment["ACTIONS_ID_TOKEN_REQUEST_URL"], !url.isEmpty,
                let token = environment["ACTIONS_ID_TOKEN_REQUEST_TOKEN"], !token.isEmpty
            else {
                throw AuthError(
                    .assertionUnusable,
                    "No assertion is available: ACTIONS_ID_TOKEN_REQUEST_URL or ACTIONS_ID_TOKEN_REQUEST_TOKEN is not set or is empty. Grant the job the permission \"id-token: write\", which jobs for pull requests from forks cannot have."
                )
            }
            let audience = audience ?? request.issuer
            let endpoint = try Endpoint(try Endpoint(url, name: "runner's URL").url(adding: ["audience": audience]))
            let fields: HTTPFields = [.authorization: "Bearer \(token)", .accept: "application/json"]
            let response = try await ExchangeLimits.send(
                TransportRequest(.get, endpoint, headerFields: fields, maximumResponseSize: maximumSize),
                by: request.transport,
                clock: request.host.clock
            )
            try response.requireAvailable(from: "The job's runner", now: request.host.now())
            guard response.status == 200, let text = try response.json(from: name)["value"]?.string else {
                throw AuthError(
                    .assertionUnusable,
                    "\(name) returned no ID Token (status \(response.status)).",
                    status: response.status
                )
            }
            return try Assertion(printed: Array(text.utf8), by: name)
        }
    }

    /// A JWT that is signed with the client's key. The server must trust the public key for this issuer. The JWT contains the requested scopes
    /// (`scope`), as some servers require.
    /// - Parameters:
    ///   - key: Signs the assertions, each of which is valid for one minute.
    ///   - subject: `sub`: the subject of the access token.
    ///   - issuer: `iss`; default: the `client_id`.
    ///   - audience: `aud`; default: the authorization server's issuer identifier.
    ///   - algorithm: The algorithm; default: the best that the key supports.
    public static func signed(
        by key: SigningKeySource,
        subject: String,
        issuer: String? = nil,
        audience: String? = nil,
        algorithm: SignatureAlgorithm? = nil
    ) -> AssertionSource {
        let identity = [issuer ?? "", subject, audience ?? ""].joined(separator: "\u{0}")
        return AssertionSource("the client's key", identity: identity, audience: audience) { request in
            let key = try await key.loadKey()
            var own: [String: JSON] = [
                "iss": .string(issuer ?? request.clientID), "sub": .string(subject),
                "aud": .string(audience ?? request.issuer), "jti": .string(request.identifier),
            ]
            // Google (service accounts) and DocuSign read the scopes from the assertion. RFC 7523 section 3: it "MAY contain other claims".
            if !request.scopes.isEmpty { own["scope"] = .string(request.scopes.joined(separator: " ")) }
            let times = SignedTimes.claims(at: request.time, lifetime: ClientAssertion.lifetime)
            let jwt = try await key.jwt(
                .object(own.merging(times) { $1 }),
                type: "JWT",
                algorithm: try key.algorithm(algorithm, allowed: nil, advertised: nil)
            )
            return try Assertion(Secret(jwt))
        }
    }
}
