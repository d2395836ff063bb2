public import AuthFlowEssentials
import AuthFlowJSON

/// Something that happened during a flow: the one stream that progress, logs, traces and tests read.
///
/// Nothing in it is secret but ``url``, which is for the user who signs in and no one else.
public struct FlowEvent: Sendable {
    /// A step of a flow, as an open set: user agents and adapters may add their own.
    public struct Step: RawRepresentable, Sendable, Hashable, CustomStringConvertible {
        // swift-format-ignore: AllPublicDeclarationsHaveDocumentation
        public let rawValue: String
        // swift-format-ignore: AllPublicDeclarationsHaveDocumentation
        public init(rawValue: String) { self.rawValue = rawValue }
        // swift-format-ignore: AllPublicDeclarationsHaveDocumentation
        public var description: String { rawValue }

        /// Finding the provider's endpoints.
        public static let discovery = Self(rawValue: "discovery")
        /// Choosing one of several sign-in methods.
        public static let flowChoice = Self(rawValue: "flow")
        /// Choosing one of several user agents.
        public static let userAgentChoice = Self(rawValue: "user agent")
        /// Building the authorization request.
        public static let authorizationRequest = Self(rawValue: "authorization request")
        /// Waiting for the redirect with the authorization response.
        public static let userAgentVisit = Self(rawValue: "user agent visit")
        /// One page or redirect that an agent without a window went through.
        public static let pageVisit = Self(rawValue: "page")
        /// Checking the redirect.
        public static let authorizationResponse = Self(rawValue: "authorization response")
        /// Asking for a code to sign in with on another screen.
        public static let deviceAuthorization = Self(rawValue: "device authorization")
        /// Waiting for the user to do that.
        public static let devicePolling = Self(rawValue: "device polling")
        /// Exchanging the code for tokens.
        public static let codeExchange = Self(rawValue: "code exchange")
        /// Exchanging a token for others.
        public static let tokenExchange = Self(rawValue: "token exchange")
        /// Checking the ID Token.
        public static let idTokenValidation = Self(rawValue: "ID Token validation")
        /// Finding out who signed in.
        public static let identity = Self(rawValue: "identity")
        /// Obtaining an access token without a user.
        public static let grantWithoutUser = Self(rawValue: "grant without a user")
        /// Exchanging the refresh token for new tokens.
        public static let refresh = Self(rawValue: "refresh")
        /// The provider has ended the session.
        public static let sessionEnd = Self(rawValue: "session end")
        /// Revoking tokens at the provider.
        public static let revocation = Self(rawValue: "revocation")
        /// Signing the user out at the provider.
        public static let endSession = Self(rawValue: "end session")
        /// Sharing a sign-in with the other apps of a group.
        public static let sharing = Self(rawValue: "sharing")
        /// Writing the credential to the store.
        public static let storing = Self(rawValue: "storing")
    }

    /// How far the step has come.
    public enum Progress: Sendable, Hashable {
        /// It has begun.
        case began
        /// It is done.
        case succeeded
        /// It has failed, with this code; nil for an error of another kind, such as one of a store of the app's own.
        case failed(AuthError.Code?)
        /// Its task was cancelled.
        case cancelled
        /// Something worth knowing happened within it.
        case note
    }

    /// Names the flow: random, the same on all of its events.
    public let flowID: String

    /// The step.
    public let step: Step

    /// How far it has come.
    public let progress: Progress

    /// When, by the wall clock.
    public let time: Date

    /// More, by name. Never secret.
    public let details: [String: String]

    /// The address to open, on the event that asks the user to. It carries `state` and `nonce`: show it to the user,
    /// and keep it out of logs. ``description`` leaves its values out.
    public let url: String?
}

extension FlowEvent: CustomStringConvertible, WithoutReflection {
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
    /// What is known of the flow; nil without an observer; no event is made then.
    private let published: (flowID: String, now: @Sendable () -> Date, observer: @Sendable (FlowEvent) -> Void)?

    /// Creates a reporter.
    /// - Parameters:
    ///   - host: Gives the flow its ID and the events their time.
    ///   - observer: Receives every event, at once and in order; default: none does.
    public init(host: HostServices = .system, observer: (@Sendable (FlowEvent) -> Void)? = nil) {
        self.published = observer.map { (Base64URL.encode(host.randomBytes(6)), host.now, $0) }
    }

    /// Publishes one event.
    /// - Parameters:
    ///   - step: The step it belongs to.
    ///   - progress: How far the step has come.
    ///   - details: More, by name. Never secret.
    ///   - url: An address that the user is asked to open.
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

    /// Publishes that a check was passed.
    /// - Parameters:
    ///   - step: The step it belongs to.
    ///   - check: What was checked, such as the name of a claim.
    ///   - clause: Which clause of which specification asks for it.
    public func passed(_ step: FlowEvent.Step, _ check: String, _ clause: String) {
        report(step, details: ["check": check, "clause": clause])
    }

    /// Runs a step and publishes its beginning and its end.
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
            report(step, error is CancellationError ? .cancelled : .failed((error as? AuthError)?.code))
            throw error
        }
    }
}
