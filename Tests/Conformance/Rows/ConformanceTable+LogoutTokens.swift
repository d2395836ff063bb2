import AuthFlow
import AuthFlowJSON
import AuthFlowOIDC
import AuthFlowServer
import AuthFlowTesting
import HTTPTypes

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

/// Rows for logout tokens, by clause of OpenID Connect Back-Channel Logout 1.0 section 2.6.
extension ConformanceTable {
    private static func logout(
        _ number: String,
        _ name: String,
        _ demand: String,
        _ change: @escaping @Sendable (_ header: inout [String: JSON], _ claims: inout [String: JSON]) -> Void
    ) -> ConformanceRow {
        web(number, name, demand) { web, server, browser in
            try await browser.signIn(web, at: server)
            let token = try web.environment.emulator.logoutToken(for: "web", subject: "248289761001", change: change)
            let response = try await web.logOut(token, at: server)
            try ConformanceRow.require(response.status == 400, "The status must be 400, not \(response.status).")
            try ConformanceRow.require(
                response.head.headerFields[.cacheControl] == "no-store",
                "The response must not be cacheable."
            )
            try ConformanceRow.require(try await browser.session(at: server) != nil, "The session must continue.")
        }
    }

    static let logoutTokens: [ConformanceRow] = [
        web("L1", "a user", "ends all of the user's sessions in every process, and no other sessions") {
            web,
            server,
            browser in
            let (phone, bob, other) = (WebBrowser(), WebBrowser(), try web.process())
            try await browser.signIn(web, at: server)
            try await phone.signIn(web, at: other)
            try await bob.signIn(web, at: server, user: .bob)
            for (process, browser) in [(server, phone), (other, browser)] {
                try ConformanceRow.require(
                    try await browser.session(at: process) != nil,
                    "Both sessions must exist in every process."
                )
            }
            let token = try web.environment.emulator.logoutToken(for: "web", subject: "248289761001")
            let response = try await web.logOut(token, at: server)
            try ConformanceRow.require(
                response.status == 200 && response.body.isEmpty,
                "The response must be 200 without a body."
            )
            for process in [server, other] {
                for browser in [browser, phone] {
                    try ConformanceRow.require(try await browser.session(at: process) == nil, "The session must end.")
                }
            }
            try ConformanceRow.require(
                try await bob.session(at: server) != nil,
                "The other user's session must continue."
            )
        },
        web("L2", "a session", "with a sid, ends only the sessions that have that sid") { web, server, browser in
            let phone = WebBrowser()
            try await browser.signIn(web, at: server)
            try await phone.signIn(web, at: server)
            let tokens = try await server.freshTokens(for: try await browser.session(at: server).required())
            let sessionID = try (tokens.verifiedIDToken?.claims["sid"]?.string).required()
            for subject in ["another-user", "248289761001"] {
                let token = try web.environment.emulator.logoutToken(for: "web", subject: subject, sessionID: sessionID)
                _ = try await web.logOut(token, at: server)
                let isOver = try await browser.session(at: server) == nil
                try ConformanceRow.require(isOver == (subject == "248289761001"), "Both sub and sid must match.")
            }
            try ConformanceRow.require(try await phone.session(at: server) != nil, "The other session must continue.")
        },
        logout("L3", "typ, not a string", "rejects a typ that is not a string") { header, _ in header["typ"] = 7 },
        logout("L4", "typ", "rejects a different type of token") { header, _ in header["typ"] = "at+jwt" },
        logout("L5", "alg", "rejects alg none") { header, _ in header["alg"] = "none" },
        logout("L6", "iss", "rejects a different issuer") { _, claims in claims["iss"] = "https://other.example.com" },
        logout("L7", "aud", "rejects a token for a different client") { _, claims in claims["aud"] = "another" },
        logout("L8", "aud, several", "rejects a token that is also for another client") { _, claims in
            claims["aud"] = ["web", "another"]
        },
        logout("L9", "iat", "rejects a token without iat") { _, claims in claims["iat"] = nil },
        logout("L10", "iat, future", "rejects a token issued in the future") { _, claims in
            claims["iat"] = .integer((claims["iat"]?.integer ?? 0) + 3600)
        },
        logout("L11", "exp", "rejects an expired token") { _, claims in
            claims["exp"] = .integer((claims["iat"]?.integer ?? 0) - 3600)
        },
        logout("L12", "exp, missing", "rejects a token without exp") { _, claims in claims["exp"] = nil },
        logout("L13", "sub, sid", "rejects a token with neither sub nor sid") { _, claims in claims["sub"] = nil },
        logout("L14", "sub, not a string", "rejects a sub that is not a string") { _, claims in claims["sub"] = 7 },
        logout("L15", "events", "rejects a token without the logout event") { _, claims in
            claims["events"] = ["http://schemas.openid.net/event/other": [:]]
        },
        logout("L16", "event, not an object", "rejects an event that is not an object") { _, claims in
            claims["events"] = ["http://schemas.openid.net/event/backchannel-logout": true]
        },
        logout("L17", "nonce", "rejects a token with a nonce of any value") { _, claims in claims["nonce"] = .null },
        logout("L18", "jti", "rejects a token without jti") { _, claims in claims["jti"] = nil },
        web("L19", "signature", "rejects a token that the provider did not sign") { web, server, browser in
            try await browser.signIn(web, at: server)
            let other = try OIDCEmulator(issuer: web.environment.emulator.issuer, clients: [WebEnvironment.client])
            let token = try other.logoutToken(for: "web", subject: "248289761001")
            let response = try await web.logOut(token, at: server)
            try ConformanceRow.require(response.status == 400, "The status must be 400, not \(response.status).")
            try ConformanceRow.require(try await browser.session(at: server) != nil, "The session must continue.")
        },
        web("L20", "repeated jti", "does not end a later session, in any process") {
            web,
            server,
            browser in
            // A session from a few seconds ago, a token from one second ago, and then a session from this second.
            let now = Int64(Date().timeIntervalSince1970)
            web.environment.emulator.fault = .idToken(.claim("iat", .integer(now - 5)))
            try await browser.signIn(web, at: server)
            web.environment.emulator.fault = nil
            let token = try web.environment.emulator.logoutToken(for: "web", subject: "248289761001") { _, claims in
                claims["iat"] = .integer(now - 1)
            }
            for process in [server, try web.process()] {
                let response = try await web.logOut(token, at: process)
                try ConformanceRow.require(
                    response.status == 200,
                    "A provider that repeats a request must receive status 200."
                )
            }
            try await browser.signIn(web, at: server)
            let response = try await web.logOut(token, at: web.process())
            try ConformanceRow.require(response.status == 400, "The token must be rejected.")
            try ConformanceRow.require(try await browser.session(at: server) != nil, "The session must continue.")
        },
        web("L21", "missing exp", "accepts the token for two minutes if a setting allows it") {
            web,
            _,
            browser in
            let server = try web.process {
                $0.logoutTokens = LogoutTokenOptions(maximumAgeWithoutExpiry: .seconds(120))
            }
            for (age, status) in [(Int64(600), 400), (0, 200)] {
                try await browser.signIn(web, at: server)
                let token = try web.environment.emulator.logoutToken(for: "web", subject: "248289761001") {
                    header,
                    claims in
                    header["typ"] = "JWT"
                    claims["exp"] = nil
                    claims["iat"] = .integer((claims["iat"]?.integer ?? 0) - age)
                }
                let response = try await web.logOut(token, at: server)
                try ConformanceRow.require(
                    response.status == status,
                    "The status must be \(status), not \(response.status), for a token that is \(age) seconds old."
                )
            }
        },
        web("L22", "a refresh in progress", "discards the refreshed tokens") { web, server, browser in
            web.environment.emulator.accessTokenLifetime = 0
            try await browser.signIn(web, at: server)
            let key = server.credentials.recordKey(for: CredentialKey(browser.session ?? ""))
            let refresh = Task {
                try await web.store.withLease(on: key) { lease in
                    // Another process refreshes, and the provider's response is in transit.
                    let bytes = try await web.store.bytes(for: key).required()
                    let token = try web.environment.emulator.logoutToken(for: "web", subject: "248289761001")
                    let response = try await web.logOut(token, at: server)
                    try ConformanceRow.require(response.status == 200, "The logout request must not wait.")
                    try await web.store.write(bytes, under: lease)
                }
            }
            do {
                try await refresh.value
                throw ConformanceRow.Failure(description: "The refreshed tokens must not be written.")
            } catch let error as AuthError where error.code == .leaseLost {}
            try ConformanceRow.require(
                try await browser.session(at: try web.process()) == nil,
                "The session must end."
            )
        },
        web("L23", "users of several tenants", "ends only the sessions of its tenant's user") { web, _, _ in
            let emulator = web.environment.emulator
            let (template, tenants) = ("\(emulator.issuer)/{tenant}", ["first", "second"])
            let rule = try TokenIssuerTemplate(template, claim: "tid")
            let server = try web.process(OIDCProvider(issuer: emulator.issuer, tokenIssuer: rule))
            var browsers: [WebBrowser] = []
            for tenant in tenants {
                emulator.tenancy = .init(template: template, claim: "tid", tenant: tenant)
                let browser = WebBrowser()
                // The subject is the same in both tokens.
                try await browser.signIn(web, at: server)
                browsers.append(browser)
            }
            func status(issuer: String, tenant: String?) async throws -> Int {
                let token = try emulator.logoutToken(for: "web", subject: "248289761001") { _, claims in
                    claims["iss"] = .string(issuer)
                    claims["tid"] = tenant.map(JSON.string)
                }
                let response = try await web.logOut(token, at: server)
                return response.status
            }
            for (issuer, tenant) in [
                ("\(emulator.issuer)/first", "second"), ("\(emulator.issuer)/first", nil), (template, "first"),
                (emulator.issuer, "first"),
            ] {
                let status = try await status(issuer: issuer, tenant: tenant)
                try ConformanceRow.require(status == 400, "\(issuer) is not the issuer of \(tenant ?? "no tenant").")
            }
            let accepted = try await status(issuer: "\(emulator.issuer)/first", tenant: "first")
            try ConformanceRow.require(accepted == 200, "The status must be 200, not \(accepted).")
            let left = try await [browsers[0].session(at: server), browsers[1].session(at: server)].map { $0 != nil }
            try ConformanceRow.require(
                left == [false, true],
                "Only the second tenant's session must continue: \(left)."
            )
        },
        web("L24", "a sign-in in progress", "no process starts a session that a logout token has ended") {
            web,
            server,
            browser in
            let (emulator, other, subject) = (web.environment.emulator, try web.process(), "248289761001")
            // The token's user, whether the token contains the sign-in's sid (nil: no sid), and whether it ends the sign-in.
            // The last token ends every sign-in of the user.
            for (number, (user, isOfSession, isEnded)) in [
                (nil, true, true), (subject, true, true), (subject, false, false), (nil, false, false),
                ("another", nil, false), ("another", true, false), (subject, nil, true),
            ].enumerated() as EnumeratedSequence<[(String?, Bool?, Bool)]> {
                emulator.fault = .idToken(.claim("sid", .string("session-\(number)")))
                // By the provider's clock, the token is issued 20 s before or after the ID Token.
                for (time, isEnded) in [(Int64(-20), false), (20, isEnded)] {
                    let callback = try await browser.visitProvider(web, at: server)
                    let token = try emulator.logoutToken(
                        for: "web",
                        subject: user,
                        sessionID: isOfSession.map { $0 ? "session-\(number)" : "another-\(number)" }
                    ) { _, claims in claims["iat"] = .integer((claims["iat"]?.integer ?? 0) + time) }
                    let heard = try await web.logOut(token, at: other)
                    try ConformanceRow.require(heard.status == 200, "The status must be 200, not \(heard.status).")
                    let status = try await browser.send(.get, callback, to: server).status
                    let isSignedIn = try await browser.session(at: server) != nil
                    try ConformanceRow.require(
                        isSignedIn != isEnded && status == (isEnded ? 400 : 200),
                        "\(number), \(time) s: signed in \(isSignedIn), status \(status)"
                    )
                    browser.cookies = [:]
                }
            }
        },
        web("L25", "a delayed token", "does not end a session that was started later") { web, server, browser in
            try await browser.signIn(web, at: server)
            for (age, isEnded) in [(Int64(100), false), (0, true)] {
                let token = try web.environment.emulator.logoutToken(for: "web", subject: "248289761001") { _, claims in
                    claims["iat"] = .integer((claims["iat"]?.integer ?? 0) - age)
                }
                let response = try await web.logOut(token, at: server)
                try ConformanceRow.require(response.status == 200, "The status must be 200, not \(response.status).")
                let isOver = try await browser.session(at: server) == nil
                try ConformanceRow.require(
                    isOver == isEnded,
                    "A token that is \(age) seconds old has the wrong effect."
                )
            }
        },
        web("L27", "exp in the distant future", "accepts it, and stores its jti for at most one day") {
            web,
            server,
            browser in
            for exp in [9.3e15, 1e19, 1e300] {
                try await browser.signIn(web, at: server)
                let token = try web.environment.emulator.logoutToken(for: "web", subject: "248289761001") { _, claims in
                    claims["exp"] = .double(exp)
                }
                try ConformanceRow.require(
                    try await web.logOut(token, at: server).status == 200,
                    "\(exp) must be accepted."
                )
                try ConformanceRow.require(try await browser.session(at: server) == nil, "The session must end.")
            }
            let old = try web.environment.emulator.logoutToken(for: "web", subject: "248289761001") { _, claims in
                claims["iat"] = .integer((claims["iat"]?.integer ?? 0) - 172_800)
                claims["exp"] = .double(1e19)
            }
            try ConformanceRow.require(
                try await web.logOut(old, at: server).status == 400,
                "The token must be rejected two days later."
            )
        },
        web("L26", "a local clock that is ahead", "ends sessions whose local start time is after the token's iat") {
            web,
            _,
            browser in
            let ahead = try web.process(host: HostServices(now: { Date() + 90 }))
            for isOfSession in [true, false] {
                try await browser.signIn(web, at: ahead)
                let tokens = try await ahead.freshTokens(for: try await browser.session(at: ahead).required())
                let token = try web.environment.emulator.logoutToken(
                    for: "web",
                    subject: "248289761001",
                    sessionID: isOfSession ? tokens.verifiedIDToken?.claims["sid"]?.string : nil
                )
                let status = try await web.logOut(token, at: ahead).status
                try ConformanceRow.require(status == 200, "The status must be 200, not \(status).")
                try ConformanceRow.require(try await browser.session(at: ahead) == nil, "The session must end.")
            }
        },
    ]
}
