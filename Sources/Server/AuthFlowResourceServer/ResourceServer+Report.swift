package import AuthFlowHTTP

extension ResourceServer {
    /// Checks an access token as if it had arrived in a request, and reports each check.
    ///
    /// A token whose introspection was skipped is not accepted, because it may have been revoked.
    ///
    /// The token leaves this process only if `introspects` is true. The issuer's metadata and keys are fetched as
    /// needed.
    /// - Parameters:
    ///   - token: The token.
    ///   - requirement: The requirement of the route; default: a valid token.
    ///   - introspects: Whether to send the token to its issuer, if the API is configured to introspect it (RFC 7662);
    ///     default: no.
    package func report(
        on token: Secret,
        requiring requirement: Requirement = Requirement(),
        introspects: Bool = false
    ) async -> TokenReport {
        let recorder = TokenReport.Recorder(introspects: introspects)
        let writer = RejectionWriter(resource: resource, rules: rules, requirement: requirement)
        do {
            let verified = try await accessToken(token, TokenDigest(token), at: host.now(), steps: recorder)
            recorder.begin(.binding)
            let binding = verified.binding
            guard binding.key == nil || rules.dpop.isAccepted else { throw TokenFailure.proofsAreNotAccepted }
            try binding.check(scheme: binding.key == nil ? .bearer : .dpop, demand: rules.binding)
            recorder.end(.passed(Self.need(of: binding)))
            try requirement.check(verified, now: host.now(), leeway: rules.clockLeeway.seconds, steps: recorder)
            return recorder.report(isAccepted: !recorder.hasSkipped)
        } catch is TokenReport.IntrospectionNotAllowed {
            recorder.end(.skipped("the token can be checked only by introspection, which was skipped"))
        } catch let failure as TokenFailure {
            recorder.end(.failed(writer.rejection(for: failure).reason))
        } catch {
            recorder.end(.undecided(writer.unavailable(error).reason))
        }
        return recorder.report(isAccepted: false)
    }

    private static func need(of binding: TokenBinding) -> String {
        switch (binding.key, binding.certificate) {
        case (nil, nil): "none: a bearer token"
        case (_?, nil): "each request needs a DPoP proof signed with the token's key"
        case (nil, _?): "each request must present the token's client certificate"
        case (_?, _?): "each request needs a DPoP proof signed with the token's key, and the token's client certificate"
        }
    }
}
