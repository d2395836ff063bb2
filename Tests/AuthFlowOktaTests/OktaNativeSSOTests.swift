import AuthFlow
import AuthFlowJSON
import AuthFlowOkta
import AuthFlowTesting
import Expectations
import Foundation
import HTTPTypes
import Synchronization
import Testing

/// Single sign-on for a vendor's apps: `device_secret`, token exchange and single logout.
@Suite struct OktaNativeSSOTests {
    @Test(arguments: EmulatorEnvironment.Setting.allCases) func signsInOnceForAllApps(
        _ setting: EmulatorEnvironment.Setting
    )
        async throws
    {
        try await OktaEnvironment.with(setting) { environment in
            let mail = try environment.app("mail", user: .alice)
            let first = try await mail.signIn().credential
            #expect(first.tokens.deviceSecret != nil)
            #expect(first.identity?.displayName == "Alice Example")
            // There is no password, so the second app can sign in only with the secret that the first app shared.
            let steps = Mutex<[FlowEvent.Step]>([])
            let calendar = try environment.app("calendar") { event in steps.withLock { $0.append(event.step) } }
            let second = try await calendar.signIn().credential
            #expect(second.identity?.subject == first.identity?.subject)
            #expect(second.tokens.verifiedIDToken?.audience == ["calendar"])
            #expect(second.tokens.deviceSecret == nil)
            #expect(second.tokens.scopes == ["openid", "profile", "offline_access"])
            #expect(steps.withLock { $0.contains(.tokenExchange) && !$0.contains(.userAgentVisit) })

            // The device secret is preserved across refreshes, whose responses contain no device secret.
            #expect(try await mail.refresh().tokens.deviceSecret == first.tokens.deviceSecret)
            _ = try await calendar.refresh()

            let signOut = try await mail.signOut()
            guard case .done = signOut.revocation else {
                Issue.record("\(signOut.revocation)")
                return
            }
            #expect(environment.emulator.custom.deviceSecrets.isEmpty)
            let error = await #expect(throws: AuthError.self) { try await calendar.refresh() }
            #expect(error?.code == .loginRequired)
            #expect(error?.message.contains("signed out in the app mail") == true)
            #expect(error?.message.contains("The refresh token is invalid or expired.") == true)
            // The shared credential no longer signs a user in.
            await expectError(.userAgentFailed) { try await environment.app("calendar").signIn() }
        }
    }

    /// A store that can delay the acquisition of a lease.
    private final class DelayingStore: ForwardingStore {
        let base: MemoryTokenStore
        private let delay = Mutex<AsyncStream<Void>?>(nil)

        init(_ base: MemoryTokenStore) { self.base = base }

        /// Delays the acquisition of the next lease until the stream ends.
        func delayNextLease(until stream: AsyncStream<Void>) { delay.withLock { $0 = stream } }

        func withLease<Return: Sendable>(
            on key: RecordKey,
            _ body: (Lease) async throws -> Return
        ) async throws -> Return {
            if let stream = delay.withLock({ $0.take() }) { for await _ in stream {} }
            return try await base.withLease(on: key, body)
        }
    }

    /// Another app holds the lease on the shared record after the first refresh.
    @Test(.timeLimit(.minutes(1))) func theLastOfTwoRotatedDeviceSecretsIsShared() async throws {
        try await OktaEnvironment.with(.inProcess) { environment in
            let store = DelayingStore(environment.shared)
            let mail = try environment.app("mail", user: .alice, sharedStore: store)
            _ = try await mail.signIn()
            let (releases, release) = AsyncStream.makeStream(of: Void.self)
            store.delayNextLease(until: releases)
            for secret in ["first-secret", "second-secret"] {
                environment.emulator.custom.fault = .tokenResponse(.member("device_secret", .string(secret)))
                #expect(try await mail.refresh().tokens.deviceSecret == Secret(secret))
            }
            for _ in 0..<1000 { await Task.yield() }
            release.finish()
            #expect(await mail.drain())
            let shared = try await SharedCredentialStore(group: "acme", store: environment.shared).value(
                for: environment.issuer
            )
            #expect(shared?.exposed["device_secret"]?.string == "second-secret")
        }
    }

    /// OpenID Connect Native SSO section 3.3: "the AS may rotate the device_secret as necessary".
    @Test func aDeviceSecretThatARefreshHasReplacedIsShared() async throws {
        try await OktaEnvironment.with(.inProcess) { environment in
            let mail = try environment.app("mail", user: .alice)
            let first = try #require(try await mail.signIn().credential.tokens.deviceSecret)
            environment.emulator.custom.fault = .tokenResponse(.member("device_secret", "rotated-secret"))
            #expect(try await mail.refresh().tokens.deviceSecret == Secret("rotated-secret"))
            #expect(await mail.drain())
            let calendar = try environment.app("calendar", user: .alice)
            environment.emulator.custom.fault = nil
            _ = try await calendar.signIn()
            let exchange = environment.emulator.custom.receivedRequests.last { $0.form["actor_token"] != nil }
            #expect(exchange?.form["actor_token"] == "rotated-secret")
            _ = try await calendar.signOut()
            let revoked = environment.emulator.custom.receivedRequests
                .filter { $0.form["token_type_hint"] == "device_secret" }.compactMap { $0.form["token"] }
            #expect(Set(revoked).isSuperset(of: ["rotated-secret", first.exposed]))
            // A refresh after the group's sign-out does not share the new device secret.
            environment.emulator.custom.fault = .tokenResponse(.member("device_secret", "late-secret"))
            _ = try? await mail.refresh()
            #expect(await mail.drain())
            let shared = try await SharedCredentialStore(group: "acme", store: environment.shared).value(
                for: environment.issuer
            )
            #expect(shared.map { "\($0.exposed)" }?.contains("late-secret") == false)
        }
    }

    /// The group has signed out since the first app's sign-in, and then signed in again.
    @Test func aDeviceSecretFromARefreshIsNotAddedToALaterSharedSignIn() async throws {
        try await OktaEnvironment.with(.inProcess) { environment in
            let mail = try environment.app("mail", user: .alice)
            _ = try await mail.signIn()
            let shared = SharedCredentialStore(group: "acme", store: environment.shared)
            try await shared.change(for: environment.issuer) { _ in nil }
            _ = try await environment.app("calendar", user: .alice).signIn()
            let later = try #require(try await shared.value(for: environment.issuer))
            environment.emulator.custom.fault = .tokenResponse(.member("device_secret", "late-secret"))
            #expect(try await mail.refresh().tokens.deviceSecret == Secret("late-secret"))
            #expect(await mail.drain())
            #expect(try await shared.value(for: environment.issuer) == later)
        }
    }

    /// A device secret may belong to a device, and so to all of its users.
    @Test func aDeviceSecretFromARefreshDoesNotReplaceTheSharedSignInOfAnotherUser() async throws {
        try await OktaEnvironment.with(.inProcess) { environment in
            environment.emulator.custom.nativeSSO?.secretHash = { _ in nil }
            environment.emulator.custom.fault = .tokenResponse(.member("device_secret", "secret-of-the-device"))
            let mail = try environment.app("mail", user: .alice)
            _ = try await mail.signIn()
            _ = try await environment.app("calendar", user: .bob).signIn(.addAccount)
            let shared = SharedCredentialStore(group: "acme", store: environment.shared)
            let ofBob = try #require(try await shared.value(for: environment.issuer))
            environment.emulator.custom.fault = .tokenResponse(.member("device_secret", "new-secret"))
            #expect(try await mail.refresh().tokens.deviceSecret == Secret("new-secret"))
            #expect(await mail.drain())
            #expect(try await shared.value(for: environment.issuer) == ofBob)
        }
    }

    @Test func aRefreshedIDTokenForAnotherDeviceSecretIsRejected() async throws {
        let time = VirtualTime(start: Date(timeIntervalSince1970: 1_800_000_000))
        try await OktaEnvironment.with(.inProcess, now: { time.now }) { environment in
            let mail = try environment.app("mail", user: .alice, host: time.host)
            _ = try await mail.signIn()
            environment.emulator.custom.fault = .idToken(.claim("ds_hash", "AAAAAAAAAAAAAAAAAAAAAA"))
            time.advance(by: .seconds(7200))
            let error = await #expect(throws: AuthError.self) { try await mail.freshTokens() }
            #expect(error?.code == .invalidIDToken)
            #expect(error?.message.contains("ds_hash") == true)
            // The refresh token is not rotated, so only the number of rejected refreshes is stored.
            time.advance(by: .seconds(600))
            let second = await #expect(throws: AuthError.self) { try await mail.freshTokens() }
            #expect(second?.code == .loginRequired)
        }
    }

    @Test(arguments: EmulatorEnvironment.Setting.allCases) func sendsTheTokenExchangeRequestThatOktaDocuments(
        _ setting: EmulatorEnvironment.Setting
    ) async throws {
        try await OktaEnvironment.with(setting) { environment in
            let first = try await environment.app("mail", user: .alice).signIn().credential
            _ = try await environment.app("calendar").signIn()
            let form = try #require(
                environment.emulator.custom.receivedRequests.last { $0.form["subject_token"] != nil }?.form
            )
            #expect(form["grant_type"] == "urn:ietf:params:oauth:grant-type:token-exchange")
            #expect(form["actor_token"] == first.tokens.deviceSecret?.exposed)
            #expect(form["actor_token_type"] == "urn:x-oath:params:oauth:token-type:device-secret")
            #expect(form["subject_token"] == first.tokens.idToken?.exposed)
            #expect(form["subject_token_type"] == "urn:ietf:params:oauth:token-type:id_token")
            #expect(form["scope"] == "openid profile offline_access")
            #expect(form["audience"] == "api://default")
            #expect(form["client_id"] == "calendar")
            #expect(form["redirect_uri"] == nil)
            #expect(form["requested_token_type"] == nil)
        }
    }

    @Test func sendsTheTokenTypeOfTheNativeSSODraftWhenConfigured() async throws {
        try await OktaEnvironment.with(.inProcess) { environment in
            _ = try await environment.app("mail", user: .alice).signIn()
            let draft = OktaProvider(issuer: environment.issuer, secretType: .deviceSecret)
            _ = try await environment.app("calendar", provider: draft).signIn()
            let form = environment.emulator.custom.receivedRequests.last { $0.form["subject_token"] != nil }?.form
            #expect(form?["actor_token_type"] == "urn:openid:params:token-type:device-secret")
        }
    }

    @Test func signsInOnceForAllAppsWithTheDefaultAudience() async throws {
        try await OktaEnvironment.with(.inProcess) { environment in
            let provider = OktaProvider(issuer: environment.issuer)
            _ = try await environment.app("mail", provider: provider, user: .alice).signIn()
            _ = try await environment.app("calendar", provider: provider).signIn()
            let form = environment.emulator.custom.receivedRequests.last { $0.form["subject_token"] != nil }?.form
            #expect(form?["audience"] == "api://default")
        }
    }

    struct ExchangeError: CustomTestStringConvertible {
        let error: String
        let words: String
        let status: Int
        var testDescription: String { error }
    }

    /// Okta's error responses to a token exchange. The user is then prompted, and an event contains the reason.
    static let exchangeErrors: [ExchangeError] = [
        ExchangeError(error: "invalid_request", words: "'actor_token' is invalid.", status: 400),
        ExchangeError(error: "invalid_request", words: "'actor_token_type' is invalid or not supported.", status: 400),
        ExchangeError(
            error: "invalid_request",
            words: "When 'actor_token_type' is 'x', 'subject_token_type' must be 'y'.",
            status: 400
        ),
        ExchangeError(error: "invalid_request", words: "'subject_token' is invalid.", status: 400),
        ExchangeError(
            error: "invalid_request",
            words: "'subject_token_type' is invalid or not supported.",
            status: 400
        ),
        ExchangeError(
            error: "invalid_request",
            words: "'requested_token_type' is invalid or not supported.",
            status: 400
        ),
        ExchangeError(
            error: "invalid_grant",
            words: "The 'subject_token' either expired or the session associated with it was terminated.",
            status: 400
        ),
        ExchangeError(
            error: "invalid_request",
            words: "'subject_token' is invalid: the session associated with it is no longer active.",
            status: 400
        ),
        ExchangeError(error: "invalid_grant", words: "The client's assurance requirements are not met.", status: 400),
        ExchangeError(
            error: "invalid_target",
            words: "Token Exchange requests must include a valid audience of the authorization server.",
            status: 400
        ),
        ExchangeError(
            error: "invalid_request",
            words: "A service client may not use the native sso flow.",
            status: 400
        ),
        ExchangeError(
            error: "unauthorized_client",
            words: "The client is not authorized to use the provided grant type.",
            status: 400
        ),
        ExchangeError(error: "unsupported_grant_type", words: "The grant type is not supported.", status: 400),
        ExchangeError(error: "consent_required", words: "The following scopes require user consent: [x].", status: 400),
        ExchangeError(error: "access_denied", words: "User is not assigned to the client application.", status: 400),
        ExchangeError(
            error: "access_denied",
            words: "The 'subject_token' issuer isn't a trusted authorization server.",
            status: 403
        ),
        // This error may recur for as long as the shared record exists.
        ExchangeError(error: "server_error", words: "The exchange failed.", status: 500),
    ]

    @Test(arguments: exchangeErrors) func promptsTheUserWhenTheTokenExchangeFails(
        _ failure: ExchangeError
    ) async throws {
        try await OktaEnvironment.with(.inProcess) { environment in
            _ = try await environment.app("mail", user: .alice).signIn()
            environment.emulator.custom.nativeSSO?.exchangeError = (failure.error, failure.words, failure.status)
            let events = Mutex<[FlowEvent]>([])
            let calendar = try environment.app("calendar", user: .alice) { event in events.withLock { $0.append(event) }
            }
            let signIn = try await calendar.signIn()
            #expect(signIn.credential.tokens.deviceSecret != nil)
            let reason = events.withLock { $0.first { $0.step == .flowChoice }?.details["reason"] }
            #expect(reason?.contains(failure.error) == true)
            #expect(reason?.contains(failure.words) == true)
        }
    }

    /// A prompt would result in a second device secret, which the sign-out of the other app would not revoke.
    @Test(arguments: [(429, "temporarily_unavailable"), (503, "temporarily_unavailable"), (503, "server_error")])
    func aTemporaryTokenExchangeFailureDoesNotPromptTheUser(_ status: Int, _ code: String) async throws {
        try await OktaEnvironment.with(.inProcess) { environment in
            _ = try await environment.app("mail", user: .alice).signIn()
            environment.emulator.custom.nativeSSO?.exchangeError = (code, "Later.", status)
            let calendar = try environment.app("calendar", user: .alice)
            let error = await #expect(throws: AuthError.self) { try await calendar.signIn() }
            #expect(error?.code == .temporarilyUnavailable)
            environment.emulator.custom.nativeSSO?.exchangeError = nil
            #expect(try await calendar.signIn().credential.tokens.deviceSecret == nil)
        }
    }

    @Test(arguments: ["invalid_request", "invalid_grant"])
    func replacesADeviceSecretThatIsNoLongerValid(_ error: String) async throws {
        try await OktaEnvironment.with(.inProcess) { environment in
            environment.emulator.custom.nativeSSO?.unknownSecretError = error
            let mail = try environment.app("mail", user: .alice)
            let first = try await mail.signIn().credential
            // An administrator has ended the session.
            let secret = try #require(first.tokens.deviceSecret)
            let context = mail.providerContext
            try await context.revoke([RevocableToken(secret, typeHint: "device_secret")])
            let calendar = try environment.app("calendar", user: .alice)
            #expect(try await calendar.signIn().credential.tokens.deviceSecret != first.tokens.deviceSecret)
            _ = try await environment.app("mail").signIn()
        }
    }

    @Test(arguments: ["device_secret", "id_token", "sub"])
    func aSharedRecordWithAMissingMemberIsNotUsed(_ name: String) async throws {
        try await OktaEnvironment.with(.inProcess) { environment in
            _ = try await environment.app("mail", user: .alice).signIn()
            let shared = SharedCredentialStore(group: "acme", store: environment.shared)
            try await shared.change(for: environment.issuer) { old in
                old.map { RedactedJSON($0.exposed.replacing(name, with: nil)) }
            }
            await expectError(.userAgentFailed) { try await environment.app("calendar").signIn() }
            #expect(environment.emulator.custom.receivedRequests.allSatisfy { $0.form["actor_token_type"] == nil })
        }
    }

    @Test func anAppWithoutTheDeviceSSOScopeNeitherUsesNorEndsTheSharedSignIn() async throws {
        try await OktaEnvironment.with(.inProcess) { environment in
            let mail = try environment.app("mail", user: .alice)
            _ = try await mail.signIn()
            var settings = try environment.settings("calendar")
            settings.scopes = ["openid", "offline_access"]
            let silent = try environment.app("calendar", settings: settings)
            await expectError(.userAgentFailed) { try await silent.signIn() }
            #expect(environment.emulator.custom.receivedRequests.allSatisfy { $0.form["subject_token"] == nil })
            let calendar = try environment.app("calendar", settings: settings, user: .alice)
            _ = try await calendar.signIn()
            #expect(try await calendar.signOut().revocation == .done)
            _ = try await mail.refresh()
            _ = try await environment.app("calendar").signIn()
        }
    }

    @Test func promptsTheUserToAddAnotherAccount() async throws {
        try await OktaEnvironment.with(.inProcess) { environment in
            _ = try await environment.app("mail", user: .alice).signIn()
            let calendar = try environment.app("calendar", user: .bob)
            #expect(try await calendar.signIn(.addAccount).credential.identity?.displayName == "Bob Example")
        }
    }

    /// Parameters that a token exchange would ignore.
    static let demands: [(String, AuthorizationOptions, FormParameters)] = [
        ("prompt", AuthorizationOptions(prompt: .login), [:]),
        ("login_hint", AuthorizationOptions(loginHint: "bob"), [:]),
        ("max_age", AuthorizationOptions(maxAge: .seconds(60)), [:]),
        ("scope", AuthorizationOptions(scopes: ["openid", "device_sso", "offline_access", "email"]), [:]),
        ("acr_values", AuthorizationOptions(), ["acr_values": "urn:okta:loa:2fa:any"]),
    ]

    @Test(arguments: demands)
    func promptsTheUserWhenATokenExchangeCannotMeetTheRequest(
        _ name: String,
        _ options: AuthorizationOptions,
        _ configured: FormParameters
    ) async throws {
        try await OktaEnvironment.with(.inProcess) { environment in
            _ = try await environment.app("mail", user: .alice).signIn()
            var settings = try environment.settings("calendar")
            settings.parameters = [.authorization: configured]
            let calendar = try environment.app("calendar", settings: settings, user: .alice)
            let signIn = try await calendar.signIn(options: options)
            // Only a sign-in with user interaction returns a device secret.
            #expect(signIn.credential.tokens.deviceSecret != nil)
            #expect(environment.emulator.custom.receivedRequests.allSatisfy { $0.form["subject_token"] == nil })
        }
    }

    @Test func usesTheTokenExchangeWithPromptNone() async throws {
        try await OktaEnvironment.with(.inProcess) { environment in
            _ = try await environment.app("mail", user: .alice).signIn()
            let silent = AuthorizationOptions(prompt: AuthorizationOptions.Prompt.none)
            let signIn = try await environment.app("calendar").signIn(options: silent)
            #expect(signIn.credential.tokens.deviceSecret == nil)
        }
    }

    @Test func promptsTheUserWhenTheSharedCredentialBelongsToAnotherUser() async throws {
        try await OktaEnvironment.with(.inProcess) { environment in
            let store = MemoryTokenStore()
            let calendar = try environment.app("calendar", user: .alice, store: store)
            _ = try await calendar.signIn()
            _ = try await environment.app("mail", user: .bob).signIn(.addAccount)
            let exchanges = environment.emulator.custom.receivedRequests.count { $0.form["subject_token"] != nil }
            #expect(try await calendar.signIn().identity?.displayName == "Alice Example")
            #expect(environment.emulator.custom.receivedRequests.count { $0.form["subject_token"] != nil } == exchanges)
        }
    }

    @Test func revokesTheTokensOfARejectedSignInByAnotherUser() async throws {
        try await OktaEnvironment.with(.inProcess) { environment in
            let store = MemoryTokenStore()
            _ = try await environment.app("mail", user: .alice, store: store).signIn()
            await expectError(.accountMismatch) {
                try await environment.app("mail", user: .bob, store: store).signIn(options: .init(prompt: .login))
            }
            let revoked = environment.emulator.custom.receivedRequests.compactMap { $0.form["token_type_hint"] }
            #expect(revoked == ["device_secret", "refresh_token", "access_token"])
            // Alice is still signed in.
            _ = try await environment.app("mail", store: store).refresh()
        }
    }

    @Test func aRejectedSignInDoesNotEndTheSessionOfAnAccountThatIsNotSelected() async throws {
        try await OktaEnvironment.with(.inProcess) { environment in
            let store = MemoryTokenStore()
            let alice = try await environment.app("mail", user: .alice, store: store).signIn().identity
            let mail = try environment.app("mail", user: .bob, store: store)
            _ = try await mail.signIn(.addAccount)
            try await mail.selectAccount(alice?.subject ?? "")
            await expectError(.accountMismatch) { try await mail.signIn(options: .init(prompt: .login)) }
            #expect(!environment.emulator.custom.receivedRequests.contains { $0.path.hasSuffix("/revoke") })
        }
    }

    @Test func aSignOutRevokesTheDeviceSecretOfALaterSignInByTheSameUser() async throws {
        try await OktaEnvironment.with(.inProcess) { environment in
            let mail = try environment.app("mail", user: .alice)
            _ = try await mail.signIn()
            _ = try await environment.app("calendar", user: .alice).signIn(options: .init(maxAge: .seconds(60)))
            #expect(try await mail.signOut().revocation == .done)
            await expectError(.userAgentFailed) { try await environment.app("calendar").signIn() }
        }
    }

    /// Otherwise, apps that signed in with an earlier secret would remain signed in.
    @Test func aSignOutRevokesDeviceSecretsReplacedByLaterSignIns() async throws {
        try await OktaEnvironment.with(.inProcess) { environment in
            let first = try await environment.app("mail", user: .alice).signIn().credential.tokens.deviceSecret
            let calendar = try environment.app("calendar", user: .alice)
            var secrets = [first]
            for _ in 0..<2 {
                let signIn = try await calendar.signIn(options: .init(maxAge: .seconds(60)))
                secrets.append(signIn.credential.tokens.deviceSecret)
            }
            #expect(Set(secrets).count == 3)
            #expect(try await calendar.signOut().revocation == .done)
            let revoked = environment.emulator.custom.receivedRequests.filter { $0.path.hasSuffix("/revoke") }
                .compactMap { $0.form["token"] }
            #expect(Set(revoked).isSuperset(of: secrets.compactMap { $0?.exposed }))
        }
    }

    @Test func aDamagedSharedRecordDoesNotKeepAnAppFromRevokingItsOwnTokens() async throws {
        try await OktaEnvironment.with(.inProcess) { environment in
            let mail = try environment.app("mail", user: .alice)
            let tokens = try await mail.signIn().credential.tokens
            try await environment.shared.set(
                Array("{".utf8),
                for: RecordKey(name: "acme", issuer: environment.issuer, clientID: "", kind: .shared)
            )
            guard case .failed(let error) = try await mail.signOut().revocation else {
                Issue.record("The shared record could not be read.")
                return
            }
            #expect(error.code == .credentialUnusable)
            let revoked = environment.emulator.custom.receivedRequests.filter { $0.path.hasSuffix("/revoke") }
                .compactMap { $0.form["token"] }
            let own = [tokens.deviceSecret, tokens.refreshToken, tokens.accessToken].compactMap { $0?.exposed }
            #expect(Set(revoked).isSuperset(of: own))
            // The record has been removed, so the next sign-in is shared.
            #expect(try await mail.signIn().sharingError == nil)
            _ = try await environment.app("calendar").signIn()
            #expect(try await mail.signOut().revocation == .done)
        }
    }

    @Test func aDamagedSharedRecordDoesNotPreventALogoutRequest() async throws {
        try await OktaEnvironment.with(.inProcess) { environment in
            _ = try await environment.app("mail", user: .alice).signIn()
            let provider = environment.provider(.allAppsWithSecretInAddress)
            let calendar = try environment.app("calendar", provider: provider)
            let credential = try await calendar.signIn().credential
            try await environment.shared.set(
                Array("{".utf8),
                for: RecordKey(name: "acme", issuer: environment.issuer, clientID: "", kind: .shared)
            )
            let page = try await calendar.client.endSessionRequest(for: credential).url
            #expect(page.contains("id_token_hint=") && !page.contains("device_secret="))
        }
    }

    @Test func aDamagedSharedRecordDoesNotPreventAnInteractiveSignIn() async throws {
        try await OktaEnvironment.with(.inProcess) { environment in
            try await environment.shared.set(
                Array("{".utf8),
                for: RecordKey(name: "acme", issuer: environment.issuer, clientID: "", kind: .shared)
            )
            let provider = environment.provider(.allAppsWithSecretInAddress)
            let signIn = try await environment.app("mail", provider: provider, user: .alice).signIn()
            #expect(signIn.sharingError?.code == .credentialUnusable)
        }
    }

    @Test func aSignOutDoesNotRevokeAnotherUsersDeviceSecret() async throws {
        try await OktaEnvironment.with(.inProcess) { environment in
            _ = try await environment.app("mail", user: .alice).signIn()
            let calendar = try environment.app("calendar")
            _ = try await calendar.signIn()
            _ = try await environment.app("mail", user: .bob).signIn(.addAccount)
            #expect(try await calendar.signOut().revocation == .done)
            #expect(try await environment.app("mail").signIn().identity?.displayName == "Bob Example")
        }
    }

    @Test func aSignOutDoesNotRevokeTheDeviceSecretThatAnotherUserSharedEarlier() async throws {
        try await OktaEnvironment.with(.inProcess) { environment in
            let mail = try environment.app("mail", user: .alice)
            let secret = try #require(try await mail.signIn().credential.tokens.deviceSecret)
            let calendar = try environment.app("calendar", user: .bob)
            _ = try await calendar.signIn(.addAccount)
            #expect(try await calendar.signOut().revocation == .done)
            #expect(environment.emulator.custom.deviceSecrets == [secret.exposed])
            _ = try await mail.refresh()
        }
    }

    /// The session ends for another reason, while the group is signed in or after another user has signed out.
    @Test(arguments: [false, true])
    func theEndOfASessionIsAttributedOnlyToTheSignOutOfTheSameUser(_ anotherUserSignsOut: Bool) async throws {
        try await OktaEnvironment.with(.inProcess) { environment in
            let mail = try environment.app("mail", user: .alice)
            _ = try await mail.signIn()
            if anotherUserSignsOut {
                let calendar = try environment.app("calendar", user: .bob)
                _ = try await calendar.signIn(.addAccount)
                #expect(try await calendar.signOut().revocation == .done)
            }
            environment.emulator.custom.endSessions()
            let error = await #expect(throws: AuthError.self) { try await mail.refresh() }
            #expect(error?.code == .loginRequired)
            #expect(error?.message.contains("The refresh token is invalid or expired.") == true)
            #expect(error?.message.contains("signed out in the app") == false)
        }
    }

    /// None of the credentials has a device secret of its own.
    @Test(arguments: [
        ("calendar", OIDCEmulator.User.alice, true), ("mail", .alice, false), ("calendar", .bob, false),
    ])
    func onlyTheAppThatCouldNotRevokeADeviceSecretAddsItToTheLogoutRequestOfItsUser(
        _ name: String,
        _ user: OIDCEmulator.User,
        _ isAdded: Bool
    ) async throws {
        try await OktaEnvironment.with(.inProcess) { environment in
            let secret = try await environment.app("mail", user: .alice).signIn().credential.tokens.deviceSecret
            let provider = environment.provider(.allAppsWithSecretInAddress)
            let calendar = try environment.app("calendar", provider: provider)
            _ = try await calendar.signIn()
            environment.emulator.remainingCalls = 0
            _ = try await calendar.signOut()
            environment.emulator.remainingCalls = nil
            var settings = try environment.settings(name)
            settings.scopes = ["openid", "offline_access"]
            let app = try environment.app(name, settings: settings, provider: provider, user: user)
            let page = try await app.client.endSessionRequest(for: try await app.signIn().credential).url
            let query = FormURLEncoding.decode(page.split(separator: "?").last.map(String.init) ?? "")
            #expect(query?["device_secret"] == (isAdded ? secret?.exposed : nil))
        }
    }

    @Test func theLogoutRequestContainsAnUnrevokedDeviceSecret() async throws {
        try await OktaEnvironment.with(.inProcess) { environment in
            let secret = try await environment.app("mail", user: .alice).signIn().credential.tokens.deviceSecret
            let provider = environment.provider(.allAppsWithSecretInAddress)
            let calendar = try environment.app("calendar", provider: provider)
            _ = try await calendar.signIn()
            environment.emulator.remainingCalls = 0
            let credential = try #require(try await calendar.signOut().credential)
            environment.emulator.remainingCalls = nil
            let page = try await calendar.client.endSessionRequest(for: credential).url
            let query = FormURLEncoding.decode(page.split(separator: "?").last.map(String.init) ?? "")
            #expect(query?["device_secret"] == secret?.exposed)
            // The failed revocation leaves nothing that another app could use.
            await expectError(.userAgentFailed) { try await environment.app("mail").signIn() }
        }
    }

    @Test func doesNotShareTheCredentialOfARejectedSignIn() async throws {
        try await OktaEnvironment.with(.inProcess) { environment in
            let store = MemoryTokenStore()
            let first = try await environment.app("mail", user: .alice, store: store).signIn().credential
            // Another user's sign-in while Alice is signed in is rejected, and none of that user's data is shared.
            let shared = SharedCredentialStore(group: "acme", store: environment.shared)
            let before = try await shared.value(for: environment.issuer)
            try await shared.change(for: environment.issuer) { _ in nil }
            let error = await #expect(throws: AuthError.self) {
                try await environment.app("mail", user: .bob, store: store).signIn()
            }
            #expect(error?.code == .accountMismatch)
            #expect(try await shared.value(for: environment.issuer) == nil)
            #expect(before?.exposed["sub"]?.string == first.identity?.subject)
        }
    }

    @Test(arguments: [
        EmulatorFault.idToken(.claim("ds_hash", "AAAAAAAAAAAAAAAAAAAAAA")),
        .idToken(.claim("ds_hash", 5)),
    ]) func rejectsAnIDTokenWithAWrongDSHash(_ fault: EmulatorFault) async throws {
        try await OktaEnvironment.with(.inProcess) { environment in
            environment.emulator.custom.fault = fault
            let mail = try environment.app("mail", user: .alice)
            let error = await #expect(throws: AuthError.self) { try await mail.signIn() }
            #expect(error?.code == .invalidIDToken)
            #expect(error?.message.contains("ds_hash") == true)
            #expect(try await mail.credential() == nil)
            #expect(
                await environment.shared.bytes(
                    for: RecordKey(name: "acme", issuer: environment.issuer, clientID: "", kind: .shared)
                ) == nil
            )
        }
    }

    @Test func acceptsAnIDTokenWithoutDSHash() async throws {
        try await OktaEnvironment.with(.inProcess) { environment in
            environment.emulator.custom.nativeSSO?.secretHash = { _ in nil }
            _ = try await environment.app("mail", user: .alice).signIn()
            _ = try await environment.app("calendar").signIn()
        }
    }

    @Test(arguments: [
        ("exampleDeviceSecret", "5PuHaT28DJPEaOveu9ZCmg"),
        ("+oUXe6pnhkDOTTjR5ZGFQoZGVBrQPiDsUWIk27ioyhM=", "NnBjKfSGdSu_54hyC6ymWQ"),
        ("the_device_secret", "CQA955--8peYcNpnDuWS8g"),
    ]) func hashesDeviceSecretsAsOktaDoes(_ secret: String, _ hash: String) async throws {
        #expect(OIDCEmulator.secretHash(secret) == hash)
        try await OktaEnvironment.with(.inProcess) { environment in
            let idToken = try await environment.app("mail", user: .alice).signIn().credential.tokens.verifiedIDToken
            #expect(idToken?.leftHash(of: Secret(secret)) == hash)
        }
    }

    @Test(arguments: [
        EmulatorFault.idToken(.claim("sub", "248289761002")), .idToken(.claim("sid", "another")),
        .idToken(.wrongAudience),
        .idToken(.badSignature),
    ]) func promptsTheUserWhenTheTokenExchangeReturnsAnInvalidIDToken(_ fault: EmulatorFault) async throws {
        try await OktaEnvironment.with(.inProcess) { environment in
            _ = try await environment.app("mail", user: .alice).signIn()
            environment.emulator.custom.fault = fault
            let calendar = try environment.app("calendar")
            // This app cannot prompt the user, so the sign-in fails.
            await expectError(.userAgentFailed) { try await calendar.signIn() }
            #expect(try await calendar.credential() == nil)
        }
    }

    /// Okta may not grant `device_sso` to every app of the group, and this sign-in starts a session other than that of the shared device secret.
    @Test(arguments: [true, false])
    func aSignInWithoutADeviceSecretIsNotComparedWithTheSharedSession(_ isReadable: Bool) async throws {
        try await OktaEnvironment.with(.inProcess) { environment in
            _ = try await environment.app("mail", user: .alice).signIn()
            if !isReadable {
                let record = RecordKey(name: "acme", issuer: environment.issuer, clientID: "", kind: .shared)
                try await environment.shared.set(Array("damaged".utf8), for: record)
            }
            environment.emulator.custom.nativeSSO?.exchangeError = ("invalid_grant", "Not allowed.", 400)
            environment.emulator.custom.fault = .tokenResponse(.member("device_secret", nil))
            let signIn = try await environment.app("calendar", user: .alice).signIn()
            #expect(signIn.credential.identity?.displayName == "Alice Example")
            #expect(signIn.credential.tokens.deviceSecret == nil)
        }
    }

    @Test func anExchangedIDTokenIsComparedWithTheSessionThatWasExchanged() async throws {
        try await OktaEnvironment.with(.inProcess) { environment in
            _ = try await environment.app("mail", user: .alice).signIn()
            let calendar = try environment.app("calendar").client
            let provider = environment.provider()
            let exchange = try #require(try await provider.exchangeForSignIn(in: calendar.providerContext))
            // Another app shares another session of the user before the response is checked.
            _ = try await environment.app("mail", user: .alice).signIn(.addAccount)
            let later = try #require(try await provider.exchangeForSignIn(in: calendar.providerContext))
            #expect(later.actorToken != exchange.actorToken)
            let credential = try await calendar.signIn(by: exchange, reporter: FlowReporter())
            #expect(credential.identity?.displayName == "Alice Example")
        }
    }

    /// The sign-in starts another session than that of the shared device secret.
    @Test func anAppWithoutTheDeviceSSOScopeSignsInWhileAnotherAppSharesASession() async throws {
        try await OktaEnvironment.with(.inProcess) { environment in
            environment.emulator.custom.hasSessionIDs = true
            _ = try await environment.app("mail", user: .alice).signIn()
            var settings = try environment.settings("calendar")
            settings.scopes = ["openid", "profile"]
            let signIn = try await environment.app("calendar", settings: settings, user: .alice).signIn()
            #expect(signIn.credential.identity?.displayName == "Alice Example")
            #expect(signIn.credential.tokens.deviceSecret == nil)
        }
    }

    @Test func acceptsTheNonceOfTheFirstSignInInAnExchangedIDToken() async throws {
        // An ID Token from a token exchange may contain the nonce of the original sign-in.
        try await OktaEnvironment.with(.inProcess) { environment in
            environment.emulator.custom.nativeSSO?.repeatsNonce = true
            _ = try await environment.app("mail", user: .alice).signIn()
            let tokens = try await environment.app("calendar").signIn().credential.tokens
            #expect(tokens.verifiedIDToken?.claims["nonce"] != nil)
        }
    }

    @Test func exchangesAnExpiredIDToken() async throws {
        let time = VirtualTime(start: Date(timeIntervalSince1970: 1_800_000_000))
        try await OktaEnvironment.with(.inProcess, now: { time.now }) { environment in
            _ = try await environment.app("mail", user: .alice, host: time.host).signIn()
            time.advance(by: .seconds(86_400))
            _ = try await environment.app("calendar", host: time.host).signIn()
        }
    }

    @Test(arguments: [OktaProvider.SignOut.thisApp, .allAppsWithSecretInAddress])
    func signsOutOfThisAppOrAllAppsAsConfigured(_ signOut: OktaProvider.SignOut) async throws {
        try await OktaEnvironment.with(.inProcess) { environment in
            let mail = try environment.app("mail", provider: environment.provider(signOut), user: .alice)
            let secret = try await mail.signIn().credential.tokens.deviceSecret
            let calendar = try environment.app("calendar")
            _ = try await calendar.signIn()
            let outcome = try await mail.signOut(revokingTokens: signOut == .thisApp, endingSession: true)
            guard case .done = outcome.endSession else {
                Issue.record("\(outcome.endSession)")
                return
            }
            let logout = environment.emulator.custom.receivedRequests.last { $0.path.hasSuffix("/end_session") }
            if signOut == .thisApp {
                #expect(logout?.query["device_secret"] == nil)
                _ = try await calendar.refresh()
            } else {
                #expect(logout?.query["device_secret"] == secret?.exposed)
                await expectError(.loginRequired) { try await calendar.refresh() }
            }
        }
    }

    @Test func aSignOutThatDoesNotReachOktaStillPreventsSilentSignIn() async throws {
        try await OktaEnvironment.with(.inProcess) { environment in
            let mail = try environment.app("mail", user: .alice)
            _ = try await mail.signIn()
            environment.emulator.remainingCalls = 0
            let signOut = try await mail.signOut()
            guard case .failed = signOut.revocation else {
                Issue.record("\(signOut.revocation)")
                return
            }
            environment.emulator.remainingCalls = nil
            await expectError(.userAgentFailed) { try await environment.app("calendar").signIn() }
        }
    }

    @Test(arguments: EmulatorEnvironment.Setting.allCases) func introspectsDeviceSecrets(
        _ setting: EmulatorEnvironment.Setting
    )
        async throws
    {
        try await OktaEnvironment.with(setting) { environment in
            let mail = try environment.app("mail", user: .alice)
            let tokens = try await mail.signIn().credential.tokens
            let description = try await mail.introspect(tokens.deviceSecret, typeHint: "device_secret")
            #expect(description["active"] == true)
            #expect(description["sid"] == tokens.verifiedIDToken?.claims["sid"])
            _ = try await mail.signOut()
            #expect(
                try await environment.app("mail").introspect(tokens.deviceSecret, typeHint: "device_secret")["active"]
                    == false
            )
        }
    }

    @Test func introspectsTokensOnlyAtTheServerThatIssuedThem() async throws {
        try await OktaEnvironment.with(.inProcess) { environment in
            let store = MemoryTokenStore()
            let client = try environment.app("mail", user: .alice, store: store)
            _ = try await client.signIn()
            #expect(try await client.introspect()["active"] == true)
            var settings = try environment.settings("mail")
            settings.scopes = ["openid"]
            let org = OktaProvider(issuer: environment.emulator.origin)
            let other = try environment.app("mail", settings: settings, provider: org, store: store)
            let error = await #expect(throws: AuthError.self) { try await other.introspect() }
            #expect(error?.code == .loginRequired)
            #expect(!environment.emulator.org.requests.contains { $0.hasSuffix("/introspect") })
        }
    }

    @Test func bindsTheTokensOfEveryAppWithDPoP() async throws {
        try await OktaEnvironment.with(.inProcess) { environment in
            environment.emulator.custom.dpop = .requiredWithNonce
            for (name, user) in [("mail", OIDCEmulator.User.alice), ("calendar", nil)] {
                var settings = try environment.settings(name)
                settings.usesDPoP = true
                let app = try environment.app(name, settings: settings, user: user)
                #expect(try await app.signIn().credential.tokens.tokenType == "DPoP")
                _ = try await app.refresh()
                _ = try await app.userInfo()
            }
        }
    }

    @Test func concurrentSignInsUseTheSharedCredential() async throws {
        try await OktaEnvironment.with(.inProcess) { environment in
            _ = try await environment.app("mail", user: .alice).signIn()
            let subjects = try await withThrowingTaskGroup(of: String?.self) { group in
                for _ in 0..<20 {
                    group.addTask { try await environment.app("calendar").signIn().identity?.subject }
                }
                return try await group.reduce(into: Set<String?>()) { $0.insert($1) }
            }
            #expect(subjects == ["248289761001"])
        }
    }
}
