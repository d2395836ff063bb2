import AuthFlow
import AuthFlowJSON
import AuthFlowTesting
import HTTPTypes
import Synchronization

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

/// An authorization server that rotates refresh tokens, revokes the token family if a refresh token is reused (RFC 9700
/// section 4.14.2), and counts these events.
final class CountingProvider: ProviderEmulator {
    struct Counts: Sendable {
        var signIns: Int64 = 0
        var refreshes: Int64 = 0
        /// The number of token families that were revoked because a refresh token was reused.
        var reuses: Int64 = 0
        /// The number of requests with a token of a family that was already revoked, or with an unknown token.
        var refused: Int64 = 0
    }

    private struct State {
        var counts = Counts()
        /// The token family of each valid refresh token, and of each refresh token that was used. Families are numbers.
        var good: [String: Int64] = [:]
        var used: [String: Int64] = [:]
        var revoked: Set<Int64> = []
        var families: Int64 = 0
        /// The number of refresh requests so far; the first requests hang or are slow.
        var requests = 0
        /// The nonce and the client of each code.
        var codes: [String: (nonce: String?, client: String)] = [:]
    }

    let origin: String
    var origins: [String] { [origin] }
    private let lifetime: Int64
    private let delay: Duration
    private let hanging: Int
    private let slow: Int
    private let keys: EmulatorKeys
    private let state = Mutex(State())

    /// - Parameters:
    ///   - origin: The server's origin.
    ///   - lifetime: The lifetime of an access token, in seconds.
    ///   - delay: The duration of a refresh.
    ///   - hanging: The number of initial refreshes that are neither answered nor processed.
    ///   - slow: The number of initial refreshes that take `delay`; later refreshes take no time.
    init(origin: String, lifetime: Int64, delay: Duration, hanging: Int, slow: Int) throws {
        self.keys = try EmulatorKeys()
        self.origin = origin
        self.lifetime = lifetime
        self.delay = delay
        self.hanging = hanging
        self.slow = slow
    }

    func handle(_ request: HTTPRequest, body: [UInt8]) async -> TransportResponse {
        switch request.path?.split(separator: "?").first {
        case "/.well-known/openid-configuration": respond(metadata)
        case "/authorize":
            authorize(FormURLEncoding.decode(String((request.path ?? "").drop { $0 != "?" }.dropFirst())) ?? [:])
        case "/keys": respond((try? keys.jwks()) ?? [:])
        case "/token": await token(FormURLEncoding.decode(String(decoding: body, as: UTF8.self)) ?? FormParameters())
        case "/counts": respond(counts)
        default: respond([:], status: .notFound)
        }
    }

    /// Every user is already signed in, and consents.
    private func authorize(_ query: FormParameters) -> TransportResponse {
        let code = Base64URL.encode(HostServices.systemRandomBytes(24))
        state.withLock { $0.codes[code] = (query["nonce"], query["client_id"] ?? "") }
        var response = respond([:], status: .found)
        let state = query["state"] ?? ""
        response.head.headerFields[.location] =
            "\(query["redirect_uri"] ?? "")?code=\(code)&state=\(FormURLEncoding.encode(state))"
        return response
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
            let (family, request) = state.withLock { state in
                state.counts.signIns += 1
                state.families += 1
                return (state.families, form["code"].flatMap { state.codes.removeValue(forKey: $0) })
            }
            return issue(family, idToken: request.flatMap { idToken(family, $0.nonce, $0.client) })
        }
        let number = state.withLock { state in
            state.requests += 1
            return state.requests
        }
        if number <= hanging { try? await Task.sleep(for: .seconds(3600)) }
        if number <= slow { try? await Task.sleep(for: delay) }
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

    private func issue(_ family: Int64, idToken: String? = nil) -> TransportResponse {
        let token = Base64URL.encode(HostServices.systemRandomBytes(24))
        state.withLock { $0.good[token] = family }
        var json: [String: JSON] = [
            "access_token": .string("a\(token)"), "token_type": "Bearer", "expires_in": .integer(lifetime),
            "refresh_token": .string(token),
        ]
        json["id_token"] = idToken.map(JSON.string)
        return respond(.object(json))
    }

    private func idToken(_ user: Int64, _ nonce: String?, _ client: String) -> String? {
        let time = Int64(Date().timeIntervalSince1970)
        var claims: [String: JSON] = [
            "iss": .string(origin), "aud": .string(client), "sub": .string("user-\(user)"), "iat": .integer(time),
            "exp": .integer(time + 3600),
        ]
        claims["nonce"] = nonce.map(JSON.string)
        let header: JSON = ["alg": "RS256", "kid": .string(keys.keyID(for: .rs256))]
        return try? keys.sign(.object(claims), header: header, with: .rs256)
    }

    private func respond(_ json: JSON, status: HTTPResponse.Status = .ok) -> TransportResponse {
        var head = HTTPResponse(status: status)
        head.headerFields[.contentType] = "application/json"
        head.headerFields[.cacheControl] = "no-store"
        return TransportResponse(head: head, body: (try? json.serialized()) ?? [])
    }
}
