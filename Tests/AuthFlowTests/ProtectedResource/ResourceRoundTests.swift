import AuthFlowHTTP
import AuthFlowOAuth
import Foundation
import Testing

@testable import AuthFlowResourceClient

/// The steps of one request to a protected resource, after each challenge.
@Suite struct ResourceRoundTests {
    private typealias Round = ResourceAttempt.Round

    private static let now = Date(timeIntervalSince1970: 1_800_000_000)

    private static func credential(_ token: String, signedInAt: Date = now - 60) -> Credential {
        Credential(tokens: TokenSet(accessToken: Secret(token)), identity: nil, signedInAt: signedInAt)
    }

    private static func challenge(_ error: String?, status: Int = 401, _ parameters: [String: String] = [:]) throws
        -> ResourceChallenge
    {
        var parameters = parameters
        parameters["error"] = error
        let challenges = [AuthenticationChallenge(scheme: "bearer", parameters: parameters)]
        return try #require(ResourceChallenge(status: status, challenges: challenges))
    }

    private static func stepUp(_ scopes: String) throws -> ResourceChallenge {
        try challenge("insufficient_scope", status: 403, ["scope": scopes])
    }

    private func step(
        _ round: inout Round,
        _ challenge: ResourceChallenge,
        _ token: String? = "a",
        requested: Set<String> = [],
        rejected: [Set<String>: Date] = [:]
    ) -> Round.Step {
        round.step(
            after: challenge,
            rejecting: token.map { Self.credential($0) },
            Round.StepUps(requested: requested, rejected: rejected),
            at: Self.now
        )
    }

    @Test(arguments: [nil, "invalid_token", "insufficient_scope", "insufficient_user_authentication", "use_dpop_nonce"])
    func aRequestWithoutATokenSignsIn(_ error: String?) throws {
        var round = Round()
        #expect(step(&round, try Self.challenge(error), nil) == .signIn(scopes: nil))
    }

    @Test func aRejectedTokenIsReplacedOnceBeforeASignInAndOnceAfterIt() throws {
        var round = Round()
        let challenge = try Self.challenge("invalid_token")
        #expect(step(&round, challenge) == .replace)
        #expect(step(&round, challenge) == .signIn(scopes: nil))
        round.didSignIn(for: challenge, scopes: nil)
        #expect(step(&round, challenge, "b") == .replace)
        #expect(step(&round, challenge, "c") == .rejectNewToken)
    }

    @Test func aDenialWithoutAnErrorIsReturnedToTheCaller() throws {
        var round = Round()
        #expect(step(&round, try Self.challenge(nil, status: 403)) == .finish)
        #expect(step(&round, try Self.challenge("insufficient_scope", status: 403)) == .finish)
    }

    @Test func eachTokenIsRetriedOnceWithANonce() throws {
        var round = Round()
        let challenge = try Self.challenge("use_dpop_nonce")
        #expect(step(&round, challenge, "a") == .retry)
        #expect(step(&round, challenge, "a") == .finish)
        var other = Round()
        // Two retries, although no token was rejected for another reason.
        #expect(["a", "b", "c"].map { step(&other, challenge, $0) } == [.retry, .retry, .finish])
    }

    // MARK: Scopes

    @Test func aStepUpRequestsTheScopesOfTheLastSignInToo() throws {
        var round = Round()
        let challenge = try Self.stepUp("write")
        #expect(step(&round, challenge, requested: ["read"]) == .signIn(scopes: ["read", "write"]))
        round.didSignIn(for: challenge, scopes: ["read", "write"])
        // The resource requires the same scopes of the new token.
        let failed = step(&round, challenge, "b", requested: ["read", "write"])
        #expect(failed == .findNewer)
        #expect(
            step(&round, challenge, "b", requested: ["read", "write"])
                == .rejectScopes(["write"], remembering: ["read", "write"])
        )
    }

    @Test func aTokenThatAnotherProcessHasObtainedIsUsedFirst() throws {
        var round = Round()
        let challenge = try Self.stepUp("write")
        #expect(step(&round, challenge, requested: ["write"]) == .findNewer)
        #expect(step(&round, challenge, requested: ["write"]) == .signIn(scopes: ["write"]))
    }

    @Test func aRequestCausesAtMostThreeSignIns() throws {
        var round = Round()
        for scope in ["one", "two", "three"] {
            #expect(step(&round, try Self.stepUp(scope)) == .signIn(scopes: [scope]))
            round.didSignIn(for: try Self.stepUp(scope), scopes: [scope])
        }
        #expect(step(&round, try Self.stepUp("four")) == .rejectScopes(["four"], remembering: nil))
    }

    struct Failure: CustomTestStringConvertible {
        let testDescription: String
        /// The time since the failed step-up, in seconds.
        let age: Double
        let isOver: Bool
    }

    @Test(arguments: [
        Failure(testDescription: "within an hour", age: 30, isOver: false),
        Failure(testDescription: "after an hour", age: 3601, isOver: true),
        Failure(testDescription: "before the sign-in of the token", age: 90, isOver: true),
        Failure(testDescription: "before the clock was set back by a day", age: -86_400, isOver: true),
    ]) func aFailedStepUpIsNotRepeatedForAnHourOrUntilTheNextSignIn(_ failure: Failure) throws {
        var round = Round()
        let step = step(&round, try Self.stepUp("write"), rejected: [["write"]: Self.now - failure.age])
        #expect(step == (failure.isOver ? .signIn(scopes: ["write"]) : .rejectScopes(["write"], remembering: nil)))
    }

    // MARK: User authentication

    @Test func aSignInIsRepeatedOnlyForAnotherAuthentication() throws {
        var round = Round()
        let first = try Self.challenge("insufficient_user_authentication", ["acr_values": "gold"])
        let second = try Self.challenge("insufficient_user_authentication", ["max_age": "60"])
        #expect(step(&round, first) == .signIn(scopes: nil))
        round.didSignIn(for: first, scopes: nil)
        #expect(step(&round, second, "b") == .signIn(scopes: nil))
        round.didSignIn(for: second, scopes: nil)
        #expect(step(&round, second, "c") == .rejectNewToken)
    }

    @Test func aRequestWaitsForALimitedNumberOfOtherSignIns() {
        var round = Round()
        #expect((1...8).map { _ in round.didWait() } == [true, true, true, true, true, true, true, false])
    }
}
