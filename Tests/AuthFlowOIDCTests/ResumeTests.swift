import AuthFlow
import AuthFlowDesktop
import AuthFlowOIDC
import AuthFlowTesting
import ConformanceRows
import Expectations
import Synchronization
import Testing

/// Sign-ins whose redirect arrives through `AuthClient.resume(with:)`, either from an app's URL handler or pasted.
@Suite struct ResumeTests {
    /// Signs in with a waiting user agent, and calls `act` with the URL that the agent displays.
    private func signIn(
        _ agent: any UserAgent,
        at environment: EmulatorEnvironment,
        redirectURI: String = "com.example.authflow:/callback",
        responseMode: ResponseMode = .query,
        _ act: @escaping @Sendable (_ url: String, _ client: AuthClient) async throws -> Void
    ) async throws -> SignIn {
        let (addresses, address) = AsyncStream<String>.makeStream()
        var settings = try EmulatorEnvironment.registration()
        settings.redirectURIs = [try RedirectURI(redirectURI)]
        settings.responseMode = responseMode
        let client = try Self.client(environment, settings, agent) { event in
            if let url = event.url { address.yield(url) }
        }
        #expect(!client.resume(with: "\(redirectURI)?code=1&state=1"))
        async let signIn = client.signIn()
        for await url in addresses {
            try await act(url, client)
            break
        }
        return try await signIn
    }

    @Test(arguments: [ResponseMode.query, .fragment]) func signsInWithTheRedirectURLThatOpensTheApp(
        _ mode: ResponseMode
    ) async throws {
        try await EmulatorEnvironment.with(.inProcess) { environment in
            let signIn = try await signIn(SystemBrowserUserAgent(launcher: nil), at: environment, responseMode: mode) {
                url,
                client in
                let response = try await environment.visit(url, responseMode: mode)
                #expect(!client.resume(with: "com.example.authflow:/callback?code=x&state=wrong"))
                #expect(!client.resume(with: "com.example.authflow:/other"))
                #expect(client.resume(with: response))
                #expect(!client.resume(with: response))
            }
            #expect(signIn.credential.identity?.displayName == "Alice Example")
        }
    }

    @Test func signsInWithAPastedRedirect() async throws {
        try await EmulatorEnvironment.with(.sockets) { environment in
            let signIn = try await signIn(PasteUserAgent(), at: environment, redirectURI: "http://127.0.0.1/callback") {
                url,
                client in
                let response = try await environment.visit(url)
                #expect(client.resume(with: response))
            }
            #expect(signIn.credential.identity?.displayName == "Alice Example")
        }
    }

    /// The next sign-in method is then tried.
    @Test func aFormPostCannotBePasted() async throws {
        let options = RedirectOptions(
            redirectURIs: [.loopback],
            state: Secret("s"),
            responseMode: .formPost,
            reporter: FlowReporter(),
            clock: ContinuousClock()
        )
        await expectError(.unsupported) { try await PasteUserAgent().withRedirectSession(options) { _ in } }
    }

    @Test func rejectsAPastedRedirectFromAnotherIssuer() async throws {
        try await EmulatorEnvironment.with(.inProcess) { environment in
            let error = await #expect(throws: AuthError.self) {
                try await signIn(PasteUserAgent(), at: environment) { url, client in
                    let response = try await environment.visit(url)
                    let issuer = FormURLEncoding.encodeQuery(["iss": "https://evil.example"])
                    let parameters = response.split(separator: "&").filter { !$0.hasPrefix("iss=") }
                    #expect(client.resume(with: parameters.joined(separator: "&") + "&" + issuer))
                }
            }
            #expect(error?.code == .issuerMismatch)
        }
    }

    @Test func keepsWaitingAfterAnUnrelatedURL() async throws {
        try await EmulatorEnvironment.with(.inProcess) { environment in
            let signIn = try await signIn(SystemBrowserUserAgent(launcher: nil), at: environment) { url, client in
                for junk in [
                    "", "x", "https://evil.example/?state=1", "com.example.authflow:/callback?error=access_denied",
                ] {
                    #expect(!client.resume(with: junk))
                }
                let response = try await environment.visit(url)
                #expect(client.resume(with: response))
            }
            #expect(signIn.storageError == nil)
        }
    }

    /// The code can be used only once, so the sign-in completes without its caller.
    @Test func aSignInThatIsCancelledAfterTheRedirectHasArrivedIsStored() async throws {
        try await EmulatorEnvironment.with(.inProcess) { environment in
            let (addresses, address) = AsyncStream<String>.makeStream()
            let running = Mutex<Task<SignIn, any Error>?>(nil)
            var settings = try EmulatorEnvironment.registration()
            settings.redirectURIs = ["com.example.authflow:/callback"]
            let client = try Self.client(environment, settings, SystemBrowserUserAgent(launcher: nil)) { event in
                if let url = event.url { address.yield(url) }
                if event.step == .codeExchange { running.withLock { $0?.cancel() } }
            }
            var states = try await client.states().makeAsyncIterator()
            #expect(await states.next() == .signedOut)
            let task = Task { try await client.signIn() }
            running.withLock { $0 = task }
            for await url in addresses {
                let response = try await environment.visit(url)
                #expect(client.resume(with: response))
                break
            }
            await #expect(throws: CancellationError.self) { try await task.value }
            let state = await states.next()
            guard case .signedIn(let identity)? = state else {
                Issue.record("\(String(describing: state))")
                return
            }
            #expect(identity?.displayName == "Alice Example")
            #expect(try await client.credential() != nil)
        }
    }

    private static func client(
        _ environment: EmulatorEnvironment,
        _ settings: ClientRegistration.Values,
        _ agent: any UserAgent,
        observer: @escaping @Sendable (FlowEvent) -> Void
    ) throws -> AuthClient {
        AuthClient(
            client: OAuthClient(
                server: AuthorizationServer(
                    OIDCProvider(issuer: environment.emulator.issuer),
                    transport: environment.transport
                ),
                registration: try ClientRegistration(settings)
            ),
            methods: [.userAgent(agent)],
            observer: observer
        )
    }
}
