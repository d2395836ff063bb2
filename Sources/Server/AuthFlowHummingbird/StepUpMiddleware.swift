#if Hummingbird
public import AuthFlowServer
public import Hummingbird

/// Has users authenticate as a group of routes requires: a visit goes to the provider and comes back, a script gets 401. Without a session the
/// status is 401. Add it after ``SessionMiddleware``.
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
    /// Has the routes that are added to the group from now on require an authentication of the user.
    @discardableResult public func requireAuthentication(
        _ requirement: AuthenticationRequirement,
        by server: SessionServer
    ) -> RouterGroup<Context> {
        add(middleware: StepUpMiddleware(server, requiring: requirement))
    }
}
#endif
