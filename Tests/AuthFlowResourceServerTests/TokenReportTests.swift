import AuthFlowEssentials
import AuthFlowHTTP
import AuthFlowJSON
import AuthFlowResourceServer
import AuthFlowTesting
import Testing

/// The report about a token, for operators.
@Suite struct TokenReportTests {
    typealias Check = TokenReport.Check

    @Test func anAcceptedTokenHasPassedEachCheck() async throws {
        let environment = try ResourceServerEnvironment()
        let report = try await environment.api().report(on: Secret(try environment.token()), requiring: ["orders:read"])
        #expect(report.isAccepted)
        #expect(
            report.steps.map(\.check)
                == [.form, .issuer, .header, .audience, .lifetime, .claims, .signature, .binding, .scopes]
        )
        #expect(
            report.steps.allSatisfy { step in
                if case .passed = step.outcome { return true }
                return false
            }
        )
    }

    struct Fault: Sendable {
        var claims: @Sendable (inout [String: JSON]) -> Void = { _ in }
        var header: @Sendable (inout [String: JSON]) -> Void = { _ in }
        let check: Check
    }

    static let faults: [Case<Fault>] = [
        Case(
            "larger than 32 KiB",
            Fault(claims: { $0["a"] = .string(String(repeating: "a", count: 32 * 1024)) }, check: .form)
        ),
        Case("another issuer", Fault(claims: { $0["iss"] = "https://evil.example.com" }, check: .issuer)),
        Case("an ID Token's type", Fault(header: { $0["typ"] = "JWT" }, check: .header)),
        Case("a critical extension", Fault(header: { $0["crit"] = ["x"] }, check: .header)),
        Case("another API", Fault(claims: { $0["aud"] = "https://api.example.com/other" }, check: .audience)),
        Case("an expiry in the past", Fault(claims: { $0["exp"] = 1_700_000_000 }, check: .lifetime)),
        Case("nbf in the future", Fault(claims: { $0["nbf"] = 1_900_000_000 }, check: .lifetime)),
        Case("no client", Fault(claims: { $0["client_id"] = nil }, check: .claims)),
        Case("a key of a different issuer", Fault(header: { $0["kid"] = "forged" }, check: .signature)),
        Case("an unknown binding", Fault(claims: { $0["cnf"] = ["kid": "1"] }, check: .signature)),
        Case("an old auth_time", Fault(claims: { $0["auth_time"] = 1_700_000_000 }, check: .authentication)),
        Case(
            "too few scopes",
            Fault(
                claims: {
                    $0["scope"] = "profile"
                    $0["auth_time"] = 1_800_000_000
                },
                check: .scopes
            )
        ),
    ]

    @Test(arguments: faults) func theReportEndsWithTheFailedCheck(_ fault: Case<Fault>) async throws {
        let environment = try ResourceServerEnvironment()
        let token = try environment.token(fault.value.claims, header: fault.value.header)
        let requirement = Requirement(scopes: ["orders:read"], maximumAge: .seconds(300))
        let report = try await environment.api().report(on: Secret(token), requiring: requirement)
        #expect(!report.isAccepted)
        let last = try #require(report.steps.last)
        // The claims, including the bindings (`cnf`), are decoded before the signature is verified.
        #expect(last.check == fault.value.check || fault.value.check == .signature && last.check == .claims)
        guard case .failed(let reason) = last.outcome else {
            Issue.record("\(last)")
            return
        }
        #expect(!reason.contains(token.prefix(20)))
    }

    /// A report and a request have the same outcome: a token that a report rejects is also rejected in a request.
    @Test(arguments: faults) func tokensRejectedInAReportAreAlsoRejectedInARequest(_ fault: Case<Fault>) async throws {
        let environment = try ResourceServerEnvironment()
        let token = try environment.token(fault.value.claims, header: fault.value.header)
        let requirement = Requirement(scopes: ["orders:read"], maximumAge: .seconds(300))
        await #expect(throws: Rejection.self) {
            _ = try await environment.api().authorize(
                ResourceServerEnvironment.request("Bearer \(token)"),
                requiring: requirement
            )
        }
    }

    @Test func aTokenIsVerifiedAgainForARequestAfterAReport() async throws {
        let environment = try ResourceServerEnvironment()
        let api = try environment.api()
        let token = try environment.token()
        #expect(await api.report(on: Secret(token)).isAccepted)
        environment.advance(700)
        await #expect(throws: Rejection.self) {
            _ = try await api.authorize(ResourceServerEnvironment.request("Bearer \(token)"))
        }
    }

    @Test func theReportIsUndecidedIfTheIssuerIsUnavailable() async throws {
        let environment = try ResourceServerEnvironment()
        environment.provider.takeDown()
        let report = try await environment.api().report(on: Secret(try environment.token()))
        #expect(!report.isAccepted)
        guard case .undecided = report.steps.last?.outcome else {
            Issue.record("\(report.steps)")
            return
        }
    }

    @Test(arguments: [false, true]) func aReportIntrospectsAnOpaqueTokenOnlyIfRequested(_ introspects: Bool)
        async throws
    {
        let environment = try ResourceServerEnvironment()
        let api = try environment.api(issuer: { TrustedIssuer($0, introspector: try environment.introspector($0)) })
        let report = await api.report(on: Secret("opaque"), introspects: introspects)
        #expect(environment.provider.requests.contains("/introspect") == introspects)
        #expect(!report.isAccepted)
        #expect(report.steps.last?.check == .introspection)
    }

    @Test func theReportStatesThatADPoPBoundTokenRequiresAProof() async throws {
        let environment = try ResourceServerEnvironment()
        let thumbprint = ProofKey().thumbprint
        let token = try environment.token { $0["cnf"] = ["jkt": .string(thumbprint)] }
        let report = try await environment.api().report(on: Secret(token))
        #expect(report.steps.last?.outcome == .passed("each request needs a DPoP proof signed with the token's key"))
        let strict = try await environment.api { $0.dpop.isAccepted = false }.report(on: Secret(token))
        #expect(!strict.isAccepted)
    }

    @Test func aTokenThatMayHaveBeenRevokedIsNotReportedAsAccepted() async throws {
        let environment = try ResourceServerEnvironment()
        let api = try environment.api(issuer: {
            TrustedIssuer($0, introspector: try environment.introspector($0), introspectsJWTs: true)
        })
        let report = await api.report(on: Secret(try environment.token()))
        #expect(!report.isAccepted)
        #expect(
            report.steps.contains { $0.check == .introspection && $0.outcome == .skipped("introspection was disabled") }
        )
        #expect(environment.provider.requests.allSatisfy { $0 != "/introspect" })
    }
}
