import AuthFlow
import AuthFlowJSON
import AuthFlowOIDC
import AuthFlowTesting
import Expectations
import Testing

/// Adapters that make permitted changes, and adapters that make forbidden changes.
@Suite struct AdapterRulesTests {
    private func environment() throws -> EmulatorEnvironment {
        EmulatorEnvironment(try OIDCEmulator(issuer: "https://id.example.com"))
    }

    /// An adapter that modifies the behavior of another adapter.
    private struct Bent: ProviderAdapter, UserInfoProviding, ResponseParsing, TokenRevoking {
        var base: OIDCProvider
        var preparing: @Sendable (inout ProviderRequest) -> Void = { _ in }
        var naming: @Sendable (Identity) -> Identity = { $0 }
        var telling: @Sendable (JSON) -> JSON = { $0 }
        var reading: @Sendable (ProviderResponse) throws -> Void = { _ in }
        var revoking: (@Sendable () throws -> Void)?
        var checking: @Sendable (_ previous: Credential?) throws -> Void = { _ in }

        var issuer: String { base.issuer }
        func metadata(in context: ServerContext) async throws -> ProviderMetadata {
            try await base.metadata(in: context)
        }
        func prepare(_ request: inout ProviderRequest, in context: ProviderContext) async throws { preparing(&request) }
        func check(
            _ credential: Credential,
            replacing previous: Credential?,
            in context: ProviderContext
        ) async throws { try checking(previous) }
        func identity(for tokens: TokenSet, in context: ProviderContext) async throws -> Identity? {
            try await context.identity(for: tokens).map(naming)
        }
        func userInfo(for tokens: TokenSet, in context: ProviderContext) async throws -> JSON {
            telling(try await context.userInfo(for: tokens))
        }
        func parameters(of response: ProviderResponse) throws -> JSON {
            try reading(response)
            return try response.parameters()
        }
        func revoke(_ credential: Credential, in context: ProviderContext) async throws {
            guard let revoking else {
                return try await context.revoke(credential.revocableTokens(at: context.host.now()))
            }
            try revoking()
        }
    }

    private static func provider() -> Bent { Bent(base: OIDCProvider(issuer: "https://id.example.com")) }

    /// RFC 6749 section 3.1: "Request and response parameters MUST NOT be included more than once."
    @Test(arguments: [("scope", false), ("login_hint", false), ("resource", true), ("audience", true)])
    func onlyResourceAndAudienceParametersMayBeRepeated(_ name: String, _ isAllowed: Bool) async throws {
        let environment = try environment()
        var provider = Self.provider()
        provider.preparing = { request in
            request.parameters[name] = "https://a.example.com"
            request.parameters.append(name, "https://b.example.com")
        }
        let client = try environment.client(registration: EmulatorEnvironment.registration(), adapter: provider).client
        do {
            let request = try await client.authorizationRequest()
            #expect(isAllowed)
            let query = request.url.split(separator: "?").last ?? ""
            #expect(query.split(separator: "&").filter { $0.hasPrefix("\(name)=") }.count == 2)
        } catch let error as AuthError {
            #expect(!isAllowed)
            #expect(error.code == .invalidConfiguration && error.message.contains("\"\(name)\""))
        }
    }

    @Test func anAdapterCannotReplaceTheSubjectOfTheIDToken() async throws {
        var provider = Self.provider()
        provider.naming = { Identity(issuer: $0.issuer, subject: "mallory", claims: $0.claims) }
        let client = try environment().client(registration: EmulatorEnvironment.registration(), adapter: provider)
        await expectError(.invalidUserInfo) { try await client.signIn() }
        #expect(try await client.credential() == nil)
    }

    @Test(
        arguments: [
            (AuthError(.storageFailed, "No space is left."), .temporarilyUnavailable),
            (CancellationError(), .networkFailed),
        ] as [(any Error, AuthError.Code)]
    )
    func refreshedTokensThatAnAdapterCannotCheckNowAreNotRejected(_ failure: any Error, _ code: AuthError.Code)
        async throws
    {
        var settings = try EmulatorEnvironment.registration()
        settings.scopes.append("offline_access")
        var provider = Self.provider()
        provider.checking = { previous in if previous != nil { throw failure } }
        let client = try environment().client(registration: settings, adapter: provider)
        let credential = try await client.signIn().credential
        guard case .unchecked(let kept, let error) = try await client.client.refresh(credential) else {
            Issue.record("The refreshed tokens were accepted or rejected.")
            return
        }
        #expect(error.code == code)
        #expect(kept.tokens.accessToken == credential.tokens.accessToken)
        #expect(kept.tokens.expiresAt == credential.tokens.expiresAt)
    }

    @Test func addingTheOpenIDScopeInAnAdapterRequiresANonceAndAnIDToken() async throws {
        let environment = try environment()
        var settings = try EmulatorEnvironment.registration()
        settings.scopes = ["profile"]
        var provider = Self.provider()
        provider.preparing = { request in
            if request.purpose == .authorization { request.parameters["scope"] = "openid profile" }
        }
        let client = try environment.client(registration: settings, adapter: provider)
        let credential = try await client.signIn().credential
        #expect(credential.tokens.verifiedIDToken?.claims["nonce"] != nil)
        #expect(environment.emulator.receivedRequests.first { $0.path == "/authorize" }?.query["nonce"] != nil)
        environment.emulator.fault = .idToken(.missingNonce)
        let error = await #expect(throws: AuthError.self) { try await client.signIn() }
        #expect(error?.code == .invalidIDToken)
        environment.emulator.fault = .tokenResponse(.missingIDToken)
        await expectError(.invalidIDToken) { try await client.signIn() }
        // If the response contains no scope, the scopes are those of the request as it was sent.
        environment.emulator.fault = .tokenResponse(.missingScope)
        #expect(try await client.signIn().credential.tokens.scopes == ["openid", "profile"])
    }
}
