import AuthFlow
import AuthFlowJSON
import AuthFlowTesting
import ConformanceRows
import Expectations
import HTTPTypes
import Synchronization
import Testing

/// Two resources of one origin use the same dynamic registration.
@Suite struct SharedRegistrationTests {
    private let time = VirtualTime()
    private let store = MemoryTokenStore()
    private let environment: ResourceEnvironment
    private let interceptor: Interceptor
    private let first: ResourceClient
    private let second: ResourceClient

    init() throws {
        (interceptor, environment) = Interceptor.environment(tokenLifetime: 60)
        first = try environment.client(store: store, host: time.host)
        second = try ResourceClient(
            "https://api.example.com/two",
            methods: [.userAgent(try environment.userAgent())],
            store: store,
            transport: interceptor,
            host: time.host
        )
        interceptor.respond { call in
            guard call.url.hasSuffix("/.well-known/oauth-protected-resource/two") else { return nil }
            return jsonResponse(
                .ok,
                [
                    "resource": "https://api.example.com/two", "authorization_servers": ["https://api.example.com"],
                ]
            )
        }
    }

    private func stored(_ clientID: String) async throws -> StoredRegistration? {
        try await StoredRegistrations(store: store, for: environment.emulator.origin)
            .registration(at: environment.emulator.origin, clientID: clientID)
    }

    /// Signs in to both resources, and makes a refresh for the first resource fail, so that its registration is retired.
    /// - Returns: The client ID of the registration.
    private func mistake() async throws -> String {
        _ = try await first.signIn()
        _ = try await second.signIn()
        #expect(environment.emulator.registrations == 1)
        let clientID = try #require(try await second.status()).clientID
        time.advance(by: .seconds(120))
        interceptor.failTokenRequestOnce()
        await expectError(.loginRequired) { _ = try await first.freshCredential() }
        return clientID
    }

    @Test func retiringASharedRegistrationKeepsTheSessionOfAnotherResource() async throws {
        let clientID = try await mistake()
        _ = try await first.signIn()
        #expect(environment.emulator.registrations == 2)
        #expect(try await first.status()?.clientID != clientID)
        // The second resource still has tokens issued to the old client, and can refresh and revoke them.
        _ = try await second.freshCredential()
        #expect(try await second.status()?.clientID == clientID)
        #expect(try await stored(clientID) != nil)
        #expect(try await second.signOut().credential != nil)
        #expect(try await stored(clientID) == nil)
    }

    @Test func aRetiredRegistrationIsRemovedAtTheLastSignOut() async throws {
        let clientID = try await mistake()
        _ = try await first.signOut()
        #expect(try await stored(clientID) != nil)
        _ = try await second.signOut()
        #expect(try await stored(clientID) == nil)
    }

    /// A resource that is missing from the list may still use the registration.
    @Test func aRetiredRegistrationRemainsWhileTheListOfResourcesIsIncomplete() async throws {
        let clientID = try await mistake()
        let list = RecordKey(name: "resources", issuer: "", clientID: "", kind: .list)
        try await store.set(Array(#"{"entries":[],"incomplete":true}"#.utf8), for: list)
        _ = try await first.signOut()
        #expect(try await stored(clientID) != nil)
    }

    @Test func aResourceOfAnotherOriginDoesNotKeepARetiredRegistration() async throws {
        let clientID = try await mistake()
        let other = "https://other.example.com/mcp"
        let entries: JSON = [.string(environment.emulator.resource), "https://api.example.com/two", .string(other)]
        let list = RecordKey(name: "resources", issuer: "", clientID: "", kind: .list)
        try await store.set(try JSON.object(["entries": entries]).serialized(), for: list)
        // A record of the same origin that cannot be read would keep the registration.
        let record = RecordKey(name: other, issuer: "", clientID: "", kind: .protectedResource)
        try await store.set(Array("damaged".utf8), for: record)
        _ = try await first.signOut()
        #expect(try await stored(clientID) != nil)
        _ = try await second.signOut()
        #expect(try await stored(clientID) == nil)
    }

    /// A sign-in with another key cannot decrypt the current registration, and replaces it.
    @Test func aSignInWithAnotherKeyDoesNotAffectTheSessionOfAnotherResource() async throws {
        let encrypted = try [1, 2].map { (byte: UInt8) in
            let key = Secret(Base64URL.encode([UInt8](repeating: byte, count: 32)))
            let keys = try EncryptionKeys([("key \(byte)", key)])
            return EncryptedTokenStore(store, key: .keys(keys))
        }
        _ = try await environment.client(store: encrypted[0], host: time.host).signIn()
        let other = try ResourceClient(
            "https://api.example.com/two",
            methods: [.userAgent(try environment.userAgent())],
            store: encrypted[1],
            transport: interceptor,
            host: time.host
        )
        _ = try await other.signIn()
        #expect(environment.emulator.registrations == 2)
        #expect(try await environment.client(store: encrypted[0], host: time.host).status()?.credential != nil)
        // The current registration can now be read only with the other key.
        _ = try await environment.client(store: encrypted[0], host: time.host).renewRegistration()
        #expect(environment.emulator.registrations == 3)
    }

    @Test func renewingARetiredRegistrationRegistersOnce() async throws {
        let clientID = try await mistake()
        let (new, old, _) = try await first.renewRegistration()
        #expect(environment.emulator.registrations == 2)
        #expect(new.clientID != clientID)
        // The other resource still uses the old registration.
        #expect(old == nil)
        _ = try await second.freshCredential()
    }
}

/// A resource that requires step-up authentication (RFC 9470).
@Suite struct ResourceAuthenticationTests {
    private let time = VirtualTime()
    private let interceptor: Interceptor
    private let client: ResourceClient

    init() throws {
        let environment: ResourceEnvironment
        (interceptor, environment) = Interceptor.environment(tokenLifetime: 20)
        var options = ResourceClient.Options()
        options.freshnessMargin = .zero
        client = try environment.client(options: options, host: time.host)
    }

    private func send() async throws -> Int {
        try await client.send(TransportRequest(.get, client.address)).status
    }

    private func demand(_ parameters: String) -> TransportResponse {
        challenge(#"Bearer error="insufficient_user_authentication", \#(parameters)"#)
    }

    private func challenge(_ field: String) -> TransportResponse {
        TransportResponse(head: HTTPResponse(status: .unauthorized, headerFields: [.wwwAuthenticate: field]))
    }

    /// The values of `acr_values` and `max_age` of the authorization requests.
    private func requested() -> [[String?]] {
        interceptor.authorizations.map { query in [query["acr_values"], query["max_age"]] }
    }

    @Test func successiveStepUpChallengesAreCombined() async throws {
        let answered = Mutex(0)
        interceptor.respond { [self] call in
            guard call.url == client.address.url else { return nil }
            guard call.head.headerFields[.authorization] != nil else { return challenge("Bearer") }
            let number = answered.withLock { answered in
                defer { answered += 1 }
                return answered
            }
            return switch number {
            case 0: demand(#"acr_values="mfa""#)
            case 1: demand(#"max_age="60""#)
            default: TransportResponse(head: HTTPResponse(status: .ok))
            }
        }
        #expect(try await send() == 200)
        #expect(requested() == [[nil, nil], ["mfa", nil], ["mfa", "60"]])
    }

    /// A refresh does not authenticate the user.
    @Test func aRefreshDoesNotSatisfyAStepUpAuthenticationChallenge() async throws {
        let answered = Mutex(0)
        interceptor.respond { [self] call in
            guard call.url == client.address.url else { return nil }
            guard call.head.headerFields[.authorization] != nil else { return challenge("Bearer") }
            let number = answered.withLock { answered in
                defer { answered += 1 }
                return answered
            }
            guard number == 0 else { return TransportResponse(head: HTTPResponse(status: .ok)) }
            // The token expires while the request is in progress.
            time.advance(by: .seconds(30))
            return demand(#"acr_values="mfa""#)
        }
        #expect(try await send() == 200)
        #expect(requested() == [[nil, nil], ["mfa", nil]])
    }

    @Test(arguments: ["-5", "31536001", "9223372036854775807", "1.5", "x", ""])
    func anInvalidMaxAgeInAChallengeIsIgnored(_ age: String) async throws {
        let challenges = AuthenticationChallenge.challenges(in: demand(#"acr_values="mfa", max_age="\#(age)""#))
        let challenge = try #require(ResourceChallenge(status: 401, challenges: challenges))
        #expect(challenge.maxAge == nil && challenge.acrValues == ["mfa"])
    }

    /// The values become arguments of a command that the user is advised to run.
    @Test func acrValuesWithInvalidCharactersAreIgnored() throws {
        let value = "x'\u{301};touch${IFS}PWNED;'\u{301} mfa urn:x'y"
        let challenges = AuthenticationChallenge.challenges(in: demand("acr_values=\"\(value)\""))
        let challenge = try #require(ResourceChallenge(status: 401, challenges: challenges))
        #expect(challenge.acrValues == ["mfa", "urn:x'y"])
    }
}
