import AuthFlow
import AuthFlowEssentials

/// A page's requirement for the user's authentication: its context class and its age (step-up).
public struct AuthenticationRequirement: Sendable, Hashable {
    /// The accepted authentication context classes (`acr`), in order of preference; empty for any.
    public var acrValues: [String]

    /// The maximum age of the authentication, in whole seconds; nil for any. It is sent to the provider as `max_age`; an
    /// authentication within the last minute, or within the client's `clockLeeway` if that is longer, is always accepted, so that zero means
    /// "authenticate now".
    public var maximumAge: Duration?

    /// Creates a requirement.
    public init(acrValues: [String] = [], maximumAge: Duration? = nil) {
        self.acrValues = acrValues
        self.maximumAge = maximumAge
    }

    /// The lower limit of both the allowed clock skew and the age up to which an authentication is always considered recent.
    private static let minimumLeeway = Duration.seconds(60)

    /// Whether an authentication meets the requirement.
    /// - Parameter clockLeeway: The allowed clock skew between this machine and the provider.
    func isMet(by authentication: UserAuthentication?, at now: Date, clockLeeway: Duration) -> Bool {
        if !acrValues.isEmpty {
            // OIDC Core section 2: "The acr value is a case-sensitive string."
            guard let given = authentication?.contextClass,
                acrValues.contains(where: { $0.utf8.elementsEqual(given.utf8) })
            else { return false }
        }
        guard let maximumAge else { return true }
        guard let time = authentication?.time else { return false }
        let age = now.timeIntervalSince(time)
        let leeway = max(clockLeeway, Self.minimumLeeway)
        return age >= -leeway.seconds && age <= max(maximumAge, leeway).seconds
    }
}
