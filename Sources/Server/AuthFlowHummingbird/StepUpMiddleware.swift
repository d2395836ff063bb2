#if Hummingbird
public import AuthFlowServer
public import Hummingbird

/// Enforces the authentication that a group of routes requires: a signed-in user, or a user whose authentication meets a requirement
/// (step-up). A navigation is redirected to the provider and back; a request from a script receives a 401 response. Add it after
/// ``SessionMiddleware``.
public struct StepUpMiddleware<Context: SessionRequestContext>: RouterMiddleware {
    private let server: SessionServer
    private let requirement: AuthenticationRequirement

    /// Creates the middleware.
    /// - Parameters:
    ///   - server: The session server.
    ///   - requirement: The requirement of the routes; default: a signed-in user.
    public init(
        _ server: SessionServer,
        requiring requirement: AuthenticationRequirement = AuthenticationRequirement()
    ) {
        self.server = server
        self.requirement = requirement
    }

    @concurrent public func handle(
        _ request: Request,
        context: Context,
        next: @concurrent (Request, Context) async throws -> Response
    ) async throws -> Response {
        if let response = await server.stepUp(request.head, context.session, to: requirement) {
            return Response(response)
        }
        return try await next(request, context)
    }
}

extension RouterGroup where Context: SessionRequestContext {
    /// Requires a signed-in user whose authentication meets a requirement, for the routes that are added to the
    /// group after this call.
    @discardableResult public func requireAuthentication(
        _ requirement: AuthenticationRequirement = AuthenticationRequirement(),
        by server: SessionServer
    ) -> RouterGroup<Context> {
        add(middleware: StepUpMiddleware(server, requiring: requirement))
    }
}
#endif
