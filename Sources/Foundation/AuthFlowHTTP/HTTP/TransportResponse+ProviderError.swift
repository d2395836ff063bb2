public import AuthFlowJSON

extension TransportResponse {
    /// The server's description of an error, wherever it appears: in the OAuth members (RFC 6749 section 5.2), in a
    /// challenge (RFC 6750 section 3), in a problem document (RFC 9457), or in a member that APIs commonly use; nil
    /// when there is none. Secrets from the request are redacted.
    ///
    /// The description is intended for users. Programs should make decisions only based on the standard error codes.
    public var providerError: ProviderError? { writtenError.map(redacted) }

    /// The error parameters of this response (RFC 6749 section 5.2), whatever its format. Secrets from the request are redacted.
    /// - Parameter parameters: The decoded body.
    /// - Returns: nil when there is no `error` string, or the string is only the reason phrase of the status, as in the default error responses of
    ///   some web frameworks.
    public func providerError(in parameters: JSON) -> ProviderError? {
        ProviderError(parameters, status: status).map(redacted)
    }

    private var writtenError: ProviderError? {
        let json = (try? parsed()).flatMap { $0.object == nil ? nil : $0 }
        if let error = json.flatMap({ ProviderError($0, status: status) }) { return error }
        for challenge in AuthenticationChallenge.challenges(in: self) {
            guard let error = challenge.parameters["error"] else { continue }
            return ProviderError(
                error: error,
                errorDescription: challenge.parameters["error_description"],
                errorURI: challenge.parameters["error_uri"],
                status: status
            )
        }
        let members = ["message", "error_description", "detail", "title", "errorSummary", "error_message"]
        let nested = json?["error"]
        let words =
            members.lazy.compactMap { json?[$0]?.string ?? nested?[$0]?.string }.first
            ?? json?["errors"]?.array.flatMap(Self.words)
        return words.map { ProviderError(unnamed: $0, status: status) }
    }

    /// The text of a list of errors, as validators return it: strings, or objects with a message.
    private static func words(_ faults: [JSON]) -> String? {
        let words = faults.prefix(5).compactMap { $0.string ?? $0["message"]?.string ?? $0["detail"]?.string }
        return words.isEmpty ? nil : words.joined(separator: "; ")
    }
}
