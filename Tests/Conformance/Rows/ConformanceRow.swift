import AuthFlow
public import AuthFlowTesting

/// A row of the conformance table: a provider's behavior, and the required behavior of the client.
public struct ConformanceRow: Sendable, CustomStringConvertible {
    /// Whether a row is run.
    public enum Check: Sendable {
        /// The row is run; a thrown error is a failure.
        case trial(@Sendable (EmulatorEnvironment.Setting) async throws -> Void)
        /// The row does not apply; the text is the reason.
        case notApplicable(String)
    }

    /// The number in the table.
    public let number: String

    /// The name of a test in the OpenID Foundation's or MCP's suite, a clause of a specification, or a topic.
    public let name: String

    /// The behavior required of the client.
    public let demand: String

    /// Whether and how the row is run.
    public let check: Check

    /// Number and name.
    public var description: String { "\(number) \(name)" }

    /// The reason for the failure of a row.
    struct Failure: Error, CustomStringConvertible {
        let description: String
    }

    static func require(_ condition: Bool, _ what: String) throws {
        guard condition else { throw Failure(description: what) }
    }
}

extension ConformanceRow {
    /// A row with a custom test.
    static func row(
        _ number: String,
        _ name: String,
        _ demand: String,
        clients: [OIDCEmulator.Client] = [.demo],
        _ body: @escaping @Sendable (EmulatorEnvironment) async throws -> Void
    ) -> ConformanceRow {
        ConformanceRow(
            number: number,
            name: name,
            demand: demand,
            check: .trial { try await EmulatorEnvironment.with($0, clients: clients, body) }
        )
    }

    /// A row that does not apply.
    static func notApplicable(_ number: String, _ name: String, _ reason: String) -> ConformanceRow {
        ConformanceRow(number: number, name: name, demand: "", check: .notApplicable(reason))
    }

    /// A row in which a sign-in and a userinfo request must succeed.
    static func accepts(
        _ number: String,
        _ name: String,
        _ demand: String,
        fault: EmulatorFault? = nil,
        algorithm: SignatureAlgorithm = .es256,
        client: OIDCEmulator.Client = .demo,
        settings: @escaping @Sendable (inout ClientRegistration.Values) throws -> Void = { _ in }
    ) -> ConformanceRow {
        row(number, name, demand, clients: [client]) { environment in
            environment.emulator.fault = fault
            environment.emulator.signingAlgorithm = algorithm
            try await signsIn(environment, settings)
        }
    }

    /// Signs in and requests userinfo.
    static func signsIn(
        _ environment: EmulatorEnvironment,
        _ change: @Sendable (inout ClientRegistration.Values) throws -> Void = { _ in }
    ) async throws {
        var settings = try EmulatorEnvironment.registration()
        try change(&settings)
        let client = try environment.client(registration: settings)
        let signIn = try await client.signIn()
        try require(signIn.credential.identity?.subject == "248289761001", "Alice must be signed in.")
        _ = try await client.userInfo()
        try require(environment.emulator.requests.last == "GET /userinfo", "Userinfo must be requested.")
    }

    /// Checks that an operation fails with an error code.
    static func requireError(_ code: AuthError.Code, _ body: () async throws -> Void) async throws {
        do {
            try await body()
        } catch let error as AuthError {
            return try require(error.code == code, "The error code must be \(code.rawValue): \(error)")
        }
        throw Failure(description: "The operation must fail.")
    }

    /// A row in which a sign-in must be rejected. After the manipulated message, the client may only revoke tokens, so
    /// a later request to any endpoint except the revocation endpoint fails the row.
    static func refuses(
        _ number: String,
        _ name: String,
        _ demand: String,
        fault: EmulatorFault,
        algorithm: SignatureAlgorithm = .es256,
        code: AuthError.Code = .invalidIDToken,
        last: String = "POST /token",
        client: OIDCEmulator.Client = .demo,
        settings: @escaping @Sendable (inout ClientRegistration.Values) throws -> Void = { _ in }
    ) -> ConformanceRow {
        row(number, name, demand, clients: [client]) { environment in
            environment.emulator.fault = fault
            environment.emulator.signingAlgorithm = algorithm
            var own = try EmulatorEnvironment.registration()
            try settings(&own)
            let client = try environment.client(registration: own)
            do {
                _ = try await client.signIn()
            } catch let error as AuthError {
                try require(error.code == code, "The error code must be \(code.rawValue), not \(error.code.rawValue).")
                let heard = environment.emulator.requests.last { $0 != "POST /revoke" } ?? "nothing"
                try require(heard == last, "The provider's last request must be \(last), not \(heard).")
                try require(try await client.credential() == nil, "The credential must not be stored.")
                return
            }
            throw Failure(description: "The sign-in must be rejected.")
        }
    }
}
