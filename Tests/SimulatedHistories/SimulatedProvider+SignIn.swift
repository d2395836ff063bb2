import AuthFlow
import AuthFlowEssentials
import AuthFlowSimulation
import Crypto

// The sign-ins of users in browsers, and the end of their sessions (OpenID Connect Back-Channel Logout 1.0).

extension SimulatedProvider {
    /// A user's session at the provider in one browser, which `sid` identifies in ID Tokens.
    struct UserSession {
        let user: String
        var isEnded = false
    }

    /// An authorization code.
    struct Code {
        let session: Int
        let challenge: String
        let nonce: String
        /// The browser to which the code was sent.
        let browser: String
        /// The grant for which the code was exchanged.
        var grant: Int?
    }

    /// Signs a user in at the provider.
    /// - Returns: The session at the provider.
    package func beginSession(of user: String) -> Int {
        userSessions.append(UserSession(user: user))
        return userSessions.count - 1
    }

    /// The provider's response to an authorization request: the parameters of the redirect.
    package func authorize(_ url: String, in session: Int, of browser: String) -> (parameters: String, code: Int)? {
        let query = FormURLEncoding.decode(String(url.drop { $0 != "?" }.dropFirst()))
        guard let query, let state = query["state"], let challenge = query["code_challenge"] else { return nil }
        codes.append(Code(session: session, challenge: challenge, nonce: query["nonce"] ?? "", browser: browser))
        let code = codes.count - 1
        return ("code=code.\(code)&state=\(state)&iss=\(FormURLEncoding.encode(Self.issuer))", code)
    }

    /// Exchanges a code. Each code can be exchanged only once.
    func exchange(_ text: String, _ verifier: String) -> TransportResponse {
        let refused = Self.response(400, ["error": "invalid_grant"])
        guard let number = Int(text.dropFirst("code.".count)), codes.indices.contains(number) else { return refused }
        let code = codes[number]
        // RFC 7636 section 4.6.
        let challenge = Base64URL.encode(SHA256.hash(data: Array(verifier.utf8)))
        world.require(challenge == code.challenge, "\(text) is sent with the code verifier of another request")
        guard code.grant == nil, !userSessions[code.session].isEnded else {
            world.note("provider: \(text) is rejected")
            return refused
        }
        let user = userSessions[code.session].user
        grants.append(Grant(user: user, session: "sid.\(code.session)", resources: []))
        let grant = grants.count - 1
        codes[number].grant = grant
        grants[grant].userSession = code.session
        grants[grant].issuedAt = second
        world.note("provider: \(text) of \(user) is exchanged for grant \(grant)")
        let idToken = key.sign(
            [
                "iss": .string(Self.issuer), "sub": .string(user), "aud": "client", "iat": .integer(second),
                "exp": .integer(second + 300), "nonce": .string(code.nonce), "sid": .string("sid.\(code.session)"),
            ],
            type: "JWT"
        )
        return Self.response(
            200,
            [
                "access_token": .string("at.\(grant).0.-"), "refresh_token": .string("rt.\(grant).0"),
                "token_type": "Bearer", "expires_in": .integer(lifetime), "id_token": .string(idToken),
                "user": .string(user),
            ]
        )
    }

    /// The provider's wall clock.
    private var second: Int64 { Int64((Simulation.epoch + simulation.now / .seconds(1)).timeIntervalSince1970) }

    /// The subject of a logout token: a session, a user, or both.
    package enum LogoutSubject: CaseIterable { case session, user, sessionAndUser }

    /// Ends a session at the provider, or all sessions of its user.
    /// - Returns: The logout token for the application, and the grants that end.
    package func endSession(_ session: Int, of subject: LogoutSubject) -> (
        token: String, grants: [Int], issuedAt: Int64
    ) {
        let user = userSessions[session].user
        let ended = subject == .user ? userSessions.indices.filter { userSessions[$0].user == user } : [session]
        for session in ended { userSessions[session].isEnded = true }
        let meant = grants.indices.filter { grants[$0].userSession.map(ended.contains) ?? false }
        for grant in meant { end(grant, "the user signs out at the provider") }
        var claims: [String: JSON] = [
            "iss": .string(Self.issuer), "aud": "client", "iat": .integer(second), "exp": .integer(second + 120),
            "jti": .string("logout.\(simulation.random.next())"),
            "events": ["http://schemas.openid.net/event/backchannel-logout": [:]],
        ]
        if subject != .session { claims["sub"] = .string(user) }
        if subject != .user { claims["sid"] = .string("sid.\(session)") }
        world.note("provider: \(user) signs out of sid.\(session) (\(subject)), which ends grants \(meant)")
        return (key.sign(.object(claims), type: "logout+jwt"), meant, second)
    }
}

/// The provider's signing key.
struct SimulatedKey {
    static let algorithm = SignatureAlgorithm.es256
    private let key: P256.Signing.PrivateKey

    init() {
        do {
            // Any nonzero scalar below the order of the curve is a private key, and this key need not be secret.
            key = try P256.Signing.PrivateKey(rawRepresentation: Array(repeating: 1, count: 32))
        } catch {
            preconditionFailure("A P-256 key of 32 bytes was rejected.")
        }
    }

    /// The JWK Set (RFC 7517).
    var publicKeys: JSON {
        let point = key.publicKey.rawRepresentation
        return [
            "keys": [
                [
                    "kty": "EC", "crv": "P-256", "use": "sig", "alg": .string(Self.algorithm.rawValue), "kid": "key",
                    "x": .string(Base64URL.encode(point.prefix(32))), "y": .string(Base64URL.encode(point.suffix(32))),
                ]
            ]
        ]
    }

    /// A JWT with these claims (RFC 7515).
    func sign(_ claims: JSON, type: String) -> String {
        let header: JSON = ["alg": .string(Self.algorithm.rawValue), "kid": "key", "typ": .string(type)]
        do {
            let signed = try [header, claims].map { Base64URL.encode(try $0.serialized()) }.joined(separator: ".")
            return "\(signed).\(Base64URL.encode(try key.signature(for: Array(signed.utf8)).rawRepresentation))"
        } catch {
            preconditionFailure("Claims cannot be signed.")
        }
    }
}
