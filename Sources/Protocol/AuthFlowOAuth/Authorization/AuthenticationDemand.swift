import AuthFlowHTTP
import AuthFlowJSON

/// The demands of an authorization request on the authentication itself, which the ID Token must then show.
///
/// It is read from the request as it is sent, so that a demand is checked wherever it comes from: the configuration, the
/// app or an adapter.
struct AuthenticationDemand: Sendable, Hashable {
    /// `max_age`, in seconds: how long ago the user may have signed in; infinite when only `auth_time` was asked for.
    var maximumAge: Double?

    /// The `acr` values of which one is essential: empty when any will do, nil when none was asked for.
    var essentialACRValues: [String]?

    init() {}

    /// Reads a request.
    /// - Throws: ``AuthError`` with `invalid_configuration` when a demand cannot be understood, and so not be checked.
    init(_ parameters: FormParameters) throws(AuthError) {
        if let claims = parameters["claims"] {
            // OIDC Core section 5.5.
            let json: JSON
            do throws(JSONError) {
                json = try JSON(parsing: Array(claims.utf8))
            } catch {
                throw AuthError(
                    .invalidConfiguration,
                    "The parameter \"claims\" is not JSON (OpenID Connect Core section 5.5): \(error).",
                    underlyingError: error
                )
            }
            let acr = json["id_token"]?["acr"]
            if acr?["essential"]?.bool == true {
                // Section 5.5.1: "value" or "values".
                self.essentialACRValues = acr?["values"]?.strings ?? acr?["value"]?.string.map { [$0] } ?? []
            }
            if json["id_token"]?["auth_time"]?["essential"]?.bool == true { self.maximumAge = .infinity }
        }
        if let text = parameters["max_age"] {
            guard let seconds = UInt32(text) else {
                throw AuthError(.invalidConfiguration, "The parameter \"max_age\" is not a whole number of seconds.")
            }
            self.maximumAge = Double(seconds)
        }
    }
}
