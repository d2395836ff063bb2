import AuthFlow
import AuthFlowJSON
import AuthFlowResourceServer
import AuthFlowTesting
import Crypto
import Foundation
import Testing

/// DPoP at an API (RFC 9449 sections 4.3, 7 and 9).
@Suite struct ProofTests {
    private func bound(_ environment: ResourceServerEnvironment, _ key: ProofKey) throws -> String {
        try environment.token { $0["cnf"] = ["jkt": .string(key.thumbprint)] }
    }

    @Test func acceptsABoundTokenWithItsProof() async throws {
        let (environment, key) = (try ResourceServerEnvironment(), ProofKey())
        let token = try bound(environment, key)
        let request = ResourceServerEnvironment.request(
            "DPoP \(token)",
            "/orders/1?page=2",
            proof: try key.proof(of: token, at: environment.now)
        )
        let authorization = try await environment.api().authorize(request)
        #expect(authorization.isDPoPBound)
        #expect(authorization.responseFields.isEmpty)
    }

    /// Some clients send null instead of omitting a claim or a header parameter.
    @Test func aNullMemberOfADPoPProofIsAbsent() async throws {
        let (environment, key) = (try ResourceServerEnvironment(), ProofKey())
        let token = try bound(environment, key)
        let proof = try key.proof(of: token, at: environment.now) { claims in
            for name in ["exp", "nbf", "nonce"] { claims[name] = .null }
        } header: {
            $0["crit"] = .null
        }
        let request = ResourceServerEnvironment.request("DPoP \(token)", proof: proof)
        #expect(try await environment.api().authorize(request).isDPoPBound)
    }

    static let refusedClaims: [Case<Change>] = [
        Case("another method") { $0["htm"] = "POST" },
        Case("the method in lowercase") { $0["htm"] = "get" },
        Case("another path") { $0["htu"] = "https://api.example.com/orders/2" },
        Case("another host") { $0["htu"] = "https://api.example.org/orders/1" },
        Case("another scheme") { $0["htu"] = "http://api.example.com/orders/1" },
        Case("a path with different capitalization") { $0["htu"] = "https://api.example.com/Orders/1" },
        Case("an encoded slash") { $0["htu"] = "https://api.example.com/orders%2F1" },
        Case("no URL") { $0["htu"] = "orders" },
        Case("a time too far in the past") { $0["iat"] = 1_799_999_900 },
        Case("a time in the future") { $0["iat"] = 1_800_000_100 },
        Case("no time") { $0["iat"] = nil },
        Case("an infinite time") { $0["iat"] = 1e300 },
        Case("expired") { $0["exp"] = 1_799_999_900 },
        Case("not valid yet") { $0["nbf"] = 1_800_000_100 },
        Case("an expiry that is not a number") { $0["exp"] = "never" },
        Case("no identifier") { $0["jti"] = nil },
        Case("an empty identifier") { $0["jti"] = "" },
        Case("a long identifier") { $0["jti"] = .string(String(repeating: "a", count: 600)) },
        Case("another token") { $0["ath"] = "abc" },
        Case("no token") { $0["ath"] = nil },
    ]

    @Test(arguments: refusedClaims) func rejectsADPoPProofWithInvalidClaims(_ claims: Case<Change>) async throws {
        let (environment, key) = (try ResourceServerEnvironment(), ProofKey())
        let token = try bound(environment, key)
        let proof = try key.proof(of: token, at: environment.now, claims.value)
        let rejection = try await refusal(
            environment.api(),
            ResourceServerEnvironment.request("DPoP \(token)", proof: proof)
        )
        #expect(rejection.response.status == 401)
        #expect(rejection.error == "invalid_dpop_proof")
        let used = AuthenticationChallenge.challenges(in: rejection.response.head.headerFields).filter {
            $0.parameters["error"] != nil
        }
        #expect(used.map(\.scheme) == ["dpop"])
    }

    static let refusedHeaders: [Case<Change>] = [
        Case("another type") { $0["typ"] = "JWT" },
        Case("no type") { $0["typ"] = nil },
        Case("no algorithm") { $0["alg"] = "none" },
        Case("a shared secret") { $0["alg"] = "HS256" },
        Case("no key") { $0["jwk"] = nil },
        Case("a private key") { header in
            var jwk = header["jwk"]?.object ?? [:]
            jwk["d"] = "AAAA"
            header["jwk"] = .object(jwk)
        },
        Case("another key") { $0["jwk"] = .object(ProofKey().jwk) },
        Case("a critical extension") { $0["crit"] = ["x"] },
    ]

    static let flaws: [Case<Flaw>] =
        ["jti", "htm", "htu", "iat"].map { claim in
            Case("no \(claim)", Flaw("a required claim is missing or invalid") { $0[claim] = nil })
        } + [
            Case(
                "larger than 8 KiB",
                Flaw("it is too large") { $0["a"] = .string(String(repeating: "a", count: 8 * 1024)) }
            )
        ]

    @Test(arguments: flaws) func theReasonForARejectedDPoPProofNamesItsFlaw(_ flaw: Case<Flaw>) async throws {
        let (environment, key) = (try ResourceServerEnvironment(), ProofKey())
        let token = try bound(environment, key)
        let proof = try key.proof(of: token, at: environment.now, flaw.value.change)
        let request = ResourceServerEnvironment.request("DPoP \(token)", proof: proof)
        let rejection = try await refusal(environment.api(), request)
        #expect(rejection.error == "invalid_dpop_proof")
        #expect(rejection.reason.contains(flaw.value.reason), "\(rejection.reason)")
    }

    static let refusedAlgorithms: [([SignatureAlgorithm], String)] = [
        ([.es384], "ES256"), ([.es256], "HS256"),
    ]

    @Test(arguments: refusedAlgorithms) func rejectsADPoPProofWhoseAlgorithmIsNotAccepted(
        _ accepted: [SignatureAlgorithm],
        _ algorithm: String
    ) async throws {
        let (environment, key) = (try ResourceServerEnvironment(), ProofKey())
        let token = try bound(environment, key)
        let proof = try key.proof(of: token, at: environment.now, header: { $0["alg"] = .string(algorithm) })
        let api = try environment.api { $0.dpop.algorithms = accepted }
        let rejection = try await refusal(api, ResourceServerEnvironment.request("DPoP \(token)", proof: proof))
        #expect(rejection.error == "invalid_dpop_proof")
        #expect(rejection.reason.contains("its algorithm is not accepted (alg)"), "\(rejection.reason)")
    }

    @Test(arguments: ["d", "p", "q", "dp", "dq", "qi", "oth", "k", "priv"])
    func rejectsADPoPProofWhoseKeyHasAPrivateMember(_ member: String) async throws {
        let (environment, key) = (try ResourceServerEnvironment(), ProofKey())
        let token = try bound(environment, key)
        let jwk = key.jwk.merging([member: "AAAA"]) { $1 }
        let proof = try key.proof(of: token, at: environment.now, header: { $0["jwk"] = .object(jwk) })
        let request = ResourceServerEnvironment.request("DPoP \(token)", proof: proof)
        let rejection = try await refusal(environment.api(), request)
        #expect(rejection.error == "invalid_dpop_proof")
        #expect(rejection.reason.contains("its key is not a usable public key (jwk)"), "\(rejection.reason)")
    }

    /// The URL of the request would otherwise begin with `https://api.example.com.evil.example`.
    @Test func rejectsARequestTargetThatExtendsTheHostName() async throws {
        let (environment, key) = (try ResourceServerEnvironment(), ProofKey())
        let token = try bound(environment, key)
        let proof = try key.proof(of: token, at: environment.now) {
            $0["htu"] = "https://api.example.com.evil.example/orders"
        }
        let request = ResourceServerEnvironment.request("DPoP \(token)", ".evil.example/orders", proof: proof)
        let rejection = try await refusal(environment.api(), request)
        #expect(rejection.error == "invalid_request")
        #expect(rejection.reason.contains("cannot be compared with the proof's htu"), "\(rejection.reason)")
    }

    @Test(arguments: refusedHeaders) func rejectsADPoPProofWithAnInvalidHeader(_ header: Case<Change>) async throws {
        let (environment, key) = (try ResourceServerEnvironment(), ProofKey())
        let token = try bound(environment, key)
        let proof = try key.proof(of: token, at: environment.now, header: header.value)
        let rejection = try await refusal(
            environment.api(),
            ResourceServerEnvironment.request("DPoP \(token)", proof: proof)
        )
        #expect(rejection.error == "invalid_dpop_proof")
    }

    @Test(arguments: [
        "https://API.example.com/orders/1", "https://api.example.com:443/orders/1",
        "https://api.example.com/orders/%31",
        "https://api.example.com/x/../orders/./1", "https://api.example.com/orders/1?a=b",
        "https://api.example.com/orders/1#c",
    ]) func theHTUClaimIsComparedAfterNormalization(_ url: String) async throws {
        let (environment, key) = (try ResourceServerEnvironment(), ProofKey())
        let token = try bound(environment, key)
        let proof = try key.proof(of: token, at: environment.now) { $0["htu"] = .string(url) }
        _ = try await environment.api().authorize(ResourceServerEnvironment.request("DPoP \(token)", proof: proof))
    }

    @Test func aProofIsAcceptedOnce() async throws {
        let (environment, key) = (try ResourceServerEnvironment(), ProofKey())
        let api = try environment.api()
        let token = try bound(environment, key)
        let request = ResourceServerEnvironment.request(
            "DPoP \(token)",
            proof: try key.proof(of: token, at: environment.now)
        )
        _ = try await api.authorize(request)
        #expect(try await refusal(api, request).error == "invalid_dpop_proof")
        environment.advance(59)
        #expect(try await refusal(api, request).error == "invalid_dpop_proof")
    }

    @Test func aReplayedProofWithAFutureIssueTimeIsRejected() async throws {
        let (environment, key) = (try ResourceServerEnvironment(), ProofKey())
        let api = try environment.api()
        let token = try bound(environment, key)
        let proof = try key.proof(of: token, at: environment.now.addingTimeInterval(60))
        let request = ResourceServerEnvironment.request("DPoP \(token)", proof: proof)
        _ = try await api.authorize(request)
        for _ in 0..<12 {
            environment.advance(10)
            #expect(try await refusal(api, request).error == "invalid_dpop_proof")
        }
    }

    @Test func aSharedReplayCacheRemovesExpiredProofs() async throws {
        let (environment, key) = (try ResourceServerEnvironment(), ProofKey())
        let store = MemoryTokenStore(host: environment.host)
        let api = try environment.api {
            $0.dpop.proofs = SharedReplayCache(store, resource: ResourceServerEnvironment.resource)
        }
        let token = try bound(environment, key)
        for round in 0..<5 {
            for _ in 0..<20 {
                let proof = try key.proof(of: token, at: environment.now)
                _ = try await api.authorize(ResourceServerEnvironment.request("DPoP \(token)", proof: proof))
            }
            if round < 4 { environment.advance(100) }
        }
        // Only the proofs of the last 180 seconds remain. They are removed concurrently with the requests.
        while await store.keys(after: nil, limit: 1000).count > 40 { await Task.yield() }
    }

    @Test func anAuthorizationIsReusedForFurtherScopeChecksByTheSameAPI() async throws {
        let (environment, key) = (try ResourceServerEnvironment(), ProofKey())
        let (api, other) = (try environment.api(), try environment.api())
        let token = try bound(environment, key)
        let proof = try key.proof(of: token, at: environment.now)
        let authorization = try await api.authorize(ResourceServerEnvironment.request("DPoP \(token)", proof: proof))
        #expect(try api.isAuthorized(authorization, requiring: ["orders:read"]))
        #expect(try !other.isAuthorized(authorization, requiring: []))
        let rejection = #expect(throws: Rejection.self) { try api.isAuthorized(authorization, requiring: ["admin"]) }
        #expect(rejection?.error == "insufficient_scope")
    }

    @Test func instancesWithASharedReplayCacheAcceptAProofOnce() async throws {
        let (environment, key) = (try ResourceServerEnvironment(), ProofKey())
        let store = MemoryTokenStore()
        let machines = try (0..<2).map { _ in
            try environment.api {
                $0.dpop.proofs = SharedReplayCache(store, resource: ResourceServerEnvironment.resource)
            }
        }
        let token = try bound(environment, key)
        let request = ResourceServerEnvironment.request(
            "DPoP \(token)",
            proof: try key.proof(of: token, at: environment.now)
        )
        _ = try await machines[0].authorize(request)
        #expect(try await refusal(machines[1], request).error == "invalid_dpop_proof")
    }

    @Test func rejectsNewProofsWithStatus503WhileTheReplayCacheIsFull() async throws {
        let (environment, key) = (try ResourceServerEnvironment(), ProofKey())
        let api = try environment.api { $0.dpop.proofs = MemoryReplayCache(limit: 2) }
        let token = try bound(environment, key)
        func request() throws -> HTTPRequest {
            ResourceServerEnvironment.request("DPoP \(token)", proof: try key.proof(of: token, at: environment.now))
        }
        for _ in 0..<2 { _ = try await api.authorize(try request()) }
        #expect(try await refusal(api, try request()).response.status == 503)
        environment.advance(121)
        _ = try await api.authorize(try request())
    }

    /// The proofs that were used before each step are all retained, so their number is limited as well.
    @Test func rejectsNewProofsAfterTheClockWasSetBackRepeatedly() throws {
        let cache = MemoryReplayCache(limit: 1)
        func isFirstUse(_ name: String, at time: Double) throws -> Bool {
            let proof = ProofIdentifier(thumbprint: "key", identifier: name)
            return try cache.isFirstUse(of: proof, at: Date(timeIntervalSince1970: time), within: .seconds(120))
        }
        for step in 0..<3 { #expect(try isFirstUse("\(step)", at: 1_800_000_000 - 121 * Double(step))) }
        let error = #expect(throws: AuthError.self) { try isFirstUse("3", at: 1_800_000_000 - 363) }
        #expect(error?.code == .temporarilyUnavailable)
        #expect(error?.message.contains("The replay cache is full") == true)
    }

    /// RFC 9449 section 11.1: a proof is accepted only once, even if the clock of the API was ahead when it was used.
    @Test(arguments: [1.0, 60, 600, 86_400])
    func aProofIsNotAcceptedAgainAfterTheClockWasSetBack(_ step: Double) throws {
        let (cache, window) = (MemoryReplayCache(), Duration.seconds(120))
        let used = Date(timeIntervalSince1970: 1_800_000_000)
        func isFirstUse(_ name: String, at time: Date) throws -> Bool {
            let proof = ProofIdentifier(thumbprint: "key", identifier: name)
            return try cache.isFirstUse(of: proof, at: time, within: window)
        }
        #expect(try isFirstUse("proof", at: used))
        var time = used - step
        // Other proofs arrive until the replay window of the first proof has ended.
        while time < used + 120 {
            #expect(try isFirstUse("\(time)", at: time))
            time += max(1, step / 100)
        }
        #expect(try !isFirstUse("proof", at: used))
    }

    @Test func rejectsARequestWithSeveralDPoPProofs() async throws {
        let (environment, key) = (try ResourceServerEnvironment(), ProofKey())
        let token = try bound(environment, key)
        var request = ResourceServerEnvironment.request(
            "DPoP \(token)",
            proof: try key.proof(of: token, at: environment.now)
        )
        let name = try #require(HTTPField.Name("DPoP"))
        request.headerFields.append(HTTPField(name: name, value: try key.proof(of: token, at: environment.now)))
        #expect(try await refusal(environment.api(), request).error == "invalid_dpop_proof")
    }

    @Test func theAuthorizationSchemeMustMatchTheTokenBinding() async throws {
        let (environment, key) = (try ResourceServerEnvironment(), ProofKey())
        let token = try bound(environment, key)
        let proof = try key.proof(of: token, at: environment.now)
        for request in [
            ResourceServerEnvironment.request("Bearer \(token)"),
            ResourceServerEnvironment.request("Bearer \(token)", proof: proof),
            ResourceServerEnvironment.request("DPoP \(try environment.token())", proof: proof),
        ] {
            #expect(try await refusal(environment.api(), request).error == "invalid_token")
        }
    }

    @Test func anAPIThatRequiresDPoPRejectsBearerTokens() async throws {
        let (environment, key) = (try ResourceServerEnvironment(), ProofKey())
        let api = try environment.api { $0.binding = .dpop }
        let rejection = try await refusal(api, ResourceServerEnvironment.request("Bearer \(try environment.token())"))
        #expect(rejection.error == "invalid_token")
        let challenges = AuthenticationChallenge.challenges(in: rejection.response.head.headerFields)
        #expect(challenges.map(\.scheme) == ["dpop"])
        let token = try bound(environment, key)
        let proof = try key.proof(of: token, at: environment.now)
        _ = try await api.authorize(ResourceServerEnvironment.request("DPoP \(token)", proof: proof))
        #expect(api.metadata["dpop_bound_access_tokens_required"] == true)
    }

    @Test func anAPIThatDoesNotAcceptDPoPRejectsABoundTokenWithItsProof() async throws {
        let (environment, key) = (try ResourceServerEnvironment(), ProofKey())
        let api = try environment.api { $0.dpop.isAccepted = false }
        let token = try bound(environment, key)
        let proof = try key.proof(of: token, at: environment.now)
        let rejection = try await refusal(api, ResourceServerEnvironment.request("DPoP \(token)", proof: proof))
        #expect(rejection.error == "invalid_token")
        #expect(rejection.reason.contains("this API does not accept DPoP proofs"), "\(rejection.reason)")
    }

    // MARK: - Nonces

    @Test func requiresAndRenewsTheDPoPNonceOfTheResourceServer() async throws {
        let (environment, key) = (try ResourceServerEnvironment(), ProofKey())
        let nonceKey = NonceKey.random()
        let machines = try (0..<2).map { _ in try environment.api { $0.dpop.nonces = nonceKey } }
        let token = try bound(environment, key)
        func request(_ nonce: String?) throws -> HTTPRequest {
            let proof = try key.proof(of: token, at: environment.now) { $0["nonce"] = nonce.map(JSON.string) }
            return ResourceServerEnvironment.request("DPoP \(token)", proof: proof)
        }
        let name = try #require(HTTPField.Name("DPoP-Nonce"))
        let rejection = try await refusal(machines[0], try request(nil))
        #expect(rejection.error == "use_dpop_nonce")
        let nonce = try #require(rejection.response.head.headerFields[name])
        // Another instance accepts the nonce, although they share only the key.
        #expect(try await machines[1].authorize(try request(nonce)).responseFields[name] == nil)
        environment.advance(200)
        let next = try #require(try await machines[0].authorize(try request(nonce)).responseFields[name])
        environment.advance(200)
        #expect(try await refusal(machines[0], try request(nonce)).error == "use_dpop_nonce")
        _ = try await machines[0].authorize(try request(next))
        for forged in ["", "abc", String(next.dropLast()) + (next.last == "A" ? "B" : "A"), NonceKeyText.other] {
            #expect(try await refusal(machines[0], try request(forged)).error == "use_dpop_nonce")
        }
    }

    /// The clock of the instance that issued the nonce may be ahead.
    @Test(arguments: [(30.0, true), (31.0, false)])
    func aNonceWithAFutureTimeIsAcceptedOnlyWithinTheAllowedClockSkew(_ lead: Double, _ isAccepted: Bool) async throws {
        let (environment, key) = (try ResourceServerEnvironment(), ProofKey())
        let api = try environment.api { $0.dpop.nonces = .random() }
        let token = try bound(environment, key)
        func request(_ nonce: String?) throws -> HTTPRequest {
            let proof = try key.proof(of: token, at: environment.now) { $0["nonce"] = nonce.map(JSON.string) }
            return ResourceServerEnvironment.request("DPoP \(token)", proof: proof)
        }
        let name = try #require(HTTPField.Name("DPoP-Nonce"))
        let nonce = try #require(try await refusal(api, try request(nil)).response.head.headerFields[name])
        environment.advance(-lead)
        if isAccepted {
            _ = try await api.authorize(try request(nonce))
        } else {
            #expect(try await refusal(api, try request(nonce)).error == "use_dpop_nonce")
        }
    }

    private enum NonceKeyText { static let other = Base64URL.encode([UInt8](repeating: 7, count: 24)) }
}

/// Certificate-bound access tokens (RFC 8705 section 3, RFC 9440).
@Suite struct CertificateBoundTokenTests {
    private static let certificate: [UInt8] = Array("a certificate".utf8)

    private func token(_ environment: ResourceServerEnvironment) throws -> String {
        let thumbprint = Base64URL.encode(SHA256.hash(data: Self.certificate))
        return try environment.token { $0["cnf"] = ["x5t#S256": .string(thumbprint)] }
    }

    @Test func acceptsACertificateBoundTokenOnlyWithItsCertificate() async throws {
        let environment = try ResourceServerEnvironment()
        let request = ResourceServerEnvironment.request("Bearer \(try token(environment))")
        let authorization = try await environment.api().authorize(request, clientCertificate: Self.certificate)
        #expect(authorization.isCertificateBound)
        #expect(try await refusal(environment.api(), request).error == "invalid_token")
        #expect(try await refusal(environment.api(), request, clientCertificate: [1, 2]).error == "invalid_token")
    }

    /// A binding without a method is rejected, because ignoring it would downgrade the token to a bearer token.
    @Test func aNullMethodOfATokensBindingIsAbsent() async throws {
        let environment = try ResourceServerEnvironment()
        let thumbprint = Base64URL.encode(SHA256.hash(data: Self.certificate))
        for (method, isAccepted) in [(JSON.string(thumbprint), true), (JSON.null, false)] {
            let token = try environment.token { $0["cnf"] = ["x5t#S256": method, "jkt": .null] }
            let request = ResourceServerEnvironment.request("Bearer \(token)")
            let authorization = try? await environment.api().authorize(request, clientCertificate: Self.certificate)
            #expect((authorization?.isCertificateBound ?? false) == isAccepted)
        }
    }

    /// A value that is not in the field's encoding, although it contains the client's certificate.
    struct UnreadableField: Sendable, CustomTestStringConvertible {
        let testDescription: String
        let value: String
        var encoding = ClientCertificateField.Encoding.structured
    }

    static let unreadableFields: [UnreadableField] = {
        let base64 = Data(certificate).base64EncodedString()
        func pem(_ label: String) -> String {
            let text = "-----BEGIN \(label)-----\n\(base64)\n-----END \(label)-----\n"
            return text.addingPercentEncoding(withAllowedCharacters: .alphanumerics) ?? ""
        }
        let (one, key) = (pem("CERTIFICATE"), pem("PUBLIC KEY"))
        return [
            UnreadableField(testDescription: "no colon at the start", value: "x\(base64):"),
            UnreadableField(testDescription: "no colon at the end", value: ":\(base64)x"),
            UnreadableField(testDescription: "a single colon", value: ":"),
            UnreadableField(testDescription: "an empty byte sequence", value: "::"),
            UnreadableField(testDescription: "several certificates", value: one + one, encoding: .escapedPEM),
            UnreadableField(testDescription: "another label", value: key, encoding: .escapedPEM),
            UnreadableField(testDescription: "no PEM block", value: "certificate", encoding: .escapedPEM),
        ]
    }()

    @Test(arguments: unreadableFields)
    func rejectsAClientCertificateFieldThatCannotBeDecoded(_ field: UnreadableField) async throws {
        let environment = try ResourceServerEnvironment()
        let name = try #require(HTTPField.Name("X-Client-Cert"))
        let api = try environment.api {
            $0.certificateField = ClientCertificateField(name, encoding: field.encoding)
        }
        var request = ResourceServerEnvironment.request("Bearer \(try token(environment))")
        request.headerFields[name] = field.value
        let rejection = try await refusal(api, request)
        #expect(rejection.error == "invalid_request")
        #expect(rejection.reason.contains("client certificate in the request cannot be decoded"), "\(rejection.reason)")
    }

    /// Some proxies add an empty field for a client without a certificate.
    @Test func anEmptyClientCertificateFieldMeansThatTheClientHasNoCertificate() async throws {
        let environment = try ResourceServerEnvironment()
        let field = try #require(ClientCertificateField.clientCert)
        var request = ResourceServerEnvironment.request("Bearer \(try token(environment))")
        request.headerFields[field.name] = ""
        let rejection = try await refusal(environment.api { $0.certificateField = field }, request)
        #expect(rejection.error == "invalid_token")
        #expect(rejection.reason.contains("did not present a certificate"), "\(rejection.reason)")
    }

    @Test func trustsTheProxysClientCertificateFieldOnlyIfConfigured() async throws {
        let environment = try ResourceServerEnvironment()
        let structured = try #require(ClientCertificateField.clientCert)
        let escaped = ClientCertificateField(try #require(HTTPField.Name("X-Client-Cert")), encoding: .escapedPEM)
        let base64 = Data(Self.certificate).base64EncodedString()
        let pem = "-----BEGIN CERTIFICATE-----\n\(base64)\n-----END CERTIFICATE-----\n"
        let text = pem.addingPercentEncoding(withAllowedCharacters: .alphanumerics) ?? ""
        for (field, value) in [(structured, ":\(base64):"), (escaped, text)] {
            var request = ResourceServerEnvironment.request("Bearer \(try token(environment))")
            request.headerFields[field.name] = value
            #expect(try await refusal(environment.api(), request).error == "invalid_token")
            _ = try await environment.api { $0.certificateField = field }.authorize(request)
            request.headerFields.append(HTTPField(name: field.name, value: value))
            #expect(
                try await refusal(environment.api { $0.certificateField = field }, request).error == "invalid_request"
            )
            // The proxy adds an empty field for a client without a certificate, but does not remove the field that
            // the client sent.
            request.headerFields[field.name] = value
            request.headerFields.append(HTTPField(name: field.name, value: ""))
            #expect(
                try await refusal(environment.api { $0.certificateField = field }, request).error == "invalid_request"
            )
        }
    }
}
