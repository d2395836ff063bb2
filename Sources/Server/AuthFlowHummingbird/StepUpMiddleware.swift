#if Hummingbird
public import AuthFlowServer
public import Hummingbird

/// Enforces the authentication that a group of routes requires (step-up): a navigation request is redirected to the
/// provider and back; a request from a script receives a 401 response. A request without a session also receives a
/// 401 response. Add it after ``SessionMiddleware``.
public struct StepUpMiddleware<Context: SessionRequestContext>: RouterMiddleware {
    private let server: SessionServer
    private let requirement: AuthenticationRequirement

    /// Creates the middleware.
    public init(_ server: SessionServer, requiring requirement: AuthenticationRequirement) {
        self.server = server
        self.requirement = requirement
    }

    // swift-format-ignore: AllPublicDeclarationsHaveDocumentation
    @concurrent public func handle(
        _ request: Request,
        context: Context,
        next: @concurrent (Request, Context) async throws -> Response
    ) async throws -> Response {
        let session = try context.requireSession()
        if let response = await server.stepUp(request.head, session, to: requirement) { return Response(response) }
        return try await next(request, context)
    }
}

extension RouterGroup where Context: SessionRequestContext {
    /// Requires that the user's authentication meets a requirement, for the routes that are added to the group after
    /// this call.
    @discardableResult public func requireAuthentication(
        _ requirement: AuthenticationRequirement,
        by server: SessionServer
    ) -> RouterGroup<Context> {
        add(middleware: StepUpMiddleware(server, requiring: requirement))
    }
}
#endif
