import HTTPTypes

extension TransportResponse {
    /// The response without the secrets of its request: a server that refuses a request may repeat it in its words, and these are shown
    /// to users, and kept in logs.
    ///
    /// A response that is no refusal is not changed: it may well return a token that was sent.
    /// - Parameter request: What was sent, with a form as its body where it had any.
    func withoutSecrets(of request: TransportRequest) -> TransportResponse {
        guard !isSuccessful else { return self }
        let secrets = request.secrets
        guard !secrets.isEmpty else { return self }
        func clean(_ text: String) -> String { secrets.reduce(text) { $0.replacing($1, with: "<redacted>") } }
        var response = self
        if let text = String(validating: body, as: UTF8.self) { response.body = Array(clean(text).utf8) }
        // Where RFC 6750 section 3 puts the description of an error.
        let challenges = head.headerFields[fields: .wwwAuthenticate]
        response.head.headerFields[fields: .wwwAuthenticate] = challenges.map {
            HTTPField(name: .wwwAuthenticate, value: clean($0.value))
        }
        return response
    }
}

extension TransportRequest {
    /// Parameters of requests that are secrets, or prove something.
    private static let secretNames: Set<String> = [
        "code", "code_verifier", "refresh_token", "device_code", "client_secret", "client_assertion", "assertion",
        "token",
        "subject_token", "actor_token", "device_secret", "password", "request",
    ]

    /// The secrets that were sent, also as they are encoded in a form and in JSON; those first that others are part of.
    fileprivate var secrets: [String] {
        var secrets: [String] = []
        if let authorization = head.headerFields[.authorization] {
            secrets.append(String(authorization.split(separator: " ", maxSplits: 1).last ?? ""))
        }
        let form = String(validating: body, as: UTF8.self).flatMap { FormURLEncoding.decode($0) }
        for pair in form?.pairs ?? [] where Self.secretNames.contains(pair.name) {
            secrets += [pair.value, FormURLEncoding.encode(pair.value), pair.value.replacing("/", with: #"\/"#)]
        }
        // A word that is this short would be found where it is not meant.
        return Set(secrets.filter { $0.utf8.count >= 6 }).sorted { ($0.utf8.count, $0) > ($1.utf8.count, $1) }
    }
}
