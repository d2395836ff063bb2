public import AuthFlow

/// The options of one sign-in that the application starts.
public struct SessionSignInOptions: Sendable {
    /// The name of the provider; default: nil, which selects the provider of the browser's session or, without a
    /// session, the only provider. If there is neither, a silent sign-in fails; else the user chooses a provider, and all of these options except
    /// the page to return to and the parameters that the sign-in route forwards are ignored.
    public var provider: String?

    /// The path and query of the page to return to; default: ``SessionServerOptions/startPath``. A path of one of the server's own endpoints is
    /// ignored.
    public var returnPath: String?

    /// Parameters of the authorization request, such as `prompt`, `login_hint` and scopes. The server sets the redirect
    /// URI, the lifetime and the resources.
    ///
    /// With `prompt` `none`, the provider displays no page (a silent sign-in). If the silent sign-in fails, the browser
    /// returns to the page with the query parameter `silent_sign_in=failed`, and its session continues. Do not start another
    /// silent sign-in in this case, because the browser would loop.
    public var authorization = AuthorizationOptions()

    /// A requirement that the new authentication must meet. If the authentication does not meet it, no session is
    /// created, and the previous session continues.
    public var requirement: AuthenticationRequirement?

    /// Whether ``SessionHooks/onSignIn`` receives the browser's previous session, in order to link accounts at two
    /// providers; default: no.
    ///
    /// Set it only when handling a form of the application (``SessionServer/isFromOwnForm(_:)``) with which the
    /// user requests the linking. Otherwise, a page on another site could link an attacker's account to the user's
    /// account.
    public var linksAccounts = false

    /// Creates options.
    public init(provider: String? = nil, returnPath: String? = nil, requirement: AuthenticationRequirement? = nil) {
        self.provider = provider
        self.returnPath = returnPath
        self.requirement = requirement
    }
}

/// A parameter of the sign-in route that is forwarded to the provider (OpenID Connect Core section 3.1.2.1).
public enum SignInParameter: String, Sendable, CaseIterable {
    /// `prompt`.
    case prompt
    /// `login_hint`.
    case loginHint = "login_hint"
    /// `max_age`, in seconds.
    case maximumAge = "max_age"
    /// `acr_values`.
    case acrValues = "acr_values"
    /// `ui_locales`.
    case uiLocales = "ui_locales"

    /// The maximum length of a value, in bytes.
    private static let maximumSize = 256

    /// The value of the parameter in the options of a sign-in; nil if it is not set.
    func value(in options: SessionSignInOptions) -> String? {
        let authorization = options.authorization
        func list(_ values: [String]) -> String? { values.isEmpty ? nil : values.joined(separator: " ") }
        return switch self {
        case .prompt: authorization.prompt?.rawValue
        case .loginHint: authorization.loginHint
        case .maximumAge: authorization.maxAge.map { "\($0.components.seconds)" }
        case .acrValues: list(authorization.acrValues)
        case .uiLocales: list(authorization.uiLocales)
        }
    }

    /// Sets the parameter in the options of a sign-in, if the value is valid.
    func set(_ text: String, in options: inout SessionSignInOptions) {
        let isText = text.unicodeScalars.allSatisfy { $0.value >= 0x20 && $0.value != 0x7F }
        guard !text.isEmpty, text.utf8.count <= Self.maximumSize, isText else { return }
        let words = text.split(separator: " ").map { String($0) }
        switch self {
        case .prompt: options.authorization.prompt = .init(rawValue: text)
        case .loginHint: options.authorization.loginHint = text
        case .maximumAge: options.authorization.maxAge = UInt32(text).map { .seconds(Int64($0)) }
        case .acrValues: options.authorization.acrValues = words
        case .uiLocales: options.authorization.uiLocales = words
        }
    }
}
