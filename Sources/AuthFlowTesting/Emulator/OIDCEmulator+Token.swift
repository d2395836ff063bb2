import AuthFlow
import AuthFlowJSON
import Crypto
import Foundation
import HTTPTypes
import Synchronization

// The back channel: the token endpoint.

extension OIDCEmulator {
    /// How long an access token lasts, in seconds.
    private static let lifetime: Int64 = 3600

    func token(_ form: FormParameters, _ request: HTTPRequest) -> HTTPReply {
        guard let client = authenticatedClient(form, request) else {
            var reply = HTTPReply.json(["error": "invalid_client"], status: .unauthorized)
            reply.response.headerFields[.wwwAuthenticate] = #"Basic realm="token""#
            return reply
        }
        func refuse(_ error: String, _ description: String) -> HTTPReply {
            .json(["error": .string(error), "error_description": .string(description)], status: .badRequest)
        }
        guard form.names.allSatisfy({ form.values(for: $0).count == 1 }) else {
            return refuse("invalid_request", "a parameter is repeated")
        }
        guard form["grant_type"] == "authorization_code" else { return refuse("unsupported_grant_type", "only codes") }
        guard let code = form["code"], let grant = state.withLock({ $0.codes[code] }) else {
            return refuse("invalid_grant", "no such code")
        }
        if let used = grant.accessToken {
            // RFC 6749 section 4.1.2: a code used twice revokes what was issued for it.
            state.withLock { $0.accessTokens[used] = nil }
            return refuse("invalid_grant", "the code was used before")
        }
        guard grant.authorization.client.id == client.id else {
            return refuse("invalid_grant", "another client's code")
        }
        guard form["redirect_uri"] == grant.authorization.redirectURI else {
            return refuse("invalid_grant", "another redirect_uri than in the authorization request")
        }
        let challenge = form["code_verifier"].map { Base64URL.encode(SHA256.hash(data: Array($0.utf8))) }
        guard challenge == grant.authorization.parameters["code_challenge"] else {
            return refuse("invalid_grant", "the code_verifier does not fit")
        }
        return issue(grant, code)
    }

    private func issue(_ grant: Grant, _ code: String) -> HTTPReply {
        let accessToken = Self.randomID()
        var reply: [String: JSON] = [
            "access_token": .string(accessToken), "token_type": "Bearer", "expires_in": .integer(Self.lifetime),
            "scope": .string(grant.scopes.joined(separator: " ")),
        ]
        if grant.scopes.contains("openid") {
            guard let idToken = try? idToken(for: grant, accessToken: accessToken) else {
                return HTTPReply(response: HTTPResponse(status: .internalServerError))
            }
            reply["id_token"] = .string(idToken)
        }
        fault?.tokenReply(&reply)
        state.withLock {
            $0.codes[code]?.accessToken = accessToken
            $0.accessTokens[accessToken] = grant
        }
        var response = HTTPReply.json(.object(reply))
        response.response.headerFields[.cacheControl] = "no-store"
        return response
    }

    private func idToken(for grant: Grant, accessToken: String) throws -> String {
        let (keys, algorithm, fault) = state.withLock { ($0.keys, $0.signingAlgorithm, $0.fault) }
        let time = Int64(now().timeIntervalSince1970)
        var claims: [String: JSON] = [
            "iss": .string(issuer),
            "sub": users[grant.userIndex].claims["sub"] ?? "nobody",
            "aud": .string(grant.authorization.client.id),
            "exp": .integer(time + Self.lifetime),
            "iat": .integer(time),
            "auth_time": .integer(time),
            "at_hash": .string(Base64URL.encode(Array(SHA256.hash(data: Array(accessToken.utf8))).prefix(16))),
        ]
        claims["nonce"] = grant.authorization.parameters["nonce"].map(JSON.string)
        fault?.idTokenClaims(&claims)
        var header: [String: JSON] = [
            "alg": .string(algorithm.rawValue), "kid": .string(keys.keyID(for: algorithm)), "typ": "JWT",
        ]
        fault?.idTokenHeader(&header)
        let token = try keys.sign(.object(claims), header: .object(header), with: algorithm)
        return fault?.idTokenText(token) ?? token
    }

    /// The client, when it has authenticated in exactly the way it is registered for.
    private func authenticatedClient(_ form: FormParameters, _ request: HTTPRequest) -> Client? {
        let basic = request.headerFields[.authorization]
        if let basic, basic.hasPrefix("Basic ") {
            // RFC 6749 section 2.3.1: both halves are form-encoded before they are joined.
            guard let data = Data(base64Encoded: String(basic.dropFirst(6))),
                let pair = String(validating: data, as: UTF8.self), let colon = pair.firstIndex(of: ":"),
                let id = FormURLEncoding.decode("x=\(pair[..<colon])")?["x"],
                let secret = FormURLEncoding.decode("x=\(pair[pair.index(after: colon)...])")?["x"],
                form["client_secret"] == nil
            else { return nil }
            return clients.first {
                $0.id == id && $0.secret == secret && $0.authenticationMethod == "client_secret_basic"
            }
        }
        return clients.first { client in
            guard client.id == form["client_id"] else { return false }
            switch client.authenticationMethod {
            case "none": return form["client_secret"] == nil
            case "client_secret_post": return client.secret != nil && form["client_secret"] == client.secret
            default: return false
            }
        }
    }
}
