import AuthFlow
import AuthFlowEssentials

extension OIDCEmulator {
    /// The state of the provider.
    struct State {
        var keys: EmulatorKeys
        var clients: [Client]
        var settings = Settings()
        var requests: [ReceivedRequest] = []
        var pending: [String: Authorization] = [:]
        var sessions: [String: Session] = [:]
        /// The clients to which each user has consented.
        var consents: [Int: Set<String>] = [:]
        var codes: [String: IssuedCode] = [:]
        var accessTokens: [String: Grant] = [:]
        var tokensWithoutUser: [String: TokenWithoutUser] = [:]
        var refreshTokens: [String: RefreshToken] = [:]
        var nonceNumber = 1
        var usedProofs: Set<String> = []
        var usedAssertions: Set<String> = []
        var fetchedObjects: [String: String] = [:]
        var trustedIssuers: [String: JSON] = [:]
        var identityAudiences: [String: String] = [:]
        var pushedRequests: [String: PushedRequest] = [:]
        var deviceSecrets: [String: DeviceSession] = [:]
        var deviceCodes = DeviceCodes<Grant>()
        var tenancy: Tenancy?

        /// Whether a refresh token can be used: a rotated token once, and again within the leeway.
        func isUsable(_ token: RefreshToken, at now: Date) -> Bool {
            guard case .rotating(let leeway) = settings.refreshPolicy, let usedAt = token.usedAt else { return true }
            return now.timeIntervalSince(usedAt) < leeway
        }

        /// Revokes all tokens of one sign-in.
        mutating func revoke(family: String) {
            accessTokens = accessTokens.filter { $0.value.family != family }
            refreshTokens = refreshTokens.filter { $0.value.family != family }
        }
    }

    /// A refresh token. It remains stored after its use, so that reuse can be detected.
    struct RefreshToken {
        let grant: Grant
        /// The identifier that all tokens of one sign-in share.
        let family: String
        var usedAt: Date?
    }

    /// An access token that does not belong to a session.
    struct TokenWithoutUser {
        let client: Client
        let subject: String
        let scopes: String
    }

    /// A pushed authorization request (RFC 9126).
    struct PushedRequest {
        let parameters: FormParameters
        let clientID: String
        let expiresAt: Date
    }

    /// A user's session in a browser.
    struct Session {
        let userIndex: Int
        let began: Date
    }

    /// A pending authorization request, until the user decides.
    struct Authorization {
        let parameters: FormParameters
        let client: Client
        let redirectURI: String
        var session: Session?
        /// The device code that the user approves or denies; nil if the response is sent to the redirect URI.
        var deviceCode: String?
        var scopes: [String] { (parameters["scope"] ?? "").split(separator: " ").map(String.init) }
    }

    /// An issued authorization code.
    struct IssuedCode {
        var grant: Grant
        let expiresAt: Date
        var isUsed = false
    }

    /// A user's grant to a client.
    struct Grant {
        let authorization: Authorization
        let session: Session
        /// The thumbprint of the key to which the tokens are bound.
        var thumbprint: String?
        /// The authentication context class of the sign-in, if an emulator that wraps this one specifies it.
        var acr: String?
        /// The session that the apps of a vendor share.
        var sid: String?
        /// The identifier that all tokens of one client's sign-in share.
        var family: String?
        var scopes: [String] { authorization.scopes }
    }
}
