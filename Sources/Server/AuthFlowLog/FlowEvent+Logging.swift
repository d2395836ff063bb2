public import AuthFlow
public import Logging

extension FlowEvent {
    /// An observer that logs every event with swift-log, for services that perform sign-ins.
    ///
    /// The messages contain no secrets: URLs are logged without their parameter values. The metadata of a failure
    /// contains the key `action` if an action is recommended to the operator.
    ///
    /// ```swift
    /// let log = Logger(label: "auth")
    /// let client = try AuthClient(
    ///     profile: profile,
    ///     providers: [.oidc],
    ///     userAgents: [.loopback],
    ///     observer: FlowEvent.logger(log)
    /// )
    /// ```
    /// - Parameter logger: The logger. Failures are logged as warnings, the end of a session as a notice, cancellations as info,
    ///   and everything else as debug.
    public static func logger(_ logger: Logger) -> @Sendable (FlowEvent) -> Void {
        { event in
            var metadata: Logger.Metadata = ["flow": "\(event.flowID)", "step": "\(event.step)"]
            for (name, value) in event.details { metadata[name] = "\(DisplayText.sanitized(value))" }
            if case .failed(let code?) = event.progress, let action = code.operatorAction {
                metadata["action"] = "\(action)"
            }
            logger.log(level: event.level, "\(event)", metadata: metadata)
        }
    }

    private var level: Logger.Level {
        switch progress {
        case .cancelled: .info
        case .failed: .warning
        default: step == .sessionEnd ? .notice : .debug
        }
    }
}
