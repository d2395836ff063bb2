import AuthFlowJSON
import HTTPTypes

/// An HTTP message in a form that is safe to display: its title, and the names of its parameters, header fields and
/// members. Values are shown only for a short list of parameters that are never secret; for others, the length or the type.
package struct RedactedMessage: Sendable, Hashable {
    /// One parameter, header field or member.
    package struct Parameter: Sendable, Hashable {
        /// The name.
        package let name: String
        /// The value, if it may be shown; otherwise its length, in parentheses, or its type.
        package let value: String
    }

    /// The method and the URL, or the status.
    package let title: String

    /// The parameters, header fields and members, in order.
    package let parameters: [Parameter]

    /// The parameters whose values describe a sign-in but cannot be used to interfere with it.
    private static let publicNames: Set<String> = [
        "response_type", "response_mode", "scope", "client_id", "redirect_uri", "post_logout_redirect_uri",
        "code_challenge_method", "grant_type", "prompt", "max_age", "acr_values", "token_type", "expires_in", "error",
        "iss", "issuer", "interval", "resource", "audience", "subject_token_type", "requested_token_type",
        "actor_token_type", "issued_token_type", "authorization_endpoint", "token_endpoint", "jwks_uri",
        "userinfo_endpoint", "kty", "alg", "use", "kid",
    ]

    /// A request.
    package init(_ call: TransportRequest) {
        let (address, query) = Self.split(call.url)
        var parameters = Self.parameters(of: query)
        if call.head.headerFields[.contentType]?.hasPrefix("application/x-www-form-urlencoded") == true {
            parameters += Self.parameters(of: String(decoding: call.body, as: UTF8.self))
        } else if let members = try? JSON(parsing: call.body).object {
            parameters += Self.members(members)
        }
        // The presence of these fields shows how the client authenticated; the values are hidden.
        for name in [.authorization, .cookie] as [HTTPField.Name] {
            for value in call.head.headerFields[values: name] {
                parameters.append(Parameter(name: name.rawName, value: Self.length(value)))
            }
        }
        self.init(title: "\(call.head.method) \(Redaction.url(address))", parameters: parameters)
    }

    /// A response.
    package init(_ response: TransportResponse) {
        var parameters: [Parameter] = []
        if let location = response.head.headerFields[.location] {
            let (address, query) = Self.split(location)
            parameters.append(Parameter(name: "Location", value: Redaction.url(address)))
            parameters += Self.parameters(of: query)
        }
        for cookie in response.head.headerFields[values: .setCookie] {
            let name = DisplayText.sanitized(String(cookie.unicodeScalars.prefix { $0 != "=" }), limit: 60)
            parameters.append(Parameter(name: "Set-Cookie \(name)", value: Self.length(cookie)))
        }
        if let members = try? response.parsed().object { parameters += Self.members(members) }
        let type = response.mediaType.isEmpty ? "" : " \(DisplayText.sanitized(response.mediaType, limit: 60))"
        self.init(title: "\(response.status) \(response.head.status.reasonPhrase)\(type)", parameters: parameters)
    }

    /// A browser's navigation to a URL.
    package init(visit url: String) {
        let (address, query) = Self.split(url)
        self.init(title: "GET \(Redaction.url(address))", parameters: Self.parameters(of: query))
    }

    private init(title: String, parameters: [Parameter]) {
        self.title = title
        self.parameters = parameters
    }

    private static func split(_ url: String) -> (address: String, query: String) {
        let address = url.unicodeScalars.prefix { $0 != "?" && $0 != "#" }
        return (String(address), String(url.unicodeScalars.dropFirst(address.count + 1)))
    }

    private static func parameters(of form: String) -> [Parameter] {
        guard let parameters = FormURLEncoding.decode(Substring(form)) else {
            return [Parameter(name: "(not a form)", value: length(form))]
        }
        // The decoder splits the text in the same way. Text without an equals sign may be a value, such as a ticket.
        return zip(form.utf8.split(separator: UInt8(ascii: "&")), parameters.pairs).map { field, pair in
            field.contains(UInt8(ascii: "="))
                ? Parameter(name: shown(pair.name), value: value(of: pair.name, pair.value))
                : Parameter(name: "(no name)", value: length(pair.name))
        }
    }

    private static func members(_ members: [String: JSON]) -> [Parameter] {
        members.sorted { $0.key < $1.key }.map { name, value in
            let text =
                switch value {
                case .string(let text): Self.value(of: name, text)
                case .integer(let number): publicNames.contains(name) ? "\(number)" : "a number"
                case .array(let elements): elements.count == 1 ? "1 element" : "\(elements.count) elements"
                default: value.kind
                }
            return Parameter(name: shown(name), value: text)
        }
    }

    private static func value(of name: String, _ value: String) -> String {
        guard publicNames.contains(name) else { return length(value) }
        return value.contains("://") ? Redaction.url(value) : DisplayText.sanitized(value, limit: 200)
    }

    private static func shown(_ name: String) -> String { DisplayText.sanitized(name, limit: 60) }

    private static func length(_ value: String) -> String { "(\(value.utf8.count) characters)" }
}
