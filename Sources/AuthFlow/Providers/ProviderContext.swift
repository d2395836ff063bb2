import HTTPTypes

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

/// What the engine lends an adapter while it works: the client's settings, and ways to ask the provider something.
public struct ProviderContext: Sendable {
    let engine: Engine

    /// The settings of the client.
    public var settings: ClientSettings { engine.settings }

    /// Time and randomness.
    public var host: HostServices { engine.host }

    /// What the apps of one maker share on this machine; nil when this client is in no group.
    public var sharedCredentials: SharedCredentialStore? { engine.shared }

    /// The provider's metadata, fetched once. Not to be asked from ``ProviderAdapter/metadata(in:)``, which answers it.
    public func metadata() async throws -> ProviderMetadata {
        try await engine.metadata()
    }

    /// Sends a call, bounded in time and size, following no redirect.
    /// - Throws: What ``HTTPTransport/send(_:)`` throws, or ``AuthError`` with `invalid_reply` for a redirect.
    public func send(_ call: TransportRequest) async throws -> TransportResponse {
        try await ExchangeLimits.send(call, by: engine.transport, clock: host.clock)
    }

    /// Withdraws tokens at the provider's revocation endpoint (RFC 7009).
    /// - Throws: ``AuthError`` with `unsupported` when the provider has none, or what the first refusal was; the other tokens
    ///   have been tried all the same.
    public func revoke(_ tokens: [RevocableToken]) async throws {
        try await engine.revoke(tokens)
    }

    /// The value of an `Authorization` field that names the client and proves it by its secret (RFC 7617), for a provider's
    /// own APIs; nil for a client without a secret.
    public var basicAuthorization: Secret? {
        settings.authentication.secret.map {
            Secret("Basic \(Data("\(settings.clientID):\($0.exposed)".utf8).base64EncodedString())")
        }
    }

    /// Checks who signed a token: the provider with one of its keys, or, for the HMAC algorithms, whoever has the client's
    /// secret. Which algorithms are acceptable has been checked before.
    ///
    /// A public key is never used as a secret: the two kinds of key do not meet (RFC 8725 section 2.1).
    /// - Parameters:
    ///   - jws: The token.
    ///   - metadata: The provider's.
    ///   - refusal: Makes the error to throw from a reason.
    func checkSignature(
        of jws: JWS,
        metadata: ProviderMetadata,
        refusal: @Sendable (_ reason: String) -> AuthError
    ) async throws -> SignatureProof {
        let algorithm = jws.header.algorithm
        if let definition = algorithm.definition, definition.scheme == .hmac {
            let isValid = settings.authentication.secret.map {
                HMACSignature.isValid(jws.signature, for: jws.signedBytes, hash: definition.hash, secret: $0)
            }
            guard isValid == true else { throw refusal("its signature is wrong") }
            return SignatureProof()
        }
        let context = self
        let verdict = try await engine.keys.verdict(
            on: jws,
            at: try metadata.required(\.jwksURI, "key set (jwks_uri)")
        ) { try await context.send(TransportRequest(.get, $0, headerFields: [.accept: "application/json"])) }
        switch verdict {
        case .verified: return SignatureProof()
        case .wrongSignature: throw refusal("its signature is wrong")
        case .noKey: throw refusal("none of the provider's keys fits its signature")
        }
    }
}

/// Evidence that the signature of a token was checked: ``ProviderContext/checkSignature(of:metadata:refusal:)`` alone makes it.
struct SignatureProof: Sendable {
    fileprivate init() {}
}
