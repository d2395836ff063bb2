package import AuthFlowEssentials
public import AuthFlowHTTP
import AuthFlowJOSE
import AuthFlowJSON

/// A JWT in which an issuer identifies a workload or a user. A server exchanges it for an access token (RFC 7523
/// section 2.1), or accepts it as client authentication (section 2.2).
///
/// The server verifies its signature. The client reads the claims only to detect or explain a rejection.
public struct Assertion: Sendable, Hashable {
    /// The JWT.
    public let jwt: Secret

    /// The scopes of the assertion; nil when it specifies none, so the token request must specify them.
    public var scopes: [String]?

    /// The key to which the assertion is bound; nil for none.
    var key: DPoPKey?

    /// Creates an assertion.
    /// - Parameters:
    ///   - jwt: A signed JWT of at most 64 KiB.
    ///   - scopes: The scopes for which the assertion was issued; default: nil, for an assertion that specifies no scopes.
    /// - Throws: ``AuthError`` with `assertion_unusable` when `jwt` is not a signed JWT.
    public init(_ jwt: Secret, scopes: [String]? = nil) throws(AuthError) {
        do throws(AuthError) {
            _ = try JWS(jwt)
        } catch {
            throw AuthError(.assertionUnusable, "The assertion is not a signed JWT.", underlyingError: error)
        }
        self.jwt = jwt
        self.scopes = scopes
    }

    /// Parses the output of a platform or a program: a JWT, optionally surrounded by whitespace.
    package init(printed bytes: [UInt8], by source: String) throws(AuthError) {
        let text = String(decoding: bytes, as: UTF8.self).trimmingWhitespace()
        guard !text.isEmpty else { throw AuthError(.assertionUnusable, "The assertion from \(source) is empty.") }
        do throws(AuthError) {
            try self.init(Secret(text))
        } catch {
            throw AuthError(
                .assertionUnusable,
                "The assertion from \(source) is not a signed JWT, or is too large.",
                underlyingError: error.underlyingError
            )
        }
    }

    /// Checks for defects that would cause a server to reject the assertion.
    /// - Parameter source: The source of the assertion, for the message.
    /// - Throws: ``AuthError`` with `assertion_unusable`.
    package func check(audience: String, at time: Date, from source: String) throws(AuthError) {
        func rejection(_ problem: String) -> AuthError {
            AuthError(.assertionUnusable, "The assertion from \(source) \(problem)")
        }
        let claims = AssertionClaims(jwt)
        // RFC 7523 section 3: the assertion "MUST contain an exp (expiration time) claim", and "MUST contain an aud (audience) claim".
        guard let expiry = claims.expiry else { throw rejection("has no numeric expiration time (exp).") }
        guard expiry > time.timeIntervalSince1970 else {
            throw rejection("has expired. Request a new assertion shortly before use. It was \(claims).")
        }
        guard claims.audiences.contains(where: { $0.isIdentical(to: audience) }) else {
            throw rejection(
                "is for an audience other than \(DisplayText.sanitized(audience)). It was \(claims). Request an assertion for this audience, or configure the audience that the server expects."
            )
        }
    }
}

extension Assertion: CustomStringConvertible, NonReflectable {
    /// The issuer, subject, audience, signing key, algorithm and expiry.
    public var description: String { "an assertion \(AssertionClaims(jwt))" }
}

/// The unverified claims of a JWT, to detect or explain a rejection.
package struct AssertionClaims: CustomStringConvertible {
    let audiences: [String]
    package let expiry: Double?
    let subject: String?

    var algorithm: SignatureAlgorithm? { header?.algorithm }

    private let issuer: String?
    private let header: JWSHeader?

    package init(_ jwt: Secret) {
        let jws = try? JWS(jwt)
        let claims = jws?.payload
        self.header = jws?.header
        self.audiences = claims?["aud"]?.strings ?? claims?["aud"]?.string.map { [$0] } ?? []
        self.expiry = claims?["exp"]?.number
        self.issuer = claims?["iss"]?.string
        self.subject = claims?["sub"]?.string
    }

    package var description: String {
        func shown(_ text: String?) -> String { text.map { "\"\(DisplayText.sanitized($0))\"" } ?? "none" }
        var parts = ["issued by \(shown(issuer))", "for the subject \(shown(subject))"]
        parts.append("and the audience \(audiences.isEmpty ? "none" : audiences.map(shown).joined(separator: ", "))")
        if let header {
            let key = header.keyID.map { " by the key \(shown($0))" } ?? ""
            parts.append("signed\(key) with \(shown(header.algorithm.rawValue))")
        }
        // Within the range of an HTTP date, whose year has four digits (RFC 9110 section 5.6.7).
        if let expiry, 0...253_402_300_799 ~= expiry {
            parts.append("valid until \(HTTPDate.text(Date(secondsSince1970: expiry)))")
        }
        return parts.joined(separator: ", ").replacing(", and the", with: " and the")
    }
}
