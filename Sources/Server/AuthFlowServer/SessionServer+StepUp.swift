public import AuthFlow
import AuthFlowJSON
public import HTTPTypes

extension SessionServer {
    /// Whether the user of a session has authenticated as a page requires.
    public func isMet(_ requirement: AuthenticationRequirement, by session: Session) -> Bool {
        requirement.isMet(by: session.authentication, at: host.now())
    }

    /// Returns the response to a request whose user has not authenticated as required (step-up); nil if the session
    /// meets the requirement. A navigation is redirected to the provider and then returns to the page; a script gets
    /// 401 and `insufficient_user_authentication`.
    ///
    /// A POST is not repeated: specify the page to return to in `returnPath`, and store the posted values in the
    /// session's data if they must not be lost.
    /// - Parameters:
    ///   - request: The request.
    ///   - session: Its session.
    ///   - requirement: The requirement.
    ///   - returnPath: The page to return to; default: the page of the request, or the start page for methods other
    ///     than GET.
    public func stepUp(
        _ request: HTTPRequest,
        _ session: Session,
        to requirement: AuthenticationRequirement,
        returnPath: String? = nil
    ) async -> TransportResponse? {
        guard !isMet(requirement, by: session) else { return nil }
        guard isNavigation(request), request.headerFields[headerName] == nil else {
            var json: [String: JSON] = ["error": "insufficient_user_authentication"]
            if !requirement.acrValues.isEmpty {
                json["acr_values"] = .string(requirement.acrValues.joined(separator: " "))
            }
            json["max_age"] = requirement.maximumAge.map { .integer($0.components.seconds) }
            return ServerResponse.json(.unauthorized, .object(json))
        }
        let own = request.method == .get ? ReturnAddress(request.path ?? "", prefixes: nil)?.path : nil
        return await signIn(
            request,
            SessionSignInOptions(provider: session.provider, returnPath: returnPath ?? own, requirement: requirement)
        )
    }
}
