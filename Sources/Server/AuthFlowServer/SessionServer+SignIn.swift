public import AuthFlow
import AuthFlowEssentials

extension SessionServer {
    /// The maximum duration of a sign-in.
    static let signInTimeout = Duration.seconds(600)

    /// The cookies of sign-ins in progress, with the `SameSite` attribute that a provider requires.
    func signInCookies(_ provider: ProviderSessions) -> SignInCookies {
        SignInCookies(
            prefix: "\(options.cookieName)-login-",
            arePosted: provider.postsResponses,
            isSecure: isSecure,
            lifetime: Self.signInTimeout
        )
    }

    /// GET /login: sends the browser to the provider. The `return_to` parameter specifies the page to return to, and
    /// `provider` specifies the provider.
    func beginSignIn(_ query: String, _ request: HTTPRequest) async -> TransportResponse {
        guard isNavigation(request) else { return ServerResponse.plain(.forbidden) }
        let decoded = FormURLEncoding.decode(query)
        let parameters = decoded ?? FormParameters()
        func single(_ name: String) -> String? {
            let values = parameters.values(for: name)
            return values.count == 1 ? values[0] : nil
        }
        // A query that cannot be decoded may contain the mark of a resumed navigation.
        let isCrossOrigin = isCrossOriginNavigation(request) || decoded == nil || parameters[Self.resumption] != nil
        if let response = continuation(of: request) { return response }
        var signIn = SessionSignInOptions(
            provider: providers.count == 1 ? nil : single("provider"),
            returnPath: single("return_to").flatMap { returnPath($0, prefixes: options.returnPrefixes) }
        )
        for parameter in options.signInParameters { single(parameter.rawValue).map { parameter.set($0, in: &signIn) } }
        // A page on another site must not force a signed-in user to sign in again.
        if isCrossOrigin, let session = try? await session(of: request, isUse: false) {
            // With the mark of a renewal, the page to return to would send the browser back here.
            let isPlain =
                parameters[Self.renewal] == nil
                && !options.signInParameters.contains { parameters[$0.rawValue] != nil }
            guard !isPlain || signIn.provider.map({ $0 != session.provider }) ?? false else {
                return ServerResponse.redirect(to: signIn.returnPath ?? options.startPath)
            }
            var own = parameters
            own[Self.resumption] = nil
            own[Self.renewal] = nil
            let path = "\(options.loginPath)?\(FormURLEncoding.encodeQuery(own))"
            return options.pages.page(
                .confirmSignIn,
                .ok,
                to: request,
                links: { [($0.retryLink, path), ($0.startLink, options.startPath)] }
            )
        }
        // A silent sign-in uses the provider of the session, or fails, without a page.
        let isSilent = signIn.authorization.prompt == AuthorizationOptions.Prompt.none
        if signIn.provider == nil, providers.count > 1, !isSilent { return choice(request, signIn) }
        return await self.signIn(request, signIn)
    }

    /// The page to return to; nil if it is not a page of the application. This server's endpoints are not such pages: a page of another site
    /// could otherwise start a sign-in in two steps, the second of which is a request from this site.
    func returnPath(_ text: String, prefixes: [String]?) -> String? {
        guard let address = ReturnAddress(text, prefixes: prefixes) else { return nil }
        let path = String(decoding: address.path.utf8.prefix { !"?#".utf8.contains($0) }, as: UTF8.self)
        let names = [path, FormURLEncoding.percentDecoded(path) ?? path]
        return names.contains(where: isEndpoint) ? nil : address.path
    }

    /// The path of the sign-in route.
    /// - Parameters:
    ///   - path: The page to which the user returns; nil for the start page.
    ///   - isRenewal: Whether the user has a session, but the page needs a new access token, which only a sign-in obtains.
    func loginPath(returningTo path: String?, isRenewal: Bool = false) -> String {
        var query = FormParameters()
        if let path { query.append("return_to", path) }
        if isRenewal { query.append(Self.renewal, "1") }
        return options.loginPath + (query.pairs.isEmpty ? "" : "?\(FormURLEncoding.encodeQuery(query))")
    }

    /// The parameter that marks a sign-in of a user whose session has no usable access token.
    private static let renewal = "renew"

    /// The parameter that marks the second request of a browser whose first request lacked the session cookie.
    private static let resumption = "resume"

    /// Returns the page for a cross-site navigation, for which browsers send no `SameSite=Strict` cookie; nil for any other
    /// request. The next request, which comes from this site, contains the cookie.
    private func continuation(of request: HTTPRequest) -> TransportResponse? {
        guard options.sameSite == .strict, request.method == .get, isCrossOriginNavigation(request),
            sessionIdentifier(of: request) == nil
        else { return nil }
        let path = ReturnAddress(request.path ?? "", prefixes: nil)?.path ?? options.loginPath
        let query = FormURLEncoding.decode(String(path.drop { $0 != "?" }.dropFirst()))
        let isRepeated = query?[Self.resumption] != nil
        let next = isRepeated ? path : path + (path.contains("?") ? "&" : "?") + "\(Self.resumption)=1"
        return options.pages.page(
            .continuing,
            .ok,
            to: request,
            links: { [($0.continueLink, next)] },
            next: isRepeated ? nil : next
        )
    }

    /// Returns the response that sends a browser to the provider. When the user returns, a new session replaces the
    /// browser's previous session.
    ///
    /// Call this method from custom pages; ``SessionServerOptions/loginPath`` does the same without code.
    /// - Parameters:
    ///   - request: The browser's request, which must be a navigation.
    ///   - signIn: The options.
    public func signIn(_ request: HTTPRequest, _ signIn: SessionSignInOptions = SessionSignInOptions()) async
        -> TransportResponse
    {
        if let response = continuation(of: request) { return response }
        let known = sessionIdentifier(of: request)
        let returnPath = signIn.returnPath.flatMap { self.returnPath($0, prefixes: nil) } ?? options.startPath
        let isSilent = signIn.authorization.prompt == AuthorizationOptions.Prompt.none
        let named = signIn.provider.flatMap { provider($0) } ?? known?.provider
        guard let provider = named ?? (providers.count == 1 ? providers[0] : nil) else {
            return isSilent ? silentFailure(returnPath, request) : choice(request, signIn)
        }
        guard provider.signIns.enter() else {
            return isSilent ? silentFailure(returnPath, request) : ServerResponse.tooMany()
        }
        defer { provider.signIns.release() }
        let reporter = FlowReporter(host: host, observer: observer)
        do {
            var authorization = signIn.authorization
            authorization.lifetime = Self.signInTimeout
            authorization.redirectURI = nil
            authorization.resources = nil
            if let requirement = signIn.requirement {
                // RFC 9470 section 4: the `acr_values` and `max_age` parameters.
                if !requirement.acrValues.isEmpty { authorization.acrValues = requirement.acrValues }
                authorization.maxAge = requirement.maximumAge ?? authorization.maxAge
            }
            var pendingRequest = try await reporter.step(.authorizationRequest) { [authorization] in
                try await provider.client.authorizationRequest(authorization)
            }
            // The browser does not send the session cookie with the provider's redirect, so the session to end at that
            // time is recorded now.
            pendingRequest.note = try PendingSignIn(
                previous: known.map {
                    .init(provider: $0.provider.name, name: $0.provider.recordKey($0.identifier).name)
                },
                returnPath: returnPath,
                isSilent: isSilent,
                linksAccounts: signIn.linksAccounts,
                acrValues: signIn.requirement?.acrValues ?? [],
                maximumAge: signIn.requirement?.maximumAge?.components.seconds
            ).note
            let cookies = signInCookies(provider)
            let cookie = cookies.cookie(for: pendingRequest.state, at: host.now(), random: host.randomBytes(32))
            try await reporter.step(.storing) { [pendingRequest] in
                try await provider.pending.save(pendingRequest, for: Secret(cookie.value))
            }
            return cookies.surplus(of: RequestCookies(request))
                .reduce(ServerResponse.redirect(to: pendingRequest.url).setting(cookie)) { $0.setting($1) }
        } catch {
            // The user has not started a silent sign-in, so no page about it is displayed.
            return isSilent
                ? silentFailure(returnPath, request) : failure(error, request, returningTo: returnPath)
        }
    }

    /// The page where the user chooses the provider.
    private func choice(_ request: HTTPRequest, _ signIn: SessionSignInOptions) -> TransportResponse {
        let links = providers.map { provider in
            var query = FormParameters()
            query.append("provider", provider.name)
            if let path = signIn.returnPath { query.append("return_to", path) }
            for parameter in SignInParameter.allCases where options.signInParameters.contains(parameter) {
                parameter.value(in: signIn).map { query.append(parameter.rawValue, $0) }
            }
            return (
                text: provider.provider.displayName, url: "\(options.loginPath)?\(FormURLEncoding.encodeQuery(query))"
            )
        }
        return options.pages.page(.chooseProvider, .ok, to: request, links: { _ in links })
    }
}
