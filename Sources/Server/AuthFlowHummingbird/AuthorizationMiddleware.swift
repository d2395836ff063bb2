#if Hummingbird
public import AuthFlowResourceServer
public import Hummingbird
import Logging

/// The context of a request to an API, including the request's authorization.
///
/// ```swift
/// struct APIContext: AuthorizedRequestContext {
///     var coreContext: CoreRequestContextStorage
///     var authorization: Authorization?
///     init(source: Source) { coreContext = .init(source: source) }
/// }
/// ```
public protocol AuthorizedRequestContext: RequestContext {
    /// The authorization; nil on routes that do not require one. ``AuthorizationMiddleware`` sets it.
    var authorization: Authorization? { get set }
}

extension AuthorizedRequestContext {
    /// Returns the authorization of the request.
    /// - Throws: An `HTTPError` with status 500 when the route has no ``AuthorizationMiddleware``.
    public func requireAuthorization() throws -> Authorization {
        guard let authorization else { throw HTTPError(.internalServerError) }
        return authorization
    }
}

/// Forwards requests whose access token is valid and meets the requirement of a group of routes, and rejects all
/// other requests.
///
/// ```swift
/// let router = Router(context: APIContext.self)
/// router.add(middleware: ResourceMetadataMiddleware(api))
/// router.group("orders").authorize(by: api, requiring: ["orders:read"]).get { _, context in
///     "Hello, \(try context.requireAuthorization().subject ?? "client")"
/// }
/// ```
public struct AuthorizationMiddleware<Context: AuthorizedRequestContext>: RouterMiddleware {
    private let server: ResourceServer
    private let requirement: Requirement
    private let certificate: @Sendable (Request, Context) -> [UInt8]?

    /// Creates the middleware.
    /// - Parameters:
    ///   - server: The API.
    ///   - requirement: The requirement of the routes; default: a valid token.
    ///   - certificate: The client certificate of the TLS connection, in DER encoding, if this program terminates
    ///     TLS; default: none.
    public init(
        _ server: ResourceServer,
        requiring requirement: Requirement = Requirement(),
        clientCertificate certificate: @escaping @Sendable (Request, Context) -> [UInt8]? = { _, _ in nil }
    ) {
        self.server = server
        self.requirement = requirement
        self.certificate = certificate
    }

    @concurrent public func handle(
        _ request: Request,
        context: Context,
        next: @concurrent (Request, Context) async throws -> Response
    ) async throws -> Response {
        // This is nil in a nested group: the outer group has already authorized the request and consumed its proof.
        let authorization: Authorization?
        do throws(Rejection) {
            authorization =
                if let earlier = context.authorization, try server.isAuthorized(earlier, requiring: requirement) {
                    nil
                } else {
                    try await server.authorize(
                        request.head,
                        requiring: requirement,
                        clientCertificate: certificate(request, context)
                    )
                }
        } catch {
            // The reason is intended only for the operator.
            let level: Logger.Level =
                switch error.underlyingError?.code {
                case nil: .info
                // A client can cause this error with a token that has a forged key ID.
                case .temporarilyUnavailable?: .notice
                default: .error
                }
            context.logger.log(
                level: level,
                "AuthFlow: not authorized",
                metadata: ["status": "\(error.response.status)", "reason": "\(error.reason)"]
            )
            return Response(error.response)
        }
        guard let authorization else { return try await next(request, context) }
        var context = context
        context.authorization = authorization
        guard !authorization.responseFields.isEmpty else { return try await next(request, context) }
        var response: Response
        do {
            response = try await next(request, context)
        } catch var error as HTTPError {
            for field in authorization.responseFields { error.headers.append(field) }
            throw error
        } catch let error as any HTTPResponseError {
            throw AuthorizedError(base: error, fields: authorization.responseFields)
        }
        for field in authorization.responseFields { response.headers.append(field) }
        return response
    }
}

/// An error that a handler threw; its response also contains the authorization's header fields.
private struct AuthorizedError: HTTPResponseError {
    let base: any HTTPResponseError
    let fields: HTTPFields

    var status: HTTPResponse.Status { base.status }

    func response(from request: Request, context: some RequestContext) throws -> Response {
        var response = try base.response(from: request, context: context)
        for field in fields { response.headers.append(field) }
        return response
    }
}

/// Serves the protected resource metadata of an API (RFC 9728), so that clients need only the API's URL. Add it to the
/// router before all other middleware and routes.
public struct ResourceMetadataMiddleware<Context: RequestContext>: RouterMiddleware {
    private let server: ResourceServer

    /// Creates the middleware.
    public init(_ server: ResourceServer) { self.server = server }

    @concurrent public func handle(
        _ request: Request,
        context: Context,
        next: @concurrent (Request, Context) async throws -> Response
    ) async throws -> Response {
        guard let response = server.metadataResponse(to: request.head) else { return try await next(request, context) }
        return Response(response)
    }
}

extension RouterGroup where Context: AuthorizedRequestContext {
    /// Requires a token for the routes that are added to the group after this call.
    @discardableResult public func authorize(
        by server: ResourceServer,
        requiring requirement: Requirement = Requirement()
    ) -> RouterGroup<Context> {
        add(middleware: AuthorizationMiddleware(server, requiring: requirement))
    }
}
#endif
