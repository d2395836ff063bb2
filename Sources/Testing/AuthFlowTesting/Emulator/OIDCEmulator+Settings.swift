public import AuthFlow
import Synchronization

extension OIDCEmulator {
    /// The fault to inject; nil for none.
    public var fault: EmulatorFault? {
        get { state.withLock { $0.fault } }
        set { state.withLock { $0.fault = newValue } }
    }

    /// The key that request objects may be encrypted to; nil for none.
    public var requestDecryptionKey: DecryptionKey? {
        get { state.withLock { $0.requestDecryptionKey } }
        set { state.withLock { $0.requestDecryptionKey = newValue } }
    }

    /// The signature algorithm of ID Tokens. HMAC algorithms use the client's secret.
    public var signingAlgorithm: SignatureAlgorithm {
        get { state.withLock { $0.signingAlgorithm } }
        set { state.withLock { $0.signingAlgorithm = newValue } }
    }

    /// The lifetime of access tokens, in seconds.
    public var accessTokenLifetime: Int64 {
        get { state.withLock { $0.accessTokenLifetime } }
        set { state.withLock { $0.accessTokenLifetime = newValue } }
    }

    /// A rotation policy for refresh tokens.
    public enum RefreshPolicy: Sendable, Hashable {
        /// Each refresh token can be used once. Reuse ends the session, because the token may have been stolen (RFC 9700 section 4.14.2);
        /// within the leeway, in seconds, reuse is treated as a retry after a lost response instead.
        case rotating(leeway: Double)
        /// Refresh tokens are not rotated: they stay valid, and refresh responses do not contain one.
        case lasting
    }

    /// The rotation policy for refresh tokens.
    public var refreshPolicy: RefreshPolicy {
        get { state.withLock { $0.refreshPolicy } }
        set { state.withLock { $0.refreshPolicy = newValue } }
    }

    /// Fetches request objects from their URLs (`request_uri`); nil if they are not fetched.
    public var fetchesRequestObjects: (@Sendable (_ url: String) async throws -> String)? {
        get { state.withLock { $0.fetchesRequestObjects } }
        set { state.withLock { $0.fetchesRequestObjects = newValue } }
    }

    /// Returns the response to a request, to emulate the endpoints and formats of one provider; nil for the standard responses.
    public var customResponse: (@Sendable (EmulatedExchange) -> TransportResponse)? {
        get { state.withLock { $0.customResponse } }
        set { state.withLock { $0.customResponse = newValue } }
    }

    /// Revokes every access token. Refresh tokens stay valid.
    public func endAccessTokens() { state.withLock { $0.accessTokens = [:] } }

    /// Ends every session, as an administrator would: no refresh token stays valid.
    public func endSessions() { state.withLock { $0.refreshTokens = [:] } }

    /// Whether the token endpoint requires DPoP proofs, and nonces in them.
    public var dpop: DPoPPolicy {
        get { state.withLock { $0.dpop } }
        set { state.withLock { $0.dpop = newValue } }
    }

    /// Whether the userinfo endpoint requires a nonce in DPoP proofs.
    public var resourceWantsNonce: Bool {
        get { state.withLock { $0.resourceWantsNonce } }
        set { state.withLock { $0.resourceWantsNonce = newValue } }
    }

    /// The native single sign-on settings; nil to disable it.
    public var nativeSSO: NativeSSOSettings? {
        get { state.withLock { $0.nativeSSO } }
        set { state.withLock { $0.nativeSSO = newValue } }
    }

    /// Whether public clients may introspect tokens.
    public var answersPublicClients: Bool {
        get { state.withLock { $0.answersPublicClients } }
        set { state.withLock { $0.answersPublicClients = newValue } }
    }

    /// Responses to polls of a device code, sent before the regular ones, in order; each is used once.
    public var devicePollResponses: [DevicePollResponse] {
        get { state.withLock { $0.devicePollResponses } }
        set { state.withLock { $0.devicePollResponses = newValue } }
    }

    /// The minimum interval between polls of a device code, in seconds.
    public var devicePollInterval: Double {
        get { state.withLock { $0.devicePollInterval } }
        set { state.withLock { $0.devicePollInterval = newValue } }
    }

    /// Whether authorization requests can be pushed (RFC 9126): never (the default), optionally, or always.
    public var pushedRequests: PushedRequests {
        get { state.withLock { $0.pushPolicy } }
        set { state.withLock { $0.pushPolicy = newValue } }
    }

    /// The requests that the emulator has received, oldest first.
    public var receivedRequests: [ReceivedRequest] { state.withLock { $0.requests } }

    /// The requests that the emulator has received, as `METHOD /path`, oldest first.
    public var requests: [String] { receivedRequests.map { "\($0.request.method) \($0.path)" } }
}
