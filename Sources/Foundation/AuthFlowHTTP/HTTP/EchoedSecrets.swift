import AuthFlowEssentials
import AuthFlowJSON
import HTTPTypes

extension TransportResponse {
    /// The response; the secrets of the request are redacted if this is an error response, which some servers send with
    /// status 200.
    package func redactingSecrets(of request: TransportRequest) -> TransportResponse {
        isSuccessful && !mayContainError ? self : EchoedSecrets(in: request).redacted(self, issuesTokens: true)
    }

    /// The response of a server that issues no tokens, with the secrets that were sent to it redacted.
    package func redacting(_ secrets: [Secret]) -> TransportResponse {
        EchoedSecrets(secrets.map(\.exposed)).redacted(self, issuesTokens: false)
    }

    /// A resource's error response, with the secrets in the request redacted.
    package func providerError(redacting secrets: [Secret]) -> ProviderError? { redacting(secrets).providerError }

    /// Whether the body may have an `error` member, according to a text search that does not parse the body.
    private var mayContainError: Bool { body.contains(#""error""#.utf8) }

    /// An error from this response, with the secrets in its request redacted.
    func redacted(_ error: ProviderError) -> ProviderError {
        guard let request else { return error }
        return EchoedSecrets(in: request).redacted(error)
    }
}

extension Collection<Secret> {
    /// A server's text with these secrets redacted, both verbatim and percent-encoded.
    package func redacted(in text: String) -> String { EchoedSecrets(map(\.exposed)).redacted(text) }

    /// A server's error with these secrets redacted.
    package func redacted(in error: ProviderError) -> ProviderError { EchoedSecrets(map(\.exposed)).redacted(error) }
}

/// The secrets that were sent with a request. A server that rejects the request may echo them in its error message, which is displayed to
/// users and logged.
struct EchoedSecrets {
    /// The secrets as bytes, longest first, because one secret may contain another.
    private let secrets: [[UInt8]]

    /// The request parameters that are secrets or proofs.
    private static let names: Set<String> = [
        "code", "code_verifier", "refresh_token", "device_code", "client_secret", "client_assertion", "assertion",
        "token", "subject_token", "actor_token", "device_secret", "password", "request", "access_token",
        // An app may push an authorization request with the ID Token of the user (OIDC Core section 3.1.2.1).
        "id_token_hint",
    ]

    /// The members of a JSON request that are secrets. Other names have other meanings in APIs.
    private static let jsonNames: Set<String> = ["access_token", "refresh_token", "token", "client_secret", "password"]

    /// The maximum size of a body that is searched for secrets, and the maximum number of secrets.
    private static let (maximumSize, maximumCount) = (64 * 1024, 32)

    /// The maximum length of an error's text, in characters.
    private static let maximumText = 4096

    /// - Parameter request: The request that was sent; its body, if any, is a form or a JSON object.
    init(in request: TransportRequest) {
        var secrets: [String] = []
        if let authorization = request.head.headerFields[.authorization] {
            let credentials = String(authorization.split(separator: " ", maxSplits: 1).last ?? "")
            secrets.append(credentials)
            // RFC 7617 section 2: "user-id:password". RFC 6749 section 2.3.1: both are form-urlencoded.
            if let pair = Data(base64Encoded: credentials).flatMap({ String(validating: $0, as: UTF8.self) }),
                let colon = pair.utf8.firstIndex(of: UInt8(ascii: ":"))
            {
                let password = String(pair[pair.utf8.index(after: colon)...])
                secrets += [password, FormURLEncoding.percentDecoded(password) ?? ""]
            }
        }
        // A larger body is not a request to an authorization server.
        if request.body.count <= Self.maximumSize { secrets += Self.parameters(of: request.body) }
        for cookie in request.head.headerFields[.cookie]?.split(separator: ";") ?? [] {
            secrets.append(String(cookie.split(separator: "=", maxSplits: 1).last ?? ""))
        }
        self.init(Array(secrets.prefix(Self.maximumCount)))
    }

    private static func parameters(of body: [UInt8]) -> [String] {
        guard body.first == UInt8(ascii: "{") else {
            let form = String(validating: body, as: UTF8.self).flatMap { FormURLEncoding.decode($0) }
            return (form?.pairs ?? []).filter { names.contains($0.name) }.map(\.value)
        }
        let members = (try? JSON(parsing: body).object) ?? [:]
        return members.filter { jsonNames.contains($0.key) }.compactMap(\.value.string)
    }

    fileprivate init(_ secrets: [String]) {
        let secrets = secrets.flatMap { [$0, FormURLEncoding.encode($0), FormURLEncoding.encodeWithoutPlus($0)] }
        // A shorter value might match by coincidence.
        self.secrets = Set(secrets.filter { $0.utf8.count >= 6 }).map { Array($0.utf8) }.sorted { $0.count > $1.count }
    }

    /// The error response with the secrets redacted. The names of members are unchanged.
    /// - Parameter issuesTokens: Whether the server issues tokens. Error codes and token responses from such a server are not redacted,
    ///   because the program depends on them.
    fileprivate func redacted(_ response: TransportResponse, issuesTokens: Bool) -> TransportResponse {
        guard !secrets.isEmpty else { return response }
        var response = response
        let challenges = response.head.headerFields[fields: .wwwAuthenticate]
        // RFC 6750 section 3: this header field contains the error description, together with the error code.
        response.head.headerFields[fields: .wwwAuthenticate] = challenges.map {
            HTTPField(name: .wwwAuthenticate, value: redacted($0.value, longerThan: Self.longestCode))
        }
        // A token response is not redacted, because it may contain a token that was also sent, such as the same refresh token.
        if let json = try? response.parsed(), !issuesTokens || json["access_token"] == nil,
            !issuesTokens || !response.isSuccessful || json["error"] != nil
        {
            let clean = redacted(json, issuesTokens)
            if clean != json, let body = try? clean.serialized() { response.body = body }
        } else if !response.isSuccessful, response.mediaType == "application/x-www-form-urlencoded",
            let form = String(validating: response.body, as: UTF8.self).flatMap({ FormURLEncoding.decode($0) })
        {
            var clean = FormParameters()
            for pair in form.pairs {
                clean.append(pair.name, issuesTokens && pair.name == "error" ? pair.value : redacted(pair.value))
            }
            response.body = Array(FormURLEncoding.encodeForm(clean).utf8)
        }
        return response
    }

    fileprivate func redacted(_ error: ProviderError) -> ProviderError {
        guard !secrets.isEmpty else { return error }
        return ProviderError(
            error: redacted(error.error, longerThan: Self.isCode(error.error) ? Self.longestCode : 0),
            errorDescription: error.errorDescription.map(shortened),
            errorURI: error.errorURI.map(shortened),
            status: error.status
        )
    }

    private func shortened(_ text: String) -> String {
        let start = text.prefix(Self.maximumText)
        return redacted(String(start), isCut: start.endIndex < text.endIndex)
    }

    /// RFC 6749 section 5.2: `error` is a code, on which the program depends. Text with spaces is not a code.
    private static func isCode(_ error: String) -> Bool { !error.utf8.contains(UInt8(ascii: " ")) }

    /// A secret of at most this length may occur in an error code by coincidence.
    private static let longestCode = 16

    private func redacted(_ json: JSON, _ issuesTokens: Bool) -> JSON {
        switch json {
        case .string(let text): return .string(redacted(text))
        case .array(let elements): return .array(elements.map { redacted($0, issuesTokens) })
        case .object(let members):
            return .object(
                Dictionary(
                    uniqueKeysWithValues: members.map { name, value in
                        let isCode = issuesTokens && name == "error" && value.string.map(Self.isCode) == true
                        return (name, isCode ? value : redacted(value, issuesTokens))
                    }
                )
            )
        default: return json
        }
    }

    /// - Parameter isCut: Whether the text may end within a secret.
    fileprivate func redacted(_ text: String, longerThan length: Int = 0, isCut: Bool = false) -> String {
        let secrets = secrets.filter { $0.count > length }
        var rest = Array(text.utf8)[...]
        var clean: [UInt8] = []
        // Single pass: the provider chooses its tokens, so a token may be a substring of the placeholder.
        while let byte = rest.first {
            // Several secrets may share a prefix, for example tokens with the same header.
            let matches = secrets.lazy.filter { Self.begins(rest, with: $0, isCut: isCut) }
            if let length = matches.map({ secret in zip(rest, secret).prefix { $0 == $1 }.count }).max() {
                clean += "<redacted>".utf8
                rest = rest.dropFirst(length)
            } else {
                clean.append(byte)
                rest = rest.dropFirst()
            }
        }
        return String(decoding: clean, as: UTF8.self)
    }

    /// Whether text begins with a secret, or with the prefix of a long secret. Only a prefix is compared, because a
    /// provider that chose both the text and the secret could otherwise make the comparison take minutes.
    private static func begins(_ text: ArraySlice<UInt8>, with secret: [UInt8], isCut: Bool) -> Bool {
        guard text.first == secret[0] else { return false }
        let beginning = secret.prefix(64)
        return text.starts(with: beginning)
            || isCut && text.count < beginning.count && beginning.starts(with: text)
    }
}
