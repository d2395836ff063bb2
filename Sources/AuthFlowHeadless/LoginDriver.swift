public import AuthFlow

/// A type that does what a person would do on a provider's pages, one page at a time.
///
/// The headless user agent owns cookies, redirects and origins, and knows nothing of what is on a page. It hands each
/// page it comes to a driver, which says where to go next: the answers to a form, or a call of the provider's own API
/// followed by an address.
public protocol LoginDriver: Sendable {
    /// Decides what to do on a page.
    /// - Parameters:
    ///   - page: The page that the visit has come to.
    ///   - browser: Sends further requests with the same cookies, for providers that sign in through an API.
    /// - Returns: Where to go next.
    /// - Throws: ``AuthFlow/AuthError`` when there is no way on.
    func next(after page: HeadlessPage, in browser: HeadlessBrowser) async throws -> HeadlessNavigation
}

/// A page that a headless visit has come to.
public struct HeadlessPage: Sendable {
    /// Its address.
    public let endpoint: Endpoint

    /// What the server sent.
    public let reply: HTTPReply

    /// Whether credentials have been typed already during this visit. A page that asks again has refused them.
    public let hasTypedCredentials: Bool
}

/// Where a headless visit goes next.
public struct HeadlessNavigation: Sendable {
    /// The address.
    public let endpoint: Endpoint

    /// The form to post; nil for a plain GET.
    public let form: FormParameters?

    /// Whether the form holds a password or the like.
    public let typesCredentials: Bool

    /// Goes to an address.
    /// - Parameters:
    ///   - endpoint: The address.
    ///   - typesCredentials: Whether the driver has signed in on the way, by calls of its own.
    public static func visit(_ endpoint: Endpoint, typesCredentials: Bool = false) -> HeadlessNavigation {
        HeadlessNavigation(endpoint: endpoint, form: nil, typesCredentials: typesCredentials)
    }

    /// Posts a form.
    /// - Parameters:
    ///   - form: The answers.
    ///   - endpoint: The form's action.
    ///   - typesCredentials: Whether the answers hold a password or the like.
    public static func post(_ form: FormParameters, to endpoint: Endpoint, typesCredentials: Bool) -> HeadlessNavigation
    {
        HeadlessNavigation(endpoint: endpoint, form: form, typesCredentials: typesCredentials)
    }
}
