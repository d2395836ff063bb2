import AuthFlow
import AuthFlowJSON
import AuthFlowServer
import AuthFlowTesting
import ConformanceRows
import HTTPTypes
import Testing

/// The information and operations that a web application provides for its operators.
@Suite struct SessionOperationTests {
    private static let (old, new) = (Secret("the old tag key"), Secret("the new tag key"))

    /// The tag keys during each step of a key rotation, in which processes with the old and the new list run
    /// concurrently.
    @Test(arguments: [([old], [old, new]), ([old, new], [new, old]), ([new, old], [new])])
    func findsAndEndsSessionsDuringATagKeyRotation(_ before: [Secret], _ after: [Secret]) async throws {
        try await WebEnvironment.run { web in
            let processes = try [before, after].map { keys in try web.process { $0.tagKeys = keys } }
            for asked in processes {
                let browsers = [WebBrowser(), WebBrowser()]
                for (browser, process) in zip(browsers, processes) { try await browser.signIn(web, at: process) }
                let session = try #require(try await browsers[0].session(at: asked))
                #expect(try await asked.sessions(ofUserOf: session).count == 2)
                try await asked.endSessions(ofUserOf: session)
                for browser in browsers { #expect(try await browser.session(at: processes[1]) == nil) }
            }
        }
    }

    @Test func aLogoutTokenEndsSessionsWithAnOlderTagKey() async throws {
        try await WebEnvironment.run { web in
            let browser = WebBrowser()
            try await browser.signIn(web, at: try web.process { $0.tagKeys = [Self.old] })
            let server = try web.process { $0.tagKeys = [Self.new, Self.old] }
            let session = try #require(try await browser.session(at: server))
            let subject = try #require(session.identity?.subject)
            let token = try web.environment.emulator.logoutToken(for: WebEnvironment.client.id, subject: subject)
            #expect(try await web.logOut(token, at: server).status == 200)
            #expect(try await browser.session(at: server) == nil)
        }
    }

    @Test func aLogoutRequestWithoutExactlyOneTokenIsRejected() async throws {
        try await WebEnvironment.run { web in
            let (server, browser) = (try web.process(), WebBrowser())
            try await browser.signIn(web, at: server)
            let emulator = web.environment.emulator
            let token = try emulator.logoutToken(for: WebEnvironment.client.id, subject: "248289761001")
            let path = "/backchannel-logout"
            let one = "logout_token=\(token)"
            for form in ["\(one)&\(one)", "\(one)&logout_token=", "a=b", ""] {
                let response = try await WebBrowser().send(.post, path, to: server, body: Array(form.utf8))
                #expect(response.status == 400)
                #expect(String(decoding: response.body, as: UTF8.self).contains("exactly one logout_token"))
            }
            #expect(try await browser.session(at: server) != nil)
        }
    }

    /// One process records a logout token with its first key, and another process looks up the token with all of its keys.
    @Test(arguments: [([old, new], [new, old]), ([new, old], [old, new]), ([old], [new, old])])
    func aLogoutTokenAbortsAPendingSignInDuringATagKeyRotation(
        _ ofLogout: [Secret],
        _ ofSignIn: [Secret]
    ) async throws {
        try await WebEnvironment.run { web in
            let (told, server) = (try web.process { $0.tagKeys = ofLogout }, try web.process { $0.tagKeys = ofSignIn })
            let browser = WebBrowser()
            let callback = try await browser.visitProvider(web, at: server)
            // On the provider's clock, the token's iat is later than the iat of the next ID Token.
            let token = try web.environment.emulator.logoutToken(for: WebEnvironment.client.id, subject: "248289761001")
            {
                _,
                claims in
                claims["iat"] = .integer((claims["iat"]?.integer ?? 0) + 20)
            }
            #expect(try await web.logOut(token, at: told).status == 200)
            #expect(try await browser.send(.get, callback, to: server).status == 400)
            #expect(try await browser.session(at: server) == nil)
        }
    }

    @Test func gaugesReportCredentialsKeyAgeAndDraining() async throws {
        try await WebEnvironment.run { web in
            let (server, browser) = (try web.process(), WebBrowser())
            func value(_ name: String) -> Double? { server.gauges.first { $0.name == name }?.value }
            #expect(value("authflow_credentials_in_memory") == 0 && value("authflow_keys_age_seconds") == nil)
            try await browser.signIn(web, at: server)
            #expect(value("authflow_credentials_in_memory") == 1)
            #expect(try #require(value("authflow_keys_age_seconds")) >= 0)
            #expect(value("authflow_credentials_unsaved") == 0 && value("authflow_is_draining") == 0)
            #expect(await server.drain())
            #expect(value("authflow_is_draining") == 1)
            let line = FlowGauge("authflow_x", 2, labels: ["provider": "a", "kind": "b"]).description
            #expect(line == #"authflow_x{kind="b",provider="a"} 2.0"#)
        }
    }
}
