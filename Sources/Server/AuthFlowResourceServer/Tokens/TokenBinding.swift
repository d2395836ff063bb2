import AuthFlowHTTP
import AuthFlowJSON
import Crypto

/// The required binding of tokens to their client.
public enum RequiredBinding: Sendable, Hashable {
    /// The binding with which each token was issued. Bearer tokens are also accepted.
    case asIssued
    /// A binding to a DPoP key (RFC 9449).
    case dpop
    /// A binding to a client certificate (RFC 8705).
    case certificate
    /// A binding to a DPoP key or a client certificate.
    case dpopOrCertificate
}

/// The binding of a token (`cnf`, RFC 7800).
struct TokenBinding {
    /// `jkt`: the thumbprint of a DPoP key (RFC 9449 section 6.1).
    let key: String?
    /// `x5t#S256`: the thumbprint of a certificate (RFC 8705 section 3.1).
    let certificate: String?

    /// - Throws: ``TokenFailure/invalid(_:)`` for an unsupported binding: ignoring it would downgrade the token to a
    ///   bearer token.
    init(_ claims: JSON) throws(TokenFailure) {
        // Some servers send null instead of omitting a claim or a member.
        guard let confirmation = claims["cnf"], confirmation != .null else {
            (self.key, self.certificate) = (nil, nil)
            return
        }
        let key = confirmation["jkt"]?.string
        let certificate = confirmation["x5t#S256"]?.string
        let count = (confirmation.object ?? [:]).count { $0.value != .null }
        guard count > 0, count == (key == nil ? 0 : 1) + (certificate == nil ? 0 : 1) else {
            throw .invalid("its confirmation method (cnf) is not supported")
        }
        (self.key, self.certificate) = (key, certificate)
    }

    func check(scheme: PresentedToken.Scheme, demand: RequiredBinding) throws(TokenFailure) {
        // RFC 9449 section 7.2: "a protected resource that supports only [RFC6750] and is unaware of DPoP would most
        // presumably accept a DPoP-bound access token as a bearer token". This resource server does not.
        if key != nil, scheme != .dpop { throw .invalid("it is DPoP-bound, but was sent with the Bearer scheme") }
        if key == nil, scheme == .dpop {
            throw .invalid("it was sent with the DPoP scheme, but is not DPoP-bound (jkt)")
        }
        switch demand {
        case .asIssued: return
        case .dpop where key != nil: return
        case .certificate where certificate != nil: return
        case .dpopOrCertificate where key != nil || certificate != nil: return
        default: throw .invalid("it is not sender-constrained by the method that this API requires (cnf)")
        }
    }

    /// RFC 8705 section 3: "If they do not match, the resource access attempt MUST be rejected with an error ... using an HTTP 401 status code and the
    /// "invalid_token" error code."
    static func check(_ certificate: [UInt8]?, thumbprint: String) throws(TokenFailure) {
        guard let certificate else {
            throw .invalid("it is certificate-bound, but the client did not present a certificate")
        }
        guard Base64URL.encode(SHA256.hash(data: certificate)).isIdentical(to: thumbprint) else {
            throw .invalid("it is bound to a different certificate (x5t#S256)")
        }
    }
}
