package import AuthFlowHTTP
import AuthFlowJOSE
import AuthFlowJSON

/// An authorization response as received in a redirect, decoded and decrypted only once. Nothing in it is trusted yet.
package struct RedirectResponse: Sendable {
    /// Decrypts a signed response (JARM).
    package typealias Decryption = @Sendable (Secret) throws(AuthError) -> Secret

    /// The redirect URI at which the response arrived.
    package let redirectURI: String

    private let mode: ResponseMode

    /// The redirect URI with the parameters as received; the parameters of a form post are appended to the query.
    package var url: String { Self.url(redirectURI, adding: parameters, mode) }

    /// The parameters.
    package let parameters: FormParameters

    /// The `state`, from the parameters or from the claims of a signed response; nil unless there is exactly one value.
    /// It identifies the pending sign-in.
    package let state: Secret?

    /// The signed response (JARM), decrypted; nil when there is none or more than one, or none was requested.
    let signed: Secret?

    /// Decodes the parameters of a response.
    /// - Parameters:
    ///   - encoded: The parameters, form-encoded.
    ///   - redirectURI: The redirect URI at which they arrived.
    ///   - mode: The response mode; default: in the query.
    ///   - decrypt: Decrypts a signed response if it is encrypted; nil if no signed response was requested.
    /// - Returns: nil when the parameters are not form-encoded UTF-8.
    /// - Throws: ``AuthError`` with `invalid_callback` or `unsupported` when a signed response cannot be decoded; any error thrown by `decrypt`.
    package init?(
        encoded: some StringProtocol,
        at redirectURI: String,
        _ mode: ResponseMode = .query,
        decrypt: Decryption?
    ) throws(AuthError) {
        guard let parameters = Self.parameters(in: encoded) else { return nil }
        self.redirectURI = redirectURI
        self.mode = mode
        self.parameters = parameters
        var states = parameters.values(for: "state")
        // JARM section 2.3 defines one such parameter. Decrypting each additional response from an attacker would cost
        // a private-key operation.
        let responses = parameters.values(for: "response")
        guard let decrypt, let response = responses.first, responses.count == 1 else {
            self.signed = nil
            self.state = states.count == 1 && responses.count <= 1 ? Secret(states[0]) : nil
            return
        }
        do throws(AuthError) {
            let signed = try decrypt(Secret(response))
            if let claimed = try JWS(signed).payload["state"]?.string { states.append(claimed) }
            self.signed = signed
        } catch {
            throw error.ofUndecryptedToken(.invalidCallback)
        }
        self.state = states.count == 1 ? Secret(states[0]) : nil
    }

    /// Decodes form-encoded parameters.
    /// - Returns: nil when they are not form-encoded UTF-8.
    package static func parameters(in encoded: some StringProtocol) -> FormParameters? {
        // Some providers encode their error descriptions in a different character set, or do not encode the percent signs in them.
        FormURLEncoding.decode(encoded, displaying: ["error_description"])
    }

    /// Decodes a redirect.
    /// - Parameters:
    ///   - url: The complete URL to which the user was redirected.
    ///   - redirectURI: The redirect URI with which the URL must start.
    ///   - decrypt: Decrypts a signed response if it is encrypted; nil if no signed response was requested.
    /// - Throws: ``AuthError`` with `invalid_callback` when the URL differs, or its parameters cannot be decoded; `unsupported` when the client
    ///   has no key to decrypt a signed response.
    package init(
        _ url: String,
        at redirectURI: String,
        _ mode: ResponseMode,
        decrypt: Decryption?
    ) throws(AuthError) {
        guard let encoded = Self.encoded(in: url, at: redirectURI, mode) else {
            throw AuthError(
                .invalidCallback,
                "The URL \(Redaction.url(url)) is not \(redirectURI) followed by an authorization response."
            )
        }
        guard mode == .fragment || !encoded.utf8.contains(UInt8(ascii: "#")) else {
            throw AuthError(
                .invalidCallback,
                "The redirect contains a fragment (#...), which was not requested (response_mode)."
            )
        }
        guard let response = try RedirectResponse(encoded: encoded, at: redirectURI, mode, decrypt: decrypt) else {
            throw AuthError(
                .invalidCallback,
                "The parameters in the redirect are not form-encoded UTF-8 (RFC 6749 Appendix B)."
            )
        }
        self = response
    }

    /// The parameters in a redirect, still encoded; nil when the URL is not the redirect URI followed by parameters.
    ///
    /// RFC 9700 section 4.1.3: "exact string matching", apart from the normalization by browsers and providers. Only a query or a fragment can
    /// follow the redirect URI.
    package static func encoded(in url: String, at redirectURI: String, _ mode: ResponseMode) -> Substring? {
        // RFC 3986 section 2: a URI consists of printable ASCII. When Swift compares `Character`s, a combining mark can
        // hide a separator.
        guard url.utf8.allSatisfy({ (0x21...0x7E).contains($0) }) else { return nil }
        let (received, expected) = (normalized(url), normalized(redirectURI))
        guard received.utf8.starts(with: expected.utf8) else { return nil }
        let rest = received.utf8.dropFirst(expected.utf8.count)
        guard rest.starts(with: separator(after: redirectURI, mode).utf8) else { return nil }
        let encoded = Substring(rest.dropFirst())
        // RFC 3986 section 3.5: a number sign starts a fragment. Some providers append an empty fragment, "#_=_" (Facebook)
        // or "#_" (Instagram, Reddit); these are harmless.
        guard mode != .fragment else { return encoded }
        let ignorableSuffix = ["#", "#_=_", "#_"].first { encoded.utf8.suffix($0.utf8.count).elementsEqual($0.utf8) }
        return encoded.dropLast(ignorableSuffix?.utf8.count ?? 0)
    }

    /// A URI as browsers and providers send it, however it is registered: the scheme in lower case (RFC 3986 section 6.2.2.1) and the path "/" if
    /// there is an authority and the path is empty (section 6.2.3); for http and https, also the host in lower case, without the default port.
    package static func normalized(_ uri: String) -> String {
        let scheme = uri.prefix { $0 != ":" }
        let rest = uri[scheme.endIndex...]
        let name = scheme.lowercased()
        guard rest.hasPrefix("://") else { return "\(name)\(rest)" }
        let authority = rest.dropFirst(3).prefix { !"/?#".contains($0) }
        let target = uri[authority.endIndex...]
        var host = String(authority)
        // Browsers do not change the host of any other scheme.
        if let defaultPort = ["https": ":443", "http": ":80"][name] {
            host = host.lowercased()
            if host.hasSuffix(defaultPort) { host.removeLast(defaultPort.count) }
        }
        // Microsoft Entra redirects to com.example.app://auth/ if com.example.app://auth is registered.
        return "\(name)://\(host)\(target.hasPrefix("/") ? "" : "/")\(target)"
    }

    /// A redirect URI with the parameters of a response.
    package static func url(
        _ redirectURI: String,
        adding parameters: FormParameters,
        _ mode: ResponseMode = .query
    ) -> String {
        redirectURI + separator(after: redirectURI, mode) + FormURLEncoding.encodeQuery(parameters)
    }

    private static func separator(after redirectURI: String, _ mode: ResponseMode) -> String {
        mode == .fragment ? "#" : redirectURI.utf8.contains(UInt8(ascii: "?")) ? "&" : "?"
    }
}

/// A received redirect. If the receiver has already decoded the redirect to find the corresponding sign-in, it is not
/// decoded again.
package enum ReceivedRedirect: Sendable {
    /// The complete URL.
    case url(String)
    /// The decoded response.
    case response(RedirectResponse)

    /// The response.
    func response(to request: AuthorizationRequest, of client: OAuthClient) throws(AuthError) -> RedirectResponse {
        switch self {
        case .url(let url):
            let decrypt = request.responseMode.isSigned ? client.signedResponseDecryption : nil
            return try RedirectResponse(url, at: request.redirectURI, request.responseMode.delivery, decrypt: decrypt)
        case .response(let response):
            // RFC 9700 section 4.1.3: "exact string matching".
            guard response.redirectURI.isIdentical(to: request.redirectURI) else {
                throw AuthError(.invalidCallback, "The redirect did not arrive at the requested redirect URI.")
            }
            return response
        }
    }
}
