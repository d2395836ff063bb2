#if Hummingbird
public import AuthFlowServer
public import Hummingbird

/// The context of a request, including the session of its browser.
///
/// ```swift
/// struct WebContext: SessionRequestContext {
///     var coreContext: CoreRequestContextStorage
///     var session: Session?
///     init(source: Source) { coreContext = .init(source: source) }
/// }
/// ```
public protocol SessionRequestContext: RequestContext {
    /// The session; nil when no user is signed in. ``SessionMiddleware`` sets it.
    var session: Session? { get set }
}

extension SessionRequestContext {
    /// Returns the session of the request.
    /// - Throws: An `HTTPError` with status 401 when no user is signed in.
    public func requireSession() throws -> Session {
        guard let session else { throw HTTPError(.unauthorized) }
        return session
    }
}
#endif
