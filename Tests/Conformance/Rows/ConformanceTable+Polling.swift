import AuthFlow
import AuthFlowTesting
import Foundation

extension ConformanceTable {
    /// The rows of the conformance suite's polling test, applied to the device grant (RFC 8628 section 3.5).
    static let polling: [ConformanceRow] = [
        .polls(
            "126",
            "respects the interval",
            "Never poll earlier than the interval (31 s) allows.",
            interval: 31,
            responses: [.error("authorization_pending"), .error("authorization_pending")]
        ) { trial in
            try trial.requireSignedIn()
            try ConformanceRow.require(trial.waits.count == 3, "Polling must continue until tokens are returned.")
            try ConformanceRow.require(
                trial.waits.allSatisfy { $0 >= 31 },
                "Every wait must be at least 31 s: \(trial.waits)."
            )
        },
        .polls(
            "127",
            "slow_down",
            "Increase the interval by five seconds for all later polls.",
            responses: [
                .slowDown(interval: nil), .error("authorization_pending"), .error("authorization_pending"),
                .slowDown(interval: nil), .error("authorization_pending"),
            ]
        ) { trial in
            try trial.requireSignedIn()
            let least: [Double] = [5, 10, 10, 10, 15, 15]
            try ConformanceRow.require(
                trial.waits.count == least.count && zip(trial.waits, least).allSatisfy { $0 >= $1 },
                "The polling intervals must be at least \(least): \(trial.waits)."
            )
        },
        .polls("128", "access_denied", "Stop polling.", responses: [.error("access_denied")]) { trial in
            try trial.requireStopped(.accessDenied)
        },
        .polls("129", "expired_token", "Stop polling.", responses: [.error("expired_token")]) { trial in
            try trial.requireStopped(.timedOut)
        },
        .polls("130", "invalid_request", "Stop polling.", responses: [.error("invalid_request")]) { trial in
            try trial.requireStopped(.providerRejected)
        },
        .polls("131", "no device_code", "Reject it.", fault: .deviceAuthorization(.member("device_code", nil))) {
            try $0.requireStopped(.invalidResponse, polls: 0)
        },
        .polls("131b", "no expires_in", "Reject it.", fault: .deviceAuthorization(.member("expires_in", nil))) {
            try $0.requireStopped(.invalidResponse, polls: 0)
        },
    ]
}

/// The result of a sign-in with the device grant.
struct PollingTrial: Sendable {
    let result: Result<SignIn, any Error>

    /// The wait before each poll, in seconds.
    let waits: [Double]

    func requireSignedIn() throws {
        guard case .success(let signIn) = result else { throw ConformanceRow.Failure(description: "\(result)") }
        try ConformanceRow.require(signIn.credential.identity?.subject == "248289761001", "Alice must be signed in.")
    }

    func requireStopped(_ code: AuthError.Code, polls: Int = 1) throws {
        guard case .failure(let error) = result else {
            throw ConformanceRow.Failure(description: "Polling must stop.")
        }
        try ConformanceRow.require(
            (error as? AuthError)?.code == code,
            "The code must be \(code.rawValue), not \(error)."
        )
        try ConformanceRow.require(waits.count == polls, "The client must poll \(polls) times, not \(waits.count).")
    }
}

extension ConformanceRow {
    /// A row in which the user approves the device grant immediately, and time advances only during the waits.
    static func polls(
        _ number: String,
        _ name: String,
        _ demand: String,
        interval: Double = 5,
        responses: [DevicePollResponse] = [],
        fault: EmulatorFault? = nil,
        _ check: @escaping @Sendable (PollingTrial) throws -> Void
    ) -> ConformanceRow {
        ConformanceRow(
            number: number,
            name: name,
            demand: demand,
            check: .trial { setting in
                let time = VirtualTime()
                try await EmulatorEnvironment.with(setting, now: { time.now }) { environment in
                    let emulator = environment.emulator
                    emulator.fault = fault
                    emulator.devicePollInterval = interval
                    emulator.devicePollResponses = responses
                    let settings = try EmulatorEnvironment.registration()
                    let client = try environment.client(
                        registration: settings,
                        devicePresenter: DecidingPresenter { emulator.decide($0.userCode, as: .alice) },
                        flows: [.device],
                        host: time.host
                    )
                    let result: Result<SignIn, any Error>
                    do {
                        result = .success(try await client.signIn())
                    } catch {
                        result = .failure(error)
                    }
                    let times = emulator.receivedRequests
                        .filter { ["/device_authorization", "/token"].contains($0.path) }.map(\.time)
                    let waits = zip(times.dropFirst(), times).map { $0.timeIntervalSince($1) }
                    try check(PollingTrial(result: result, waits: waits))
                }
            }
        )
    }
}
