public import AuthFlow
public import AuthFlowJSON
import Foundation
import HTTPTypes

// What the REST API is asked: who somebody is.

extension GitHubProvider {
    /// The version of the API that replies are read by ("API Versions" in the documentation of the REST API).
    private static let apiVersion = "2022-11-28"

    /// `GET /user`: what GitHub says about the person.
    public func userInfo(for tokens: TokenSet, in context: ProviderContext) async throws -> JSON {
        let reply = try await ask(.get, "/user", as: Secret("Bearer \(tokens.accessToken.exposed)"), in: context)
        if reply.status == 401 {
            throw AuthError(
                .accessTokenRejected,
                "\(host.apiURL) does not accept the access token any more. Sign in again."
            )
        }
        guard reply.status == 200 else { throw refusal(reply, "GET /user") }
        return try reply.json(from: "\(host.apiURL)/user")
    }

    /// Takes the identity from the number of the account: "login", the e-mail address and the name can change hands.
    public func identity(for tokens: TokenSet, in context: ProviderContext) async throws -> Identity {
        let user = try await userInfo(for: tokens, in: context)
        guard let number = user["id"]?.integer else {
            throw AuthError(.invalidUserInfo, "GitHub's description of the person has no \"id\".")
        }
        var claims = (user.object ?? [:]).filter { $0.value != .null }
        claims["preferred_username"] = user["login"]
        let issuer = try await context.metadata().issuer
        return Identity(issuer: issuer, subject: "\(number)", claims: .object(claims))
    }

    /// Calls the API.
    /// - Throws: ``AuthFlow/AuthError`` with `temporarily_unavailable` when it has been called too often.
    func ask(
        _ method: HTTPRequest.Method,
        _ path: String,
        as authorization: Secret,
        body: JSON? = nil,
        in context: ProviderContext
    ) async throws -> HTTPReply {
        var fields: HTTPFields = [
            .accept: "application/vnd.github+json", .authorization: authorization.exposed,
            // "All API requests must include a valid User-Agent header."
            .userAgent: "AuthFlow",
        ]
        if let version = HTTPField.Name("X-GitHub-Api-Version") { fields[version] = Self.apiVersion }
        if body != nil { fields[.contentType] = "application/json" }
        let endpoint = try Endpoint("\(host.apiURL)\(path)")
        let reply = try await context.send(
            HTTPCall(method, endpoint, headerFields: fields, body: try body?.serialized() ?? [])
        )
        try requireWithinRateLimit(reply, now: context.host.now())
        return reply
    }

    /// "Rate limits for the REST API": beyond one the status is 403 or 429. `retry-after` says how long to wait, or else
    /// `x-ratelimit-reset` when `x-ratelimit-remaining` is 0; otherwise a minute at least.
    func requireWithinRateLimit(_ reply: HTTPReply, now: Date) throws(AuthError) {
        func field(_ name: String) -> String? { HTTPField.Name(name).flatMap { reply.response.headerFields[$0] } }
        let isUsedUp = field("x-ratelimit-remaining") == "0"
        let retryAfter = reply.retryAfter(now: now)
        guard reply.status == 429 || reply.status == 403 && (isUsedUp || retryAfter != nil) else { return }
        let reset = isUsedUp ? field("x-ratelimit-reset").flatMap { UInt32($0) } : nil
        let untilReset = reset.map { max(0, TimeInterval($0) - now.timeIntervalSince1970) }
        throw AuthError(
            .temporarilyUnavailable,
            "GitHub limits how often it is asked (status \(reply.status)).",
            retryAfter: retryAfter ?? .seconds(untilReset ?? 60)
        )
    }

    /// The error for a reply that was not expected, with GitHub's words.
    func refusal(_ reply: HTTPReply, _ call: String) -> AuthError {
        let message = (try? reply.json(from: host.apiURL))?["message"]?.string
        return AuthError(
            .providerRejected,
            "\(host.apiURL) answered \(call) with status \(reply.status).",
            providerError: message.map {
                ProviderError(error: "status \(reply.status)", errorDescription: $0, status: reply.status)
            }
        )
    }
}
