import AuthFlowCredentials
public import AuthFlowOAuth
import Crypto

/// A sign-in method: a grant, and its user interface.
public enum SignInMethod: Sendable {
    /// The authorization code grant, in a user agent on this machine (RFC 6749 section 4.1).
    case userAgent(any UserAgent)

    /// The device authorization grant, on another device (RFC 8628).
    case device(any DevicePresenter)

    /// Client credentials, without a user (RFC 6749 section 4.4). New tokens are requested after expiry.
    case clientCredentials

    /// An assertion, from a non-interactive source (RFC 7523 section 2.1). A new assertion is obtained whenever a
    /// token has expired.
    case jwtBearer(AssertionSource)

    /// The flow, identified by the name that configurations use.
    package var flow: SignInFlow {
        switch self {
        case .userAgent: .authorizationCode
        case .device: .device
        case .clientCredentials: .clientCredentials
        case .jwtBearer: .jwtBearer
        }
    }

    /// The part that the method adds to the name of the record of its tokens; nil for a method that signs a user in.
    func recordName(for client: OAuthClient, _ scope: MachineTokenSharing) -> String? {
        func name(_ parts: String..., purpose: ProviderRequest.Purpose) -> String {
            let request = scope == .byRequest ? [client.requestDigest(of: purpose)] : []
            return ([flow.rawValue] + parts + request).joined(separator: " ")
        }
        return switch self {
        case .userAgent, .device: nil
        case .clientCredentials: name(purpose: .clientCredentials)
        case .jwtBearer(let source):
            // The identity of a source may contain a subject or a path, but a record's name is not secret.
            name(Base64URL.encode(SHA256.hash(data: Array(source.identity.utf8))), purpose: .jwtBearer)
        }
    }

    /// The owner of the tokens, if it can change while the configuration stays the same.
    var owner: (@Sendable () async throws -> String)? {
        if case .jwtBearer(let source) = self { source.owner } else { nil }
    }

    /// Obtains a credential without signing a user in; nil for a method that signs a user in.
    /// - Parameter owner: The expected owner of the tokens; nil if the owner cannot change.
    func renewal(of owner: String? = nil) -> CredentialManager.Renewal? {
        switch self {
        case .userAgent, .device: nil
        case .clientCredentials:
            { client, resource in try await client.clientCredentials(resources: resource.map { [$0] }) }
        case .jwtBearer(let source):
            { client, resource in
                let assertion = try await source.assertion(for: try await client.assertionRequest())
                // If another user signed in during the request, the token would be stored as the first user's.
                let present = try await source.owner?()
                guard owner == nil || present == owner else {
                    throw AuthError(
                        .accountMismatch,
                        "The user of \(source.name) has changed in the meantime. Try again."
                    )
                }
                return try await client.jwtBearer(assertion, resources: resource.map { [$0] })
            }
        }
    }
}

/// The machine-to-machine clients that share a stored token.
package enum MachineTokenSharing: Sendable {
    /// Clients that request the same scopes, resources and parameters, so that processes with
    /// different configurations, for example during an upgrade, do not replace each other's tokens.
    case byRequest
    /// All clients of one resource, because their scopes change with the resource's challenges. A sign-out
    /// finds their token regardless of the configuration.
    case byResource
}

/// A sign-in flow, identified by the name that configurations use.
public enum SignInFlow: String, Sendable, Hashable, CaseIterable {
    /// The authorization code grant (RFC 6749 section 4.1), with a user agent on this machine.
    case authorizationCode = "authorization_code"

    /// On another device: the device authorization grant (RFC 8628).
    case device

    /// Without a user, as the client itself: the client credentials grant (RFC 6749 section 4.4).
    case clientCredentials = "client_credentials"

    /// With an assertion, such as a JWT from the client's platform: the JWT bearer grant (RFC 7523 section 2.1).
    case jwtBearer = "jwt_bearer"

    /// Whether the flow shows the user a page or a code.
    package var hasUser: Bool { self == .authorizationCode || self == .device }
}

/// The methods of a client in the order in which they are tried, resolved before anything is shown.
package struct SignInMethods: Sendable {
    package var methods: [SignInMethod]

    /// The client's only method, if it needs no user; nil if there are several methods, because the client's own token must not
    /// replace a user's token.
    package var withoutUser: SignInMethod? { methods.count == 1 ? methods.first { $0.renewal() != nil } : nil }

    /// The maximum time for which a sign-in with one of the methods waits for the user. A device code may be valid for longer than the timeout of
    /// a sign-in page.
    /// - Parameter timeout: The timeout of a sign-in page.
    package func maximumWait(_ timeout: Duration) -> Duration {
        let longest = DeviceAuthorization.maximumLifetime
        let codes = methods.compactMap { method -> Duration? in
            guard case .device(let presenter) = method else { return nil }
            return min(presenter.maximumWait ?? longest, longest)
        }
        return codes.reduce(timeout) { max($0, $1) }
    }

    /// The requested flows that are unavailable here, with the reasons.
    package var skipped: [(flow: SignInFlow, reason: AuthError)] = []

    /// The last method.
    /// - Throws: The reason why no method is available: usually ``AuthError`` with `no_user_agent`.
    package func requireLast() throws(AuthError) -> SignInMethod {
        guard let last = methods.last else {
            throw skipped.last?.reason ?? AuthError(.noUserAgent, "This client has no sign-in method.")
        }
        return last
    }

    package init(methods: [SignInMethod]) { self.methods = methods }
}
