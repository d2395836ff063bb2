import AuthFlow
import AuthFlowJSON
import AuthFlowOIDC
import AuthFlowTesting
import HTTPTypes
import Synchronization

extension ConformanceTable {
    static let dynamic: [ConformanceRow] = [
        .row("20", "oidcc-client-test-discovery-webfinger-acct", "Discover the issuer for an account.") { environment in
            // WebFinger requests use https in process, and http on loopback.
            let host = try Endpoint(environment.emulator.issuer).authority
            try await findsIssuer(environment, of: "acct:alice@\(host)", asking: "acct:alice@\(host)")
        },
        .row("21", "oidcc-client-test-discovery-webfinger-url", "Discover the issuer for a URL.") { environment in
            let url = "\(environment.emulator.issuer)/people/alice"
            try await findsIssuer(environment, of: url, asking: url)
        },
        .row("22", "oidcc-client-test-dynamic-registration", "Register, and sign in with the registration.") {
            environment in
            for method in [ClientAuthentication.Method.none, .clientSecretBasic, .clientSecretPost] {
                let registration = DynamicRegistration(server: environment.server())
                let registered = try await registration.register(
                    DynamicRegistration.Request(
                        name: "Conformance",
                        authenticationMethods: [method],
                        metadata: ["contacts": ["admin@example.com"]]
                    )
                )
                try await ConformanceRow.signsIn(environment) {
                    $0.clientID = registered.clientID
                    $0.authentication = registered.authentication
                }
            }
        },
        byReference("23", "oidcc-client-test-request-uri-signed-rs256", isSigned: true),
        byReference("24", "oidcc-client-test-request-uri-signed-none", isSigned: false),
        .row(
            "25",
            "oidcc-client-test-userinfo-signed",
            "Verify signed userinfo.",
            clients: [signedUserInfo]
        ) { environment in
            try await ConformanceRow.signsIn(environment) { $0.clientID = signedUserInfo.id }
            let wrong: [UserInfoFault] = [.badSignature, .wrongIssuer, .wrongAudience, .wrongSubject]
            for fault in wrong {
                environment.emulator.fault = .userInfo(fault)
                var settings = try EmulatorEnvironment.registration()
                settings.clientID = signedUserInfo.id
                do {
                    _ = try await environment.client(registration: settings).signIn()
                    throw ConformanceRow.Failure(description: "Invalid signed userinfo must be rejected.")
                } catch let error as AuthError {
                    try ConformanceRow.require(
                        error.code == .invalidUserInfo,
                        "The code must be invalidUserInfo: \(error)"
                    )
                }
            }
        },
        ConformanceRow(
            number: "85",
            name: "rp-discovery-webfinger-http-href",
            demand: "Reject an issuer that is not an https URL.",
            check: .trial { _ in
                let finder = WebFinger(
                    transport: transport(linking: ["rel": .string(relation), "href": "http://id.example.com"])
                )
                do {
                    _ = try await finder.issuer(of: "alice@id.example.com")
                } catch let error as AuthError {
                    return try ConformanceRow.require(
                        error.code == .discoveryFailed,
                        "The error code must be discoveryFailed."
                    )
                }
                throw ConformanceRow.Failure(description: "The issuer must be rejected.")
            }
        ),
        ConformanceRow(
            number: "86",
            name: "rp-discovery-webfinger-unknown-member",
            demand: "Ignore unknown members.",
            check: .trial { _ in
                let finder = WebFinger(
                    transport: transport(linking: [
                        "rel": .string(relation), "href": "https://op.example.com", "unknown": ["x": 1],
                    ])
                )
                let issuer = try await finder.issuer(of: "alice@id.example.com")
                try ConformanceRow.require(issuer == "https://op.example.com", "The issuer must be found.")
            }
        ),
    ]

    private static let requestKey = Result { try PrivateKey(generatedFor: .rs256) }

    /// A sign-in in which the provider fetches the request object from the client.
    private static func byReference(_ number: String, _ name: String, isSigned: Bool) -> ConformanceRow {
        var registered = OIDCEmulator.Client.demo
        registered.allowsUnsignedRequests = !isSigned
        registered.jwks = (try? requestKey.get()).map { ["keys": [$0.publicJWK]] }
        return .row(number, name, "Publish the request object, and send its URL.", clients: [registered]) {
            environment in
            let published = Mutex<[String: String]>([:])
            let publish: @Sendable (Secret) async throws -> String = { object in
                published.withLock { all in
                    let url = "https://client.example.com/requests/\(all.count)"
                    all[url] = object.exposed
                    return url
                }
            }
            environment.emulator.fetchesRequestObjects = { url in published.withLock { $0[url] } ?? "" }
            try await ConformanceRow.signsIn(environment) {
                if isSigned { $0.requestObjectKey = SigningKeySource(try requestKey.get()) }
                $0.requestObjectReference =
                    isSigned
                    ? RequestObjectReference(publish: publish) : .publishingUnsigned(publish)
            }
            let visited = environment.emulator.receivedRequests.first { $0.path == "/authorize" }
            try ConformanceRow.require(
                visited?.query.names.sorted() == ["client_id", "request_uri", "response_type", "scope"],
                "Only the object's URL and the required parameters may be sent."
            )
        }
    }

    private static let relation = "http://openid.net/specs/connect/1.0/issuer"
    private static let signedUserInfo = OIDCEmulator.Client(id: "signed-userinfo", userInfoSigningAlgorithm: .rs256)

    private static func transport(linking link: JSON) -> InProcessTransport {
        InProcessTransport(origin: "https://id.example.com") { _, _ in
            TransportResponse(
                head: HTTPResponse(status: .ok),
                body: try JSON.object(["links": [link], "unknown": true]).serialized()
            )
        }
    }

    private static func findsIssuer(_ environment: EmulatorEnvironment, of identifier: String, asking resource: String)
        async throws
    {
        let issuer = try await WebFinger(transport: environment.transport).issuer(of: identifier)
        try ConformanceRow.require(issuer == environment.emulator.issuer, "The issuer must be found.")
        let asked = environment.emulator.receivedRequests.first
        try ConformanceRow.require(asked?.path == "/.well-known/webfinger", "The first request must query WebFinger.")
        try ConformanceRow.require(asked?.query["resource"] == resource, "The resource must be \(resource).")
        try await ConformanceRow.signsIn(environment)
    }
}
