/// The conditions under which authorization requests are pushed to the server, so that their parameters do not pass
/// through the browser (RFC 9126).
public enum PushedRequests: String, Sendable, Hashable, CaseIterable {
    /// Only if the server requires or supports pushed requests.
    case automatic = "auto"
    /// Always. A server that does not support pushed requests cannot be used.
    case always
    /// Never. A server that requires pushed requests cannot be used.
    case never
}

/// A pushed parameter that some servers also require in the authorization URL.
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
