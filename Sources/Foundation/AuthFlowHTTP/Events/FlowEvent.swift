public import AuthFlowEssentials
import AuthFlowJSON

/// An event of a flow. Progress displays, logs, traces and tests all read the same stream of events.
///
/// It contains no secrets except in ``url``, which only the user who is signing in may see.
public struct FlowEvent: Sendable {
    /// A step of a flow, from an extensible set: user agents and adapters may add their own.
    public struct Step: RawRepresentable, Sendable, Hashable, CustomStringConvertible {
        public let rawValue: String
        public init(rawValue: String) { self.rawValue = rawValue }
        public var description: String { rawValue }

        /// Discovering the provider's endpoints.
        public static let discovery = Self(rawValue: "discovery")
        /// Choosing one of several sign-in methods.
        public static let flowChoice = Self(rawValue: "flow")
        /// Choosing one of several user agents.
        public static let userAgentChoice = Self(rawValue: "user agent")
        /// Building the authorization request.
        public static let authorizationRequest = Self(rawValue: "authorization request")
        /// Waiting for the redirect with the authorization response.
        public static let userAgentVisit = Self(rawValue: "user agent visit")
        /// One page that a headless user agent loaded, or one redirect that it followed.
        public static let pageLoad = Self(rawValue: "page")
        /// Checking the redirect.
        public static let authorizationResponse = Self(rawValue: "authorization response")
        /// Requesting a user code for the device flow (RFC 8628).
        public static let deviceAuthorization = Self(rawValue: "device authorization")
        /// Polling until the user has signed in on another device.
        public static let devicePolling = Self(rawValue: "device polling")
        /// Exchanging the code for tokens.
        public static let codeExchange = Self(rawValue: "code exchange")
        /// Exchanging a token for other tokens.
        public static let tokenExchange = Self(rawValue: "token exchange")
        /// Checking the ID Token.
        public static let idTokenValidation = Self(rawValue: "ID Token validation")
        /// Identifying the user.
        public static let identity = Self(rawValue: "identity")
        /// Obtaining an access token without a user, with client credentials or a JWT bearer assertion.
        public static let machineToMachineGrant = Self(rawValue: "grant without a user")
        /// Exchanging the refresh token for new tokens.
        public static let refresh = Self(rawValue: "refresh")
        /// The provider has ended the session.
        public static let sessionEnd = Self(rawValue: "session end")
        /// Revoking tokens at the provider.
        public static let revocation = Self(rawValue: "revocation")
        /// Signing the user out at the provider or, in a web application, ending the user's sessions.
        public static let endSession = Self(rawValue: "end session")
        /// Sharing a sign-in with the other apps of a group.
        public static let sharing = Self(rawValue: "sharing")
        /// Forwarding a request to an API with the access token of its session.
        public static let forwarding = Self(rawValue: "forwarding")
        /// Writing the credential to the store.
        public static let storing = Self(rawValue: "storing")
    }

    /// The progress of a step.
    public enum Progress: Sendable, Hashable {
        /// The step has started.
        case began
        /// The step has succeeded.
        case succeeded
        /// The step has failed with this error code; nil for an error without a code, such as an error from a custom
        /// store.
        case failed(AuthError.Code?)
        /// The step's task was cancelled.
        case cancelled
        /// A notable event occurred during the step.
        case note
    }

    /// The flow ID: random, and the same for all events of the flow.
    public let flowID: String

    /// The step.
    public let step: Step

    /// The progress of the step.
    public let progress: Progress

    /// The wall-clock time of the event.
    public let time: Date

    /// Further details by name. They never contain secrets.
    public let details: [String: String]

    /// The URL that this event asks the user to open; nil for other events. It contains `state` and `nonce`: display it
    /// to the user, but do not log it. ``description`` omits its parameter values.
    public let url: String?
}

extension FlowEvent: CustomStringConvertible, NonReflectable {
    /// One line for a log.
    public var description: String {
        let outcome =
            switch progress {
            case .began: "began"
            case .succeeded: "succeeded"
            case .failed(let code): "failed (\(code?.rawValue ?? "unknown error"))"
            case .cancelled: "cancelled"
            case .note: "note"
            }
        let more = details.sorted { $0.key < $1.key }.map { " \($0.key)=\(DisplayText.sanitized($0.value))" }.joined()
        return "[\(flowID)] \(step) \(outcome)\(more)\(url.map { " url=\(Redaction.url($0))" } ?? "")"
    }
}

/// Publishes the events of one flow.
public struct FlowReporter: Sendable {
    /// The flow ID, the clock and the observer; nil without an observer, in which case no events are created.
    private let published: (flowID: String, now: @Sendable () -> Date, observer: @Sendable (FlowEvent) -> Void)?

    /// Creates a reporter.
    /// - Parameters:
    ///   - host: The source of the flow ID and of the event times.
    ///   - observer: Receives every event, immediately and in order; default: no observer.
    public init(host: HostServices = .system, observer: (@Sendable (FlowEvent) -> Void)? = nil) {
        self.published = observer.map { (Base64URL.encode(host.randomBytes(6)), host.now, $0) }
    }

    /// Publishes one event.
    /// - Parameters:
    ///   - step: The step that the event belongs to.
    ///   - progress: The progress of the step.
    ///   - details: Further details by name. They must not contain secrets.
    ///   - url: A URL that the user is asked to open.
    public func report(
        _ step: FlowEvent.Step,
        _ progress: FlowEvent.Progress = .note,
        details: @autoclosure () -> [String: String] = [:],
        url: String? = nil
    ) {
        guard let (flowID, now, observer) = published else { return }
        observer(
            FlowEvent(flowID: flowID, step: step, progress: progress, time: now(), details: details(), url: url)
        )
    }

    /// Reports that a check has passed.
    /// - Parameters:
    ///   - step: The step that the check belongs to.
    ///   - check: The subject of the check, such as the name of a claim.
    ///   - clause: The clause of the specification that requires the check.
    package func passed(_ step: FlowEvent.Step, _ check: String, _ clause: String) {
        report(step, details: ["check": check, "clause": clause])
    }

    /// Runs a step and publishes its start and its outcome.
    package func step<Return>(
        _ step: FlowEvent.Step,
        details: @autoclosure () -> [String: String] = [:],
        _ body: () async throws -> Return
    ) async throws -> Return {
        report(step, .began, details: details())
        do {
            let result = try await body()
            report(step, .succeeded)
            return result
        } catch {
            report(step, failedWith: error)
            throw error
        }
    }

    /// Publishes the failure or cancellation of a step, with the provider's error code, if any, and the message, if operators may
    /// read it.
    package func report(_ step: FlowEvent.Step, failedWith error: any Error, details: [String: String] = [:]) {
        guard !(error is CancellationError) else { return report(step, .cancelled, details: details) }
        let error = error as? AuthError
        var details = details
        details["error"] = error?.providerError?.publicCode
        if let error, error.code.hasPublicMessage { details["message"] = error.message }
        report(step, .failed(error?.code), details: details)
    }
}
