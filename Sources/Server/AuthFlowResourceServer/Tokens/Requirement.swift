import AuthFlowEssentials
import AuthFlowJSON

/// A route's requirement for the access token.
public struct Requirement: Sendable, Hashable, ExpressibleByArrayLiteral {
    /// The required scopes. The token must have all of them.
    public var scopes: [String]

    /// The accepted `acr` values, one of which the token must have; empty: any (RFC 9470).
    public var acrValues: [String]

    /// The maximum age of the user's authentication; nil: any (RFC 9470).
    public var maximumAge: Duration?

    /// Creates a requirement that any valid token meets.
    public init() { self.init(scopes: []) }

    /// Creates a requirement.
    /// - Parameters:
    ///   - scopes: The required scopes. The token must have all of them.
    ///   - acrValues: The accepted `acr` values, one of which the token must have; default: any.
    ///   - maximumAge: The maximum age of the user's authentication; default: any.
    public init(scopes: [String], acrValues: [String] = [], maximumAge: Duration? = nil) {
        self.scopes = scopes
        self.acrValues = acrValues
        self.maximumAge = maximumAge
    }

    public init(arrayLiteral scopes: String...) { self.init(scopes: scopes) }

    func check(
        _ token: AccessToken,
        now: Date,
        leeway: Double,
        steps: TokenReport.Recorder? = nil
    ) throws(TokenFailure) {
        if !acrValues.isEmpty || maximumAge != nil { steps?.begin(.authentication) }
        // RFC 9470 section 3: "insufficient_user_authentication: The authentication event associated with the access token presented with
        // the request does not meet the authentication requirements of the protected resource."
        if !acrValues.isEmpty {
            guard let acr = token.claims["acr"]?.string, acrValues.containsIdentical(acr) else {
                throw .insufficientAuthentication
            }
        }
        if let maximumAge {
            guard let time = token.claims["auth_time"]?.number,
                time >= now.timeIntervalSince1970 - leeway - maximumAge.seconds,
                // Without this check, a time in milliseconds would always count as recent.
                time <= now.timeIntervalSince1970 + leeway
            else { throw .insufficientAuthentication }
        }
        if !scopes.isEmpty { steps?.begin(.scopes) }
        // RFC 6750 section 3.1: "insufficient_scope: The request requires higher privileges than provided by the access token."
        guard token.scopes.isSuperset(of: scopes) else { throw .insufficientScope }
    }
}
