import AuthFlowJSON
import HTTPTypes
import Synchronization

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

/// The nonces that servers want to see in the next proof, by origin (RFC 9449 sections 8 and 9).
final class DPoPNonces: Sendable {
    private let nonces = Mutex<[String: String]>([:])

    /// The most origins that are remembered: a client talks to its provider and a few APIs.
    private static let limit = 32

    func nonce(for origin: String) -> String? { nonces.withLock { $0[origin] } }

    /// Remembers what a response says.
    /// - Returns: The nonce, when there is one.
    func learn(from response: TransportResponse, origin: String) -> String? {
        // Section 8.1: nonce = 1*NQCHAR, the characters of a scope token.
        guard let nonce = response.head.headerFields[.dpopNonce], !nonce.isEmpty, nonce.utf8.count <= 1024,
            nonce.utf8.allSatisfy({ (0x21...0x7E).contains($0) && $0 != 0x22 && $0 != 0x5C })
        else { return nil }
        nonces.withLock { nonces in
            if nonces.count >= Self.limit, nonces[origin] == nil { nonces.removeAll() }
            nonces[origin] = nonce
        }
        return nonce
    }
}

extension Engine {
    /// A key for the tokens of a new sign-in; nil when they are not to be bound to one.
    /// - Throws: ``AuthError`` with `unsupported` when the provider announces algorithms and ES256 is not among them.
    func newDPoPKey(at metadata: ProviderMetadata) throws(AuthError) -> DPoPKey? {
        guard settings.usesDPoP else { return nil }
        if let algorithms = metadata.json["dpop_signing_alg_values_supported"]?.strings, !algorithms.contains("ES256") {
            throw AuthError(
                .unsupported,
                "The provider \(metadata.issuer) takes no proofs that are signed with ES256, the only ones that are made here (RFC 9449)."
            )
        }
        return try DPoPKey(host: host)
    }

    /// Sends a call, with a proof when tokens are bound to a key.
    ///
    /// A server that wants a nonce gets one more try with the nonce it names, and no third (RFC 9449 sections 8 and 9).
    /// - Parameters:
    ///   - call: The call.
    ///   - key: The key that the tokens are bound to; nil for none.
    ///   - accessToken: The token that is sent along; nil at a token endpoint.
    func send(_ call: TransportRequest, provenBy key: DPoPKey?, accessToken: Secret? = nil) async throws
        -> TransportResponse
    {
        guard let key else { return try await context.send(call) }
        let endpoint = try Endpoint(call.url)
        func attempt(_ nonce: String?) async throws -> (response: TransportResponse, nonce: String?) {
            var call = call
            call.head.headerFields[.dpop] = try key.proof(
                method: call.head.method.rawValue,
                endpoint: endpoint,
                nonce: nonce,
                accessToken: accessToken,
                host: host
            )
            let response = try await context.send(call)
            return (response, dpopNonces.learn(from: response, origin: endpoint.origin))
        }
        let used = dpopNonces.nonce(for: endpoint.origin)
        let first = try await attempt(used)
        guard first.response.wantsDPoPNonce, let nonce = first.nonce, nonce != used else { return first.response }
        return try await attempt(nonce).response
    }

    /// Sends a call with an access token in the header: `Bearer`, or `DPoP` with a proof.
    func send(_ call: TransportRequest, with tokens: TokenSet) async throws -> TransportResponse {
        var call = call
        // RFC 6750 section 2.1: in the header. Its other two ways leave the token in logs.
        let scheme = tokens.dpopKey == nil ? "Bearer" : "DPoP"
        call.head.headerFields[.authorization] = "\(scheme) \(tokens.accessToken.exposed)"
        return try await send(call, provenBy: tokens.dpopKey, accessToken: tokens.accessToken)
    }
}

extension TransportResponse {
    /// Whether a server refuses a proof for want of its nonce: a token endpoint says so in its body, a resource in
    /// `WWW-Authenticate`, whose scheme has no case (RFC 9110 section 11.1).
    fileprivate var wantsDPoPNonce: Bool {
        switch status {
        case 400, 401:
            let isAsked = AuthenticationChallenge.challenges(in: self).contains {
                $0.scheme == "dpop" && $0.parameters["error"] == "use_dpop_nonce"
            }
            if isAsked { return true }
            return (try? JSON(parsing: body))?["error"]?.string == "use_dpop_nonce"
        default: return false
        }
    }
}

extension HTTPField.Name {
    static let dpop = Self("DPoP") ?? .authorization
    static let dpopNonce = Self("DPoP-Nonce") ?? .authorization
}
