public import AuthFlow
import Synchronization

extension OIDCEmulator {
    /// The settings of a provider, which are properties of ``OIDCEmulator``. They can be changed at any time.
    public struct Settings: Sendable {
        /// The fault to inject; nil for none.
        public var fault: EmulatorFault?
        /// The signature algorithm of ID Tokens. HMAC algorithms use the client's secret.
        public var signingAlgorithm = SignatureAlgorithm.es256
        /// The stated lifetime of access tokens (`expires_in`), in seconds. The provider itself also accepts expired tokens.
        public var accessTokenLifetime: Int64 = 3600
        /// The rotation policy for refresh tokens.
        public var refreshPolicy = RefreshPolicy.rotating(leeway: 0)
        /// Whether the token endpoint requires DPoP proofs, and whether they must contain a nonce.
        public var dpop = DPoPPolicy.optional
        /// Whether the userinfo endpoint requires a nonce in DPoP proofs.
        public var resourceRequiresNonce = false
        /// Whether pushed authorization requests (RFC 9126) are unsupported, optional, or required.
        public var pushedRequests = PushedRequests.never
        /// The key that decrypts request objects; nil if encrypted request objects are not supported.
        public var requestDecryptionKey: DecryptionKey?
        /// Fetches request objects from their URLs (`request_uri`); nil if they are not fetched.
        public var fetchesRequestObjects: (@Sendable (_ url: String) async throws -> String)?
        /// The native SSO settings; nil if native SSO is disabled.
        public var nativeSSO: NativeSSOSettings?
        /// Whether public clients may introspect tokens.
        public var allowsPublicIntrospection = false
        /// Responses to polls with a device code, sent in order before the regular responses; each is used once.
        public var devicePollResponses: [DevicePollResponse] = []
        /// The minimum interval between polls with a device code, in seconds.
        public var devicePollInterval = 5.0
        /// Whether each sign-in creates a separate session (`sid` in ID Tokens). Clients can receive a logout token when
        /// the session ends.
        public var hasSessionIDs = false
        /// Returns the response to a request, to emulate the endpoints and formats of a specific provider; nil for the standard responses.
        public var customResponse: (@Sendable (EmulatedExchange) -> TransportResponse)?
    }

    /// A setting.
    public subscript<Value: Sendable>(dynamicMember setting: any WritableKeyPath<Settings, Value> & Sendable) -> Value {
        get { state.withLock { $0.settings[keyPath: setting] } }
        set { state.withLock { $0.settings[keyPath: setting] = newValue } }
    }

    /// The current settings.
    var settings: Settings { state.withLock { $0.settings } }

    /// A rotation policy for refresh tokens.
    public enum RefreshPolicy: Sendable, Hashable {
        /// Each refresh token can be used once. Reuse ends the session, because the token may have been stolen (RFC 9700 section 4.14.2);
        /// within the leeway, in seconds, reuse is treated as a retry after a lost response instead.
        case rotating(leeway: Double)
        /// Refresh tokens are not rotated: they stay valid, and refresh responses do not contain a refresh token.
        case notRotated
    }

    /// Revokes every access token. Refresh tokens stay valid.
    public func revokeAccessTokens() {
        state.withLock { state in
            state.accessTokens = [:]
            state.tokensWithoutUser = [:]
        }
    }

    /// Revokes every refresh token. Browser sessions and device secrets stay valid.
    public func endSessions() { state.withLock { $0.refreshTokens = [:] } }

    /// The requests that the emulator has received, oldest first.
    public var receivedRequests: [ReceivedRequest] { state.withLock { $0.requests } }

    /// The requests that the emulator has received, as `METHOD /path`, oldest first.
    public var requests: [String] { receivedRequests.map { "\($0.request.method) \($0.path)" } }
}
