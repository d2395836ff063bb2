import AuthFlowHTTP
import AuthFlowJSON

/// An authorization request's requirements for the user and the user's authentication, which the ID Token must meet.
///
/// It is parsed from the request as sent, so that every requirement is checked, whether it comes from the
/// configuration, the app or an adapter.
struct AuthenticationRequirements: Sendable, Hashable {
    /// `max_age`, in seconds: the maximum time since the user's authentication; infinite when only `auth_time` was requested.
    var maximumAge: Double?

    /// The `acr` values, one of which the ID Token must contain: empty when any value is accepted, nil when the claim
    /// was not requested as essential.
    var essentialACRValues: [String]?

    /// The requested values of `sub`, one of which the ID Token must contain; nil when no specific user was requested.
    var subjects: [String]?

    init() {}

    /// Parses a request.
    /// - Throws: ``AuthError`` with `invalid_configuration` when a requirement cannot be parsed, and so cannot be checked.
    init(_ parameters: FormParameters) throws(AuthError) {
        if let claims = parameters["claims"] {
            // OIDC Core section 5.5.
            let json: JSON
            do throws(JSONError) {
                json = try JSON(parsing: Array(claims.utf8))
            } catch {
                throw AuthError(
                    .invalidConfiguration,
                    "The \"claims\" parameter is not JSON (OpenID Connect Core section 5.5): \(error).",
                    underlyingError: error
                )
            }
            if let acr = json["id_token"]?["acr"], try Self.isEssential(acr) {
                // Section 5.5.1: "value" or "values".
                let values = acr["values"] ?? acr["value"].map { .array([$0]) }
                self.essentialACRValues = values?.strings ?? []
                guard values == nil || values?.strings?.isEmpty == false else {
                    throw Self.malformedClaims("the values of acr must be strings")
                }
            }
            if let time = json["id_token"]?["auth_time"], try Self.isEssential(time) { self.maximumAge = .infinity }
            // Section 5.3.2: the userinfo response has the same `sub` as the ID Token.
            for member in ["id_token", "userinfo"] {
                guard let subject = json[member]?["sub"],
                    let requested = subject["values"] ?? subject["value"].map({ .array([$0]) })
                else { continue }
                guard let values = requested.strings, !values.isEmpty else {
                    throw Self.malformedClaims("the values of sub must be strings")
                }
                self.subjects = subjects.map { $0.filter(values.containsIdentical) } ?? values
            }
        }
        if let text = parameters["max_age"] {
            guard let seconds = UInt32(text) else {
                throw AuthError(.invalidConfiguration, "The \"max_age\" parameter is not a whole number of seconds.")
            }
            self.maximumAge = Double(seconds)
        }
    }

    private static func isEssential(_ claim: JSON) throws(AuthError) -> Bool {
        guard let essential = claim["essential"] else { return false }
        guard let isEssential = essential.bool else { throw malformedClaims("essential must be true or false") }
        return isEssential
    }

    private static func malformedClaims(_ reason: String) -> AuthError {
        AuthError(
            .invalidConfiguration,
            "The \"claims\" parameter is malformed (OpenID Connect Core section 5.5.1): \(reason)."
        )
    }
}
