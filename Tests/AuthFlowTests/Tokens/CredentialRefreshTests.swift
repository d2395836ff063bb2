import AuthFlow
import Foundation
import Testing

@testable import AuthFlowCredentials

/// Every stored credential and every response: see the tables of ``CredentialRefresh``.
@Suite struct CredentialRefreshTests {
    private static let start = Date(timeIntervalSince1970: 1_800_000_000)

    private static func credential(
        _ token: String = "old",
        user: String? = "alice",
        refreshes: Bool = true,
        refused: Int64 = 0
    ) -> Credential {
        var credential = Credential(
            tokens: TokenSet(
                accessToken: Secret(token),
                expiresAt: start + 600,
                refreshToken: refreshes ? Secret("refresh-\(token)") : nil
            ),
            identity: user.map { Identity(issuer: "https://id.example.com", subject: $0) },
            signedInAt: start
        )
        credential.rejectedRefreshes = refused
        return credential
    }

    private static func refresh(rejected: String? = nil, isRenewable: Bool = false) -> CredentialRefresh {
        CredentialRefresh(
            account: nil,
            margin: .seconds(60),
            rejected: rejected.map { Secret($0) },
            isRenewable: isRenewable
        )
    }

    /// A stored credential (nil when no user is signed in), and the time since its tokens were obtained, in seconds.
    struct Stored: CustomTestStringConvertible, Sendable {
        let testDescription: String
        let credential: Credential?
        var time = 0.0
        var rejected: String?
        /// The action if tokens cannot be obtained without a user, and the action if they can.
        let expected: (String, String)

        init(
            _ name: String,
            _ credential: Credential?,
            at time: Double = 0,
            rejected: String? = nil,
            _ expected: (String, String)
        ) {
            (testDescription, self.credential, self.time) = (name, credential, time)
            (self.rejected, self.expected) = (rejected, expected)
        }
    }

    static let stored = [
        Stored("nothing", nil, ("login_required", "renew")),
        Stored("fresh tokens", credential(), ("return", "return")),
        Stored("tokens that an API has rejected", credential(), rejected: "old", ("send", "send")),
        Stored("tokens other than the rejected tokens", credential(), rejected: "older", ("return", "return")),
        Stored("tokens within the margin", credential(), at: 541, ("send", "send")),
        Stored("expired tokens", credential(), at: 601, ("send", "send")),
        Stored("no refresh token, fresh", credential(refreshes: false), ("return", "return")),
        Stored("no refresh token, within the margin", credential(refreshes: false), at: 541, ("return", "return")),
        Stored("no refresh token, expired", credential(refreshes: false), at: 601, ("expire", "expire")),
        Stored("no refresh token, rejected", credential(refreshes: false), rejected: "old", ("expire", "expire")),
        Stored("no user, within the margin", credential(user: nil, refreshes: false), at: 541, ("return", "renew old")),
        Stored("no user, expired", credential(user: nil, refreshes: false), at: 601, ("expire", "renew old")),
        Stored("no user, but a refresh token", credential(user: nil), at: 601, ("send", "send")),
    ]

    @Test(arguments: stored, [false, true])
    func theStoredCredentialDeterminesTheRefreshAction(_ stored: Stored, _ isRenewable: Bool) {
        let refresh = Self.refresh(rejected: stored.rejected, isRenewable: isRenewable)
        let read = stored.credential.map { Result<Credential, AuthError>.success($0) }
        let action: String
        do throws(AuthError) {
            switch try refresh.action(
                for: read ?? .failure(AuthError(.loginRequired, "No user is signed in.")),
                at: Self.start + stored.time
            ) {
            case .answer: action = "return"
            case .renew(let old): action = old == nil ? "renew" : "renew old"
            case .send: action = "send"
            case .expire(_, let error):
                #expect(error.code == .loginRequired)
                action = "expire"
            }
        } catch {
            action = error.code.rawValue
        }
        #expect(action == (isRenewable ? stored.expected.1 : stored.expected.0))
    }

    @Test func aNamedAccountIsNotReplacedByMachineToMachineTokens() {
        let refresh = CredentialRefresh(account: "alice", margin: .zero, rejected: nil, isRenewable: true)
        #expect(throws: AuthError.self) {
            try refresh.action(for: .failure(AuthError(.loginRequired, "")), at: Self.start)
        }
    }

    // MARK: Responses

    private func describe(_ consequence: CredentialRefresh.Consequence) -> String {
        let answer =
            switch consequence.answer {
            case .success(let credential): credential.tokens.accessToken.exposed
            case .failure(let error): error.code.rawValue
            }
        let stored = consequence.stored.map {
            $0.rejectedRefreshes == 0 ? $0.tokens.accessToken.exposed : "rejection count \($0.rejectedRefreshes)"
        }
        var words = [answer, "stores \(stored ?? "nothing")"]
        if consequence.backoff != nil { words.append("backs off") }
        if consequence.invalidatesCache { words.append("drops") }
        if let state = consequence.state { words.append("\(state)") }
        return words.joined(separator: ", ")
    }

    private static let unavailable = AuthError(.temporarilyUnavailable, "", status: 503)

    @Test(arguments: [
        (RefreshOutcome.refreshed(credential("new")), 601.0, "new, stores new, refreshed"),
        (.unchecked(credential("kept"), unavailable), 599, "kept, stores kept, backs off"),
        (.unchecked(credential("kept"), unavailable), 601, "temporarily_unavailable, stores kept, backs off"),
        (
            .rejected(credential("kept"), .init(.invalidIDToken, "")), 0,
            "invalid_id_token, stores rejection count 1, backs off, drops"
        ),
    ])
    func theRefreshOutcomeDeterminesTheStoredCredential(_ outcome: RefreshOutcome, _ time: Double, _ expected: String) {
        #expect(describe(Self.refresh().consequence(of: outcome, at: Self.start + time)) == expected)
    }

    @Test func requiresSignInAfterRefreshedTokensFailValidationTwice() {
        let kept = Self.credential("kept", refused: 1)
        let consequence = Self.refresh().consequence(of: .rejected(kept, .init(.invalidIDToken, "")), at: Self.start)
        #expect(describe(consequence) == "login_required, stores rejection count 2, backs off, drops, expired")
        #expect(consequence.backoff?.code == .loginRequired)
    }

    @Test(arguments: [
        (AuthError(.networkFailed, ""), "network_failed, stores nothing, backs off"),
        (unavailable, "temporarily_unavailable, stores nothing, backs off"),
        (rejection("invalid_client", 401), "provider_rejected, stores nothing, backs off"),
        (rejection("use_dpop_nonce", 400), "provider_rejected, stores nothing, backs off"),
        (rejection("invalid_request", 400), "provider_rejected, stores rejection count 1, backs off"),
        (rejection("unauthorized_client", 400), "provider_rejected, stores rejection count 1, backs off"),
        (rejection("unauthorized_client", 403), "provider_rejected, stores rejection count 1, backs off"),
        (rejection("invalid_refresh_token", 200), "provider_rejected, stores rejection count 1, backs off"),
        (AuthError(.invalidResponse, "", status: 403), "invalid_response, stores nothing, backs off"),
        (rejection("Forbidden", 403), "provider_rejected, stores nothing, backs off"),
        (rejection("Not Found", 404), "provider_rejected, stores nothing, backs off"),
        (rejection("forbidden", 403), "provider_rejected, stores nothing, backs off"),
        (rejection("invalid_target", 400), "provider_rejected, stores rejection count 1, backs off"),
        (AuthError(.discoveryFailed, "", status: 401), "discovery_failed, stores nothing, backs off"),
        (AuthError(.assertionUnusable, "", status: 400), "assertion_unusable, stores nothing, backs off"),
        (rejection("interaction_required", 400), "login_required, stores rejection count 2, backs off, expired"),
        (rejection("mfa_required", 403), "login_required, stores rejection count 2, backs off, expired"),
        (rejection("server_error", 400), "provider_rejected, stores nothing, backs off"),
        (rejection("an unknown code", 502), "provider_rejected, stores nothing, backs off"),
        (AuthError(.invalidResponse, "", status: 404), "invalid_response, stores nothing, backs off"),
        (AuthError(.invalidResponse, "", status: 400), "invalid_response, stores rejection count 1, backs off"),
        (AuthError(.invalidUserInfo, ""), "invalid_user_info, stores rejection count 1, backs off"),
        // The authorization details of the new tokens differ.
        (AuthError(.providerRejected, ""), "provider_rejected, stores rejection count 1, backs off"),
        (rejection("an unknown code", 401), "provider_rejected, stores rejection count 1, backs off"),
    ])
    func oldTokensAreReturnedAfterAFailureUntilTheyExpireOrAreRejected(_ error: AuthError, _ expected: String) {
        func after(_ time: Double, rejected: String? = nil) -> String {
            let refresh = Self.refresh(rejected: rejected)
            let name = error.providerError?.error
            return describe(
                refresh.consequence(of: error, named: name, for: Self.credential(), at: Self.start + time)
            )
        }
        #expect(after(599) == "old, stores nothing, backs off")
        #expect(after(599, rejected: "old") == "\(error.code.rawValue), stores nothing, backs off")
        #expect(after(601) == expected)
    }

    @Test func requiresSignInAfterASecondUnexplainedRejection() {
        let error = AuthError(.invalidResponse, "", status: 400, retryAfter: .seconds(30))
        func after(_ refusals: Int64) -> String {
            let old = Self.credential(refused: refusals)
            return describe(Self.refresh().consequence(of: error, named: nil, for: old, at: Self.start + 601))
        }
        let last = Self.refresh().consequence(
            of: error,
            named: nil,
            for: Self.credential(refused: 1),
            at: Self.start + 601
        )
        // Callers during the backoff receive the same error.
        #expect(last.backoff?.code == .loginRequired)
        #expect(last.backoff?.retryAfter == .seconds(30))
        #expect(after(1) == "login_required, stores rejection count 2, backs off, expired")
        #expect(after(2) == "login_required, stores nothing, backs off, expired")
    }

    @Test func aRejectedRefreshForOneResourceBacksOffForThatResourceOnly() {
        var refresh = Self.refresh()
        refresh.resource = ResourceRequest(resource: "https://a.example.com", scopes: nil)
        func after(_ error: AuthError) -> String {
            let old = Self.credential(refused: 1)
            let consequence = refresh.consequence(of: error, named: nil, for: old, at: Self.start + 601)
            return "\(describe(consequence)) \(consequence.isResourceSpecific ? "for this resource" : "for all")"
        }
        #expect(after(Self.unavailable) == "temporarily_unavailable, stores nothing, backs off for all")
        // Only the refresh of the main token shows whether the session has ended.
        let empty = AuthError(.invalidResponse, "", status: 400)
        #expect(after(empty) == "invalid_response, stores nothing, backs off for this resource")
    }

    /// A rejected refresh that checks whether the session has ended is counted even if the old tokens are usable.
    @Test func aRejectedConfirmationRefreshIsCountedBeforeTheTokensExpire() {
        var refresh = Self.refresh()
        let empty = AuthError(.invalidResponse, "", status: 400)
        func after(_ refusals: Int64) -> String {
            let old = Self.credential(refused: refusals)
            return describe(refresh.consequence(of: empty, named: nil, for: old, at: Self.start))
        }
        #expect(after(0) == "old, stores nothing, backs off")
        refresh.isConfirmation = true
        #expect(after(0) == "invalid_response, stores rejection count 1, backs off")
        #expect(after(1) == "login_required, stores rejection count 2, backs off")
    }

    private static let anotherUser = AuthError(.invalidIDToken, "", underlyingError: SubjectMismatch())

    private static func rejection(_ code: String, _ status: Int) -> AuthError {
        AuthError(.providerRejected, "", providerError: ProviderError(error: code, status: status))
    }

    @Test(arguments: [
        (rejection("invalid_grant", 400), true), (rejection("invalid_client", 401), false),
        (rejection("invalid_target", 400), false), (rejection("invalid_scope", 400), false),
        (AuthError(.invalidResponse, "", providerError: ProviderError(error: "invalid_grant", status: 502)), false),
        (AuthError(.networkFailed, ""), false), (AuthError(.invalidIDToken, ""), false),
        (anotherUser, true), (AuthError(.invalidUserInfo, "", underlyingError: anotherUser), true),
    ])
    func onlyInvalidGrantAndTokensOfAnotherUserEndASession(_ error: AuthError, _ isEnd: Bool) {
        #expect(CredentialRefresh.endsSession(error, named: error.providerError?.error) == isEnd)
    }
}
