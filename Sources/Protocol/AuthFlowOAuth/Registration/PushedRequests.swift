/// When authorization requests are pushed to the server, so that nothing of them goes through the browser (RFC 9126).
public enum PushedRequests: String, Sendable, Hashable, CaseIterable {
    /// When the server requires or offers it.
    case automatic = "auto"
    /// Always: a server that does not offer it cannot be used.
    case always
    /// Never: a server that requires it cannot be used.
    case never
}

/// A parameter that some servers want in the browser besides, although it was pushed.
public enum RepeatedPushedParameter: String, Sendable, Hashable, CaseIterable {
    /// `response_type`.
    case responseType = "response_type"
    /// `response_mode`.
    case responseMode = "response_mode"
    /// `scope`.
    case scope
    /// `redirect_uri`.
    case redirectURI = "redirect_uri"
    /// `prompt`.
    case prompt
}
