public import AuthFlow

/// The route that a proxy in front of another application calls to check whether a request has a session, and to which
/// user the session belongs: for nginx's `auth_request`, Caddy's `forward_auth` and Traefik's `forwardAuth`.
///
/// The proxy sends a subrequest with the header fields of the client's request. Before it forwards the client's
/// request, it must remove the session cookie and any client-supplied values of the fields that this route sets.
public struct ForwardAuth: Sendable {
    /// The value of a response header field.
    public enum Value: Sendable {
        /// The user's subject, which is unique within the issuer.
        case subject
        /// The user's issuer.
        case issuer
        /// A claim about the user: a string, an integer or a Boolean.
        case claim(String)
        /// The session's name, which is not secret.
        case sessionName
        /// `Bearer` and a fresh access token, unless the token is bound to a DPoP key. Use it only for an application that
        /// is trusted with the token, over a dedicated connection. An API accepts a certificate-bound token (RFC 8705) only if the application
        /// presents the same client certificate.
        case accessToken
    }

    private let server: SessionServer
    private let path: String
    private let provider: String?
    private let fields: [(name: HTTPField.Name, value: Value)]

    /// Creates the route.
    /// - Parameters:
    ///   - server: The sessions.
    ///   - path: The path that the proxy requests; default: `/forward-auth`. Browsers must not be able to reach it.
    ///   - provider: The name of the provider whose users may use the application behind the proxy; a request with
    ///     another provider's session is rejected (403). If there are several providers, specify one, because users of
    ///     different providers can have the same subject. Default: the only provider.
    ///   - fields: The response header fields, such as `X-User`. A session that lacks a value is rejected (403).
    ///     Identify users by ``Value/subject``: an e-mail address can be reassigned or unverified, and some providers
    ///     let users choose it freely (OIDC Core section 5.7).
    public init(
        server: SessionServer,
        path: String = "/forward-auth",
        provider: String? = nil,
        fields: [HTTPField.Name: Value]
    ) {
        self.server = server
        self.provider = provider
        self.path = path
        self.fields = fields.map { ($0, $1) }
    }

    /// Returns the response to the proxy's request; nil for any other request.
    ///
    /// 204: the request has a session. 401: it has no session, or no usable access token for a field; `X-Sign-In` contains the path of
    /// the sign-in route, which returns the user to the page in `X-Original-URI` or `X-Forwarded-Uri`. 403: another site caused the
    /// browser to send the request, or the session belongs to another provider or lacks a value. 503: the session could
    /// not be checked.
    ///
    /// A request with an unsafe method must not come from another site. The proxy sends the method of the client's
    /// request in `X-Original-Method` or `X-Forwarded-Method`; without either field, every request is treated as
    /// unsafe.
    public func response(to request: HTTPRequest) async -> TransportResponse? {
        guard SessionServer.path(of: request) == path else { return nil }
        let methods = ["X-Original-Method", "X-Forwarded-Method"].compactMap { HTTPField.Name($0) }
            .flatMap { request.headerFields[values: $0] }
        let isSafe = !methods.isEmpty && methods.allSatisfy { $0.isIdentical(to: "GET") || $0.isIdentical(to: "HEAD") }
        // A GET navigation has no Origin field, but a WebSocket handshake, which is also a GET, has one.
        let isOpen = isSafe && request.headerFields[.origin] == nil
        guard isOpen || !server.isFromOtherSite(request) else { return ServerResponse.plain(.forbidden) }
        do {
            guard let session = try await session(of: request) else { return signIn(request) }
            guard try server.isSession(session, of: provider) else { return ServerResponse.plain(.forbidden) }
            var response = ServerResponse.plain(.noContent)
            for (name, value) in fields {
                guard let text = try await text(value, session), Self.isFieldValue(text) else {
                    return ServerResponse.plain(.forbidden)
                }
                response.head.headerFields[name] = text
            }
            return response
        } catch let error as AuthError where error.code == .loginRequired {
            // The access token has expired and cannot be refreshed.
            return signIn(request, isRenewal: true)
        } catch let error as AuthError {
            return SessionServer.response(for: error) ?? ServerResponse.plain(.serviceUnavailable)
        } catch {
            return ServerResponse.plain(.serviceUnavailable)
        }
    }

    private func session(of request: HTTPRequest) async throws -> Session? {
        do {
            return try await server.session(of: request)
        } catch {
            // The reverse proxy shows neither the status nor the cause; nginx turns the response into 500.
            server.report(.storing, error)
            throw error
        }
    }

    private func freshTokens(for session: Session) async throws -> TokenSet {
        do {
            return try await server.freshTokens(for: session)
        } catch let error as AuthError where !error.code.isOfStore && error.code != .credentialUnusable {
            // A failed refresh reports its own failure.
            throw error
        } catch {
            server.report(.storing, error)
            throw error
        }
    }

    /// - Parameter isRenewal: Whether the request has a session.
    private func signIn(_ request: HTTPRequest, isRenewal: Bool = false) -> TransportResponse {
        let page = ["X-Original-URI", "X-Forwarded-Uri"].compactMap { HTTPField.Name($0) }
            .compactMap { request.headerFields[$0] }.first
        let path = page.flatMap { server.returnPath($0, prefixes: server.options.returnPrefixes) }
        var response = ServerResponse.plain(.unauthorized)
        response.head.headerFields[HTTPField.Name(known: "X-Sign-In")] = server.loginPath(
            returningTo: path,
            isRenewal: isRenewal
        )
        return response
    }

    private func text(_ value: Value, _ session: Session) async throws -> String? {
        switch value {
        case .subject: session.identity?.subject
        case .issuer: session.identity?.issuer
        case .sessionName: session.name
        case .accessToken:
            // RFC 9449 section 7.1: a DPoP-bound token requires a DPoP proof, which the application cannot create.
            switch try await freshTokens(for: session) {
            case let tokens where tokens.dpopKey == nil: "Bearer \(tokens.accessToken.exposed)"
            default: nil
            }
        case .claim(let name):
            switch session.identity?.claims[name] {
            case .string(let text): text
            case .integer(let number): "\(number)"
            case .bool(let isTrue): isTrue ? "true" : "false"
            default: nil
            }
        }
    }

    /// RFC 9110 section 5.5: control characters are rejected, so that no claim can inject a header field. Non-ASCII text is sent as UTF-8.
    private static func isFieldValue(_ text: String) -> Bool {
        let space = UInt8(ascii: " ")
        return !text.isEmpty && text.utf8.allSatisfy { $0 >= 0x20 && $0 != 0x7F } && text.utf8.first != space
            && text.utf8.last != space
    }
}
