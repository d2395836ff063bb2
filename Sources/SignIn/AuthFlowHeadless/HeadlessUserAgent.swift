public import AuthFlow

/// Signs in without a browser window: for tests, and for service accounts on machines without a display.
///
/// A user's password belongs in a browser (RFC 8252 section 8.12). Use this agent for accounts whose credentials the
/// program already has.
public struct HeadlessUserAgent: Sendable {
    /// The maximum number of pages that are passed to a driver.
    private static let maximumPages = 15

    private let driver: any LoginDriver
    private let sharedCookies: SharedCookies?
    private let transport: any HTTPTransport
    private let host: HostServices

    /// Creates an agent.
    /// - Parameters:
    ///   - driver: Completes the provider's pages in place of the user.
    ///   - sharedCookies: Cookies that several apps share; nil to start each visit without cookies.
    ///   - transport: The HTTP transport.
    ///   - host: Provides the clock, for the expiry of cookies.
    public init(
        driver: any LoginDriver,
        sharedCookies: SharedCookies? = nil,
        transport: any HTTPTransport = SystemTransport(),
        host: HostServices = .system
    ) {
        self.driver = driver
        self.sharedCookies = sharedCookies
        self.transport = transport
        self.host = host
    }
}

extension HeadlessUserAgent: UserAgent {
    public func withRedirectSession<Return: Sendable>(
        _ options: RedirectOptions,
        _ body: (RedirectSession) async throws -> Return
    ) async throws -> Return {
        let redirectURI = options.redirectURI.uri
        return try await body(
            RedirectSession(redirectURI: redirectURI) { url in
                let start = try Endpoint(url, name: "authorization request")
                let shared = await known(options)
                let browser = HeadlessBrowser(
                    purpose: options.purpose,
                    transport: transport,
                    now: host.now,
                    reporter: options.reporter,
                    sharedCookies: sharedCookies,
                    cookies: options.usesSharedSessions ? shared?.cookies ?? [] : []
                )
                var failure: (any Error)?
                if options.purpose == .signOut {
                    if sharedCookies != nil, shared == nil {
                        failure = AuthError(
                            .storageFailed,
                            "The shared cookies could not be read, so the session at \(start.origin) may remain active."
                        )
                    }
                    // Regardless of the provider's response, no app in the group may continue to use the session.
                    do { try await sharedCookies?.remove() } catch { failure = failure ?? error }
                    do { try await driver.beginSignOut(in: browser) } catch { failure = failure ?? error }
                }
                var navigation = HeadlessNavigation.visit(start)
                for _ in 0..<Self.maximumPages {
                    switch try await browser.navigate(navigation, until: redirectURI) {
                    case .redirect(let response):
                        if let failure { throw failure }
                        return await finished(response, in: browser, shared, options)
                    case .page(let page):
                        if options.purpose == .signOut {
                            // Some servers send an empty response when they have ended the session. This visit
                            // requested the endpoint itself, so the response belongs to this sign-out.
                            if page.isEmptySuccess, page.endpoint.url == start.url {
                                if let failure { throw failure }
                                return RedirectResponse.url(redirectURI, adding: ["state": options.state.exposed])
                            }
                            navigation = try await driver.confirmSignOut(on: page, at: start.origin, in: browser)
                            continue
                        }
                        if options.responseMode == .formPost,
                            let response = try await Self.respond(on: page, to: redirectURI)
                        {
                            return await finished(response, in: browser, shared, options)
                        }
                        navigation = try await driver.next(after: page, in: browser)
                    }
                }
                throw AuthError(
                    .userAgentFailed,
                    "After \(Self.maximumPages) pages, the provider had still not redirected back. Use a user agent with a browser instead."
                )
            }
        )
    }

    /// The cookies that other apps have shared; nil when sharing is not configured or the cookies cannot be read.
    private func known(_ options: RedirectOptions) async -> SharedCookies.Snapshot? {
        guard let sharedCookies else { return nil }
        let reporter = options.reporter
        do {
            let shared = try await sharedCookies.snapshot(for: options.purpose, now: host.now())
            reporter.report(.pageLoad, details: ["shared_cookies": "\(shared.cookies.count)"])
            return shared
        } catch {
            reporter.report(.pageLoad, details: ["shared_cookies": "\(error)"])
            return nil
        }
    }

    /// Shares the cookies of a completed sign-in, and redacts its response.
    private func finished(
        _ response: String,
        in browser: HeadlessBrowser,
        _ shared: SharedCookies.Snapshot?,
        _ options: RedirectOptions
    ) async -> String {
        if options.purpose == .signIn, let shared {
            do {
                try await sharedCookies?.save(await browser.cookies, replacing: shared, now: host.now())
            } catch {
                options.reporter.report(.pageLoad, details: ["shared_cookies": "\(error)"])
            }
        }
        return await browser.redacted(response)
    }

    /// The redirect URI with the authorization response as its query, if the page would post that response to the
    /// redirect URI (OAuth 2.0 Form Post Response Mode section 2); nil for any other page.
    private static func respond(on page: HeadlessPage, to redirectURI: String) async throws -> String? {
        let forms = try HTMLPage.read(page).forms
        let target = RedirectResponse.normalized(redirectURI)
        guard
            let form = forms.first(where: { RedirectResponse.normalized($0.action) == target && $0.method == "post" })
        else { return nil }
        var parameters = FormParameters()
        for field in form.fields where field.type == "hidden" { parameters.append(field.name, field.value) }
        return RedirectResponse.url(redirectURI, adding: parameters)
    }
}
