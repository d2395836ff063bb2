import AuthFlowHTTP
import AuthFlowJSON
import Crypto

/// How tokens have to be bound to their client.
public enum RequiredBinding: Sendable, Hashable {
    /// As the token says: a bearer token is accepted.
    case any
    /// To a DPoP key (RFC 9449).
    case dpop
    /// To a certificate (RFC 8705).
    case certificate
    /// To one of the two.
    case anyKey
}

/// What a token is bound to (`cnf`, RFC 7800).
struct TokenBinding {
    /// `jkt`: the thumbprint of a DPoP key (RFC 9449 section 6.1).
    let key: String?
    /// `x5t#S256`: the thumbprint of a certificate (RFC 8705 section 3.1).
    let certificate: String?

    /// - Throws: ``TokenFailure/invalid(_:)`` for a binding that cannot be checked here: to ignore it would make a bearer token of it.
    init(_ claims: JSON) throws(TokenFailure) {
        guard let confirmation = claims["cnf"] else {
            (self.key, self.certificate) = (nil, nil)
            return
        }
        let key = confirmation["jkt"]?.string
        let certificate = confirmation["x5t#S256"]?.string
        let count = confirmation.object?.count ?? 0
        guard count > 0, count == (key == nil ? 0 : 1) + (certificate == nil ? 0 : 1) else {
            throw .invalid("it is bound in a way that cannot be checked here (cnf)")
        }
        (self.key, self.certificate) = (key, certificate)
    }

    func check(scheme: PresentedToken.Scheme, demand: RequiredBinding) throws(TokenFailure) {
        // RFC 9449 section 7.2: "a protected resource that supports only [RFC6750] and is unaware of DPoP would presumably accept a
        // DPoP-bound access token as a bearer token"; this one does not.
        if key != nil, scheme != .dpop { throw .invalid("it is bound to a DPoP key, and came with the scheme Bearer") }
        if key == nil, scheme == .dpop { throw .invalid("it came with the scheme DPoP, and is bound to no key (jkt)") }
        switch demand {
        case .any: return
        case .dpop where key != nil: return
        case .certificate where certificate != nil: return
        case .anyKey where key != nil || certificate != nil: return
        default: throw .invalid("it is not bound to its client, which this API demands")
        }
    }

    /// RFC 8705 section 3: "If the hash values do not match, the resource server MUST reject the request with an HTTP 401 status code and the
    /// "invalid_token" error code."
    static func check(_ certificate: [UInt8]?, thumbprint: String) throws(TokenFailure) {
        guard let certificate else { throw .invalid("it is bound to a certificate, and the client has shown none") }
        guard Base64URL.encode(SHA256.hash(data: certificate)).isIdentical(to: thumbprint) else {
            throw .invalid("it is bound to another certificate (x5t#S256)")
        }
    }
}
