import AuthFlow
import AuthFlowJSON
import AuthFlowOIDC
import AuthFlowTesting
import Synchronization
import Testing

/// Adapters with one fault each. The conformance suite detects the fault and reports the violated rule.
@Suite struct WrongAdapterTests {
    enum Fault: CaseIterable {
        case issuerWithoutTLS, metadataOfAnotherIssuer
        case hidesErrors, renamesInvalidGrant, renamesSlowDown
        case dropsScopes, changesTheRedirect
        case knowsNobody, emptySubject, userOfAnotherIssuer, everybodyIsOne, anotherSubjectEachTime, ignoresRefusals
        case userInfoOfAnother, userInfoOfAnotherByItsOwnName, userInfoOfOne, userInfoWithoutAsking
        case swapsUsersAtARefresh, swapsIdentitiesAtARefresh
        case keepsTheAccessToken, keepsTheRefreshToken, losesTheNewRefreshToken, readsNoRefreshToken, negativeLifetime
        case sendsTokensElsewhere, sendsTokensInTheURL, sendsEncodedTokensInTheURL, sendsTokensInAnotherField
        case tokenInClaims, tokenInTheSignOutURL
        case requestElsewhereInACheck, tokenInTheAuthorizationURL, confusesConcurrentUsers, requestsMoreScopes
        case hidesFailedRevocations, tokenInARevocationError
        case hidesTheIssuer, tokenInAnError, responseInAnError, knowsNobodyAfterAFailure, endsSessionsForClientErrors
        case revokesNothing, revokesTheAccessTokenAlone, revocationUnsupported, revocationFails, dropsTheEndpoint

        var rule: String {
            switch self {
            case .issuerWithoutTLS: "https URL"
            case .metadataOfAnotherIssuer: "has the issuer"
            case .hidesErrors, .renamesInvalidGrant: "errors must be passed on"
            case .renamesSlowDown: "must keep their names"
            case .dropsScopes: "registration's scopes"
            case .changesTheRedirect: "redirect_uri"
            case .knowsNobody: "user must be identified"
            case .emptySubject: "must have a subject"
            case .userOfAnotherIssuer: "an issuer other than"
            case .everybodyIsOne: "Two users must have different subjects"
            case .anotherSubjectEachTime: "same tokens must belong to the same user"
            case .ignoresRefusals: "has not issued"
            case .userInfoOfAnother, .userInfoOfAnotherByItsOwnName: "Userinfo must describe the user"
            case .userInfoOfOne: "Two users must have different userinfo"
            case .userInfoWithoutAsking: "Userinfo must require an access token"
            case .swapsUsersAtARefresh, .swapsIdentitiesAtARefresh, .keepsTheRefreshToken, .losesTheNewRefreshToken:
                "must be possible to refresh tokens repeatedly"
            case .keepsTheAccessToken: "new access token"
            case .readsNoRefreshToken: "provider's refresh token must be returned"
            case .negativeLifetime: "not a valid number of seconds"
            case .sendsTokensElsewhere: "neither the origin of an endpoint"
            case .requestElsewhereInACheck: "A request was sent to"
            case .tokenInTheAuthorizationURL: "URL of an authorization request"
            case .confusesConcurrentUsers: "must not be confused"
            case .requestsMoreScopes: "Only the registration's scopes"
            case .hidesFailedRevocations: "must be reported"
            case .tokenInARevocationError: "error must not contain a token"
            case .sendsTokensInTheURL, .sendsEncodedTokensInTheURL: "URL of a request must not contain"
            case .sendsTokensInAnotherField: "header field"
            case .tokenInClaims: "claims must not contain"
            case .tokenInTheSignOutURL: "URL of the sign-out page"
            case .hidesTheIssuer: "responses contain iss"
            case .tokenInAnError: "error must not contain a token"
            case .responseInAnError: "error for a response must not contain"
            case .knowsNobodyAfterAFailure: "does not identify the user"
            case .endsSessionsForClientErrors: "mapped to invalid_grant"
            case .revokesNothing, .revokesTheAccessTokenAlone: "revoked refresh token must be rejected"
            case .revocationUnsupported, .dropsTheEndpoint: "unless the provider cannot revoke tokens"
            case .revocationFails: "Tokens must be revoked unless"
            }
        }
    }

    private final class Memory: Sendable {
        let signIns = Mutex<[[String: JSON]]>([])
        let claims = Mutex<JSON?>(nil)
        let calls = Mutex(0)
        let current = Mutex<TokenSet?>(nil)
    }

    private struct WrongAdapter: ProviderAdapter, UserInfoProviding, ResponseParsing, TokenRevoking {
        let fault: Fault?
        let base = OIDCProvider(issuer: "https://id.example.com", identitySource: .userInfo)
        let memory = Memory()

        var issuer: String { fault == .issuerWithoutTLS ? "http://id.example.com" : base.issuer }

        var standardErrorNames: [String: String] {
            switch fault {
            case .renamesInvalidGrant: ["invalid_grant": "temporarily_unavailable"]
            case .renamesSlowDown: ["slow_down": "expired_token"]
            case .endsSessionsForClientErrors: ["invalid_client": "invalid_grant"]
            default: [:]
            }
        }

        func metadata(in context: ServerContext) async throws -> ProviderMetadata {
            var metadata = try await base.metadata(in: context)
            if fault == .metadataOfAnotherIssuer { metadata.issuer = "https://other.example.com" }
            if fault == .dropsTheEndpoint { metadata.revocationEndpoint = nil }
            if fault == .hidesTheIssuer {
                let found = metadata
                metadata = ProviderMetadata(
                    issuer: found.issuer,
                    authorizationEndpoint: found.authorizationEndpoint,
                    tokenEndpoint: found.tokenEndpoint,
                    jwksURI: found.jwksURI,
                    userInfoEndpoint: found.userInfoEndpoint,
                    revocationEndpoint: found.revocationEndpoint
                )
            }
            return metadata
        }

        func prepare(_ request: inout ProviderRequest, in context: ProviderContext) {
            if fault == .tokenInTheSignOutURL, request.purpose == .endSession {
                request.parameters["access_token"] = request.tokens?.accessToken.exposed
            }
            guard request.purpose == .authorization else { return }
            if fault == .tokenInTheAuthorizationURL {
                request.parameters["hint"] = memory.signIns.withLock { $0.first?["access_token"]?.string }
            }
            if fault == .requestsMoreScopes {
                request.parameters["scope"] = (request.parameters["scope"] ?? "") + " admin"
            }
            if fault == .dropsScopes { request.parameters["scope"] = nil }
            if fault == .changesTheRedirect { request.parameters["redirect_uri"] = "https://elsewhere.example.com/" }
        }

        func identity(for tokens: TokenSet, in context: ProviderContext) async throws -> Identity? {
            if fault == .ignoresRefusals {
                let known = try? await base.identity(for: tokens, in: context)
                return known ?? Identity(issuer: issuer, subject: "0")
            }
            let token = tokens.accessToken.exposed
            switch fault {
            case .sendsTokensElsewhere:
                let request = TransportRequest(.get, "https://elsewhere.example.com/me")
                _ = try? await context.resource(request, with: tokens)
            case .sendsTokensInTheURL:
                _ = try? await context.send(TransportRequest(.get, Endpoint("\(issuer)/userinfo?token=\(token)")))
            case .sendsEncodedTokensInTheURL:
                // Tokens of other providers contain characters that must be encoded.
                let encoded = token.utf8.map { "%" + String($0, radix: 16) }.joined()
                _ = try? await context.send(TransportRequest(.get, Endpoint("\(issuer)/userinfo?token=\(encoded)")))
            case .sendsTokensInAnotherField:
                var request = try TransportRequest(.get, Endpoint("\(issuer)/userinfo"))
                request.head.headerFields[.referer] = token
                _ = try? await context.send(request)
            case .tokenInAnError, .knowsNobodyAfterAFailure:
                do {
                    return try await base.identity(for: tokens, in: context)
                } catch {
                    guard fault == .tokenInAnError else { return nil }
                    throw AuthError(.invalidUserInfo, "The request with \(token) failed.")
                }
            default: break
            }
            memory.current.withLock { $0 = tokens }
            guard var known = try await base.identity(for: tokens, in: context) else { return nil }
            if fault == .confusesConcurrentUsers, let current = memory.current.withLock({ $0 }),
                let latest = try await base.identity(for: current, in: context)
            {
                known = latest
            }
            func named(_ subject: String) -> Identity {
                Identity(issuer: issuer, subject: subject, claims: known.claims)
            }
            switch fault {
            case .knowsNobody: return nil
            case .tokenInClaims:
                return Identity(issuer: issuer, subject: known.subject, claims: ["token": .string(token)])
            case .emptySubject: return named("")
            case .userInfoOfAnotherByItsOwnName:
                let claims: JSON = ["uid": .string(known.subject)]
                return Identity(issuer: issuer, subject: known.subject, claims: claims)
            case .userOfAnotherIssuer: return Identity(issuer: "https://other.example.com", subject: known.subject)
            case .everybodyIsOne: return named("1")
            case .anotherSubjectEachTime:
                return named(
                    memory.calls.withLock { calls in
                        calls += 1
                        return "\(known.subject)-\(calls)"
                    }
                )
            case .swapsIdentitiesAtARefresh:
                let first = memory.signIns.withLock { $0.compactMap { $0["access_token"]?.string } }
                return first.contains(tokens.accessToken.exposed) ? known : named("\(known.subject)-2")
            default: return known
            }
        }

        func userInfo(for tokens: TokenSet, in context: ProviderContext) async throws -> JSON {
            switch fault {
            case .userInfoOfAnother: return ["sub": "another"]
            case .userInfoOfAnotherByItsOwnName: return ["uid": "another"]
            case .userInfoOfOne: return ["id": 7]
            case .userInfoWithoutAsking:
                // Returns the last response if the provider rejects the request.
                if let claims = try? await base.userInfo(for: tokens, in: context) {
                    memory.claims.withLock { $0 = claims }
                }
                return memory.claims.withLock { $0 } ?? [:]
            default: return try await base.userInfo(for: tokens, in: context)
            }
        }

        func parameters(of response: ProviderResponse) throws -> JSON {
            if fault == .hidesErrors, response.status != 200 {
                throw AuthError(.invalidResponse, "Something went wrong.")
            }
            if fault == .responseInAnError, (try? response.parameters()) == nil {
                throw AuthError(.invalidResponse, "Not JSON: \(String(decoding: response.http.body, as: UTF8.self))")
            }
            guard response.status == 200 else { return try response.parameters() }
            var members = try response.parameters().object ?? [:]
            switch response.purpose {
            case .token:
                memory.signIns.withLock { [members] in $0.append(members) }
                if fault == .readsNoRefreshToken { members["refresh_token"] = nil }
                if fault == .negativeLifetime { members["expires_in"] = -1 }
            case .refresh:
                let signIns = memory.signIns.withLock { $0 }
                switch fault {
                // The other user signed in most recently.
                case .swapsUsersAtARefresh: members["access_token"] = signIns.last?["access_token"]
                case .keepsTheAccessToken: members["access_token"] = signIns.first?["access_token"]
                case .keepsTheRefreshToken: members["refresh_token"] = signIns.first?["refresh_token"]
                case .losesTheNewRefreshToken: members["refresh_token"] = nil
                default: break
                }
            default: break
            }
            return .object(members)
        }

        func check(_ credential: Credential, replacing previous: Credential?, in context: ProviderContext) async throws
        {
            guard fault == .requestElsewhereInACheck else { return }
            _ = try? await context.send(TransportRequest(.get, Endpoint("https://elsewhere.example.com/me")))
        }

        func revoke(_ credential: Credential, in context: ProviderContext) async throws {
            switch fault {
            case .hidesFailedRevocations: try? await context.revoke(credential.revocableTokens(at: context.host.now()))
            case .tokenInARevocationError:
                do {
                    try await context.revoke(credential.revocableTokens(at: context.host.now()))
                } catch {
                    throw AuthError(.providerRejected, "Revoke \(credential.tokens.accessToken.exposed) by hand.")
                }
            case .revokesNothing: return
            case .revokesTheAccessTokenAlone: try await context.revoke([RevocableToken(credential.tokens.accessToken)])
            case .revocationUnsupported: throw AuthError(.unsupported, "Not here.")
            case .revocationFails: throw AuthError(.providerRejected, "No.")
            default: try await context.revoke(credential.revocableTokens(at: context.host.now()))
            }
        }
    }

    private func suite(_ fault: Fault?, revokesTokens: Bool = true) throws -> ProviderConformance {
        let environment = EmulatorEnvironment(try OIDCEmulator(issuer: "https://id.example.com"))
        let adapter = WrongAdapter(fault: fault)
        var values = try EmulatorEnvironment.registration()
        values.scopes = ["profile", "offline_access"]
        values.postLogoutRedirectURI = values.redirectURIs.first
        return ProviderConformance(
            adapter: adapter,
            client: try environment.client(registration: values, adapter: adapter),
            other: try environment.client(registration: values, adapter: adapter, user: .bob),
            revokesTokens: revokesTokens
        )
    }

    @Test func theAdapterWithoutAFaultConforms() async throws { try await suite(nil).run() }

    @Test func anAdapterThatParsesOnlyFormResponsesConforms() async throws {
        struct FormAdapter: ProviderAdapter, ResponseParsing {
            let base = OIDCProvider(issuer: "https://id.example.com", identitySource: .userInfo)
            var issuer: String { base.issuer }
            func metadata(in context: ServerContext) async throws -> ProviderMetadata {
                try await base.metadata(in: context)
            }
            func parameters(of response: ProviderResponse) throws -> JSON {
                guard let form = FormURLEncoding.decode(String(decoding: response.http.body, as: UTF8.self)) else {
                    throw AuthError(.invalidResponse, "The response is not a form.")
                }
                let members = form.pairs.map { ($0.name, JSON.string($0.value)) }
                return .object(Dictionary(members) { first, _ in first })
            }
        }
        let environment = EmulatorEnvironment(try OIDCEmulator(issuer: "https://id.example.com"))
        environment.emulator.customResponse = { exchange in
            guard ["/token", "/revoke"].contains(exchange.request.path),
                let members = (try? JSON(parsing: exchange.response.body))?.object
            else { return exchange.response }
            var form = FormParameters()
            for (name, value) in members { form.append(name, value.string ?? "\(value.integer ?? 0)") }
            var response = exchange.response
            response.head.headerFields[.contentType] = "application/x-www-form-urlencoded"
            response.body = Array(FormURLEncoding.encodeQuery(form).utf8)
            return response
        }
        var values = try EmulatorEnvironment.registration()
        values.scopes = ["profile", "offline_access"]
        try await ProviderConformance(
            adapter: FormAdapter(),
            client: try environment.client(registration: values, adapter: FormAdapter()),
            other: try environment.client(registration: values, adapter: FormAdapter(), user: .bob)
        ).run()
    }

    @Test func anAdapterOfAServerWithSeveralTenantsConforms() async throws {
        let environment = EmulatorEnvironment(try OIDCEmulator(issuer: "https://id.example.com"))
        let template = "https://id.example.com/{tenant}"
        environment.emulator.tenancy = .init(template: template, claim: "tid", tenant: "first")
        let adapter = OIDCProvider(
            issuer: environment.emulator.issuer,
            tokenIssuer: try TokenIssuerTemplate(template, claim: "tid")
        )
        var values = try EmulatorEnvironment.registration()
        values.scopes.append("offline_access")
        try await ProviderConformance(
            adapter: adapter,
            client: try environment.client(registration: values, adapter: adapter),
            other: try environment.client(registration: values, adapter: adapter, user: .bob)
        ).run()
    }

    @Test func aProviderThatCannotRevokeTokensConforms() async throws {
        try await suite(.dropsTheEndpoint, revokesTokens: false).run()
    }

    @Test func aRevocationEndpointMustBeUsedEvenIfTheSuiteExpectsNone() async throws {
        let suite = try suite(.revocationUnsupported, revokesTokens: false)
        let error = await #expect(throws: ConformanceFailure.self) { try await suite.run() }
        #expect(error?.description.contains("has a revocation endpoint") == true)
    }

    @Test(arguments: Fault.allCases) func theConformanceSuiteDetectsEveryFault(_ fault: Fault) async throws {
        let suite = try suite(fault)
        let error = await #expect(throws: (any Error).self) { try await suite.run() }
        let words = error.map { "\($0)" } ?? ""
        #expect(words.contains(fault.rule), "\(fault): \(words)")
    }
}
