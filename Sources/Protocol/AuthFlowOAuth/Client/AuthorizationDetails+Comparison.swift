package import AuthFlowHTTP
package import AuthFlowJSON

extension OAuthClient {
    /// Whether tokens have the registration's authorization details, in any order; nil when it has none.
    package func coversAuthorizationDetails(_ tokens: TokenSet) -> Bool? {
        registration.authorizationDetails.map { AuthorizationDetails.areEqual($0, tokens.authorizationDetails) }
    }

    /// Compares the granted authorization details with the requested ones.
    /// - Throws: Any error thrown by ``AuthorizationDetails/compare(_:_:_:)``.
    package func compareAuthorizationDetails(
        _ asked: JSON?,
        _ tokens: TokenSet,
        _ reporter: FlowReporter,
        at step: FlowEvent.Step
    ) async throws {
        let missing = try AuthorizationDetails.compare(asked, tokens, registration)
        guard let asked, !AuthorizationDetails.areEqual(asked, tokens.authorizationDetails) else { return }
        var details = ["granted": AuthorizationDetails.types(tokens.authorizationDetails)]
        if !missing.isEmpty { details["not granted"] = AuthorizationDetails.types(.array(missing)) }
        reporter.report(step, details: details)
    }
}
