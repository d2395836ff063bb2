import AuthFlow
import AuthFlowJSON
import AuthFlowTesting
import HTTPTypes
import Synchronization

/// An authorization server that rotates refresh tokens, revokes the whole family when one is used twice (RFC 9700 section 4.14.2), and
/// counts.
final class CountingProvider: ProviderEmulator {
    struct Counts: Sendable {
        var signIns: Int64 = 0
        var refreshes: Int64 = 0
        /// A refresh token that had been used was sent again.
        var reuses: Int64 = 0
        /// A token of a family that was revoked before.
        var refused: Int64 = 0
    }

    private struct State {
        var counts = Counts()
        /// The family of each refresh token that is good, and of each that was used. Families are numbers.
        var good: [String: Int64] = [:]
        var used: [String: Int64] = [:]
        var revoked: Set<Int64> = []
        var families: Int64 = 0
    }

    let origin: String
    var origins: [String] { [origin] }
    private let lifetime: Int64
    private let delay: Duration
    private let state = Mutex(State())

    /// - Parameters:
    ///   - origin: Where it is served.
    ///   - lifetime: How long an access token is good, in seconds.
    ///   - delay: How long a refresh takes.
    init(origin: String, lifetime: Int64, delay: Duration) {
        self.origin = origin
        self.lifetime = lifetime
        self.delay = delay
    }

    func handle(_ request: HTTPRequest, body: [UInt8]) async -> TransportResponse {
        switch request.path?.split(separator: "?").first {
        case "/.well-known/openid-configuration": respond(metadata)
        case "/token": await token(FormURLEncoding.decode(String(decoding: body, as: UTF8.self)) ?? FormParameters())
        case "/counts": respond(counts)
        default: respond([:], status: .notFound)
        }
    }

    private var metadata: JSON {
        [
            "issuer": .string(origin), "authorization_endpoint": .string("\(origin)/authorize"),
            "token_endpoint": .string("\(origin)/token"), "response_types_supported": ["code"],
            "code_challenge_methods_supported": ["S256"],
            "token_endpoint_auth_methods_supported": ["client_secret_basic"],
            "subject_types_supported": ["public"], "id_token_signing_alg_values_supported": ["RS256"],
            "jwks_uri": .string("\(origin)/keys"),
        ]
    }

    private var counts: JSON {
        let counts = state.withLock { $0.counts }
        return [
            "sign_ins": .integer(counts.signIns), "refreshes": .integer(counts.refreshes),
            "reuses": .integer(counts.reuses), "refused": .integer(counts.refused),
        ]
    }

    private func token(_ form: FormParameters) async -> TransportResponse {
        guard form["grant_type"] == "refresh_token" else {
            let family = state.withLock { state in
                state.counts.signIns += 1
                state.families += 1
                return state.families
            }
            return issue(family)
        }
        try? await Task.sleep(for: delay)
        let sent = form["refresh_token"] ?? ""
        let family = state.withLock { state -> Int64? in
            if let family = state.good.removeValue(forKey: sent) {
                state.used[sent] = family
                guard !state.revoked.contains(family) else {
                    state.counts.refused += 1
                    return nil
                }
                state.counts.refreshes += 1
                return family
            }
            if let family = state.used[sent], state.revoked.insert(family).inserted {
                state.counts.reuses += 1
            } else {
                state.counts.refused += 1
            }
            return nil
        }
        guard let family else { return respond(["error": "invalid_grant"], status: .badRequest) }
        return issue(family)
    }

    private func issue(_ family: Int64) -> TransportResponse {
        let token = Base64URL.encode(HostServices.systemRandomBytes(24))
        state.withLock { $0.good[token] = family }
        return respond([
            "access_token": .string("a\(token)"), "token_type": "Bearer", "expires_in": .integer(lifetime),
            "refresh_token": .string(token),
        ])
    }

    private func respond(_ json: JSON, status: HTTPResponse.Status = .ok) -> TransportResponse {
        var head = HTTPResponse(status: status)
        head.headerFields[.contentType] = "application/json"
        head.headerFields[.cacheControl] = "no-store"
        return TransportResponse(head: head, body: (try? json.serialized()) ?? [])
    }
}
