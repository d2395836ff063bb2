import AuthFlow
import AuthFlowEssentials

/// A page's requirement for the user's authentication: its context class and its age (step-up).
public struct AuthenticationRequirement: Sendable, Hashable {
    /// The accepted authentication context classes (`acr`), in order of preference; empty for any.
    public var acrValues: [String]

    /// The maximum age of the authentication, in whole seconds; nil for any. It is sent to the provider as `max_age`; an
    /// authentication within the last minute is always accepted, so that zero means "authenticate now".
    public var maximumAge: Duration?

    /// Creates a requirement.
    public init(acrValues: [String] = [], maximumAge: Duration? = nil) {
        self.acrValues = acrValues
        self.maximumAge = maximumAge
    }

    /// The allowed clock skew, and the age up to which an authentication is always considered recent, in seconds.
    private static let leeway: TimeInterval = 60

    /// Whether an authentication meets the requirement.
    func isMet(by authentication: UserAuthentication?, at now: Date) -> Bool {
        if !acrValues.isEmpty {
            // OIDC Core section 2: "The acr value is a case-sensitive string."
            guard let given = authentication?.contextClass,
                acrValues.contains(where: { $0.utf8.elementsEqual(given.utf8) })
            else { return false }
        }
        guard let maximumAge else { return true }
        guard let time = authentication?.time else { return false }
        let age = now.timeIntervalSince(time)
        return age >= -Self.leeway && age <= max(maximumAge.seconds, Self.leeway)
    }
}
