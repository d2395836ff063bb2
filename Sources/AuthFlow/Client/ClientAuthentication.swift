import HTTPTypes

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

/// How a client authenticates at the token endpoint (RFC 6749 section 2.3, OIDC Core section 9).
public struct ClientAuthentication: Sendable, Hashable {
    /// The registered name of a method, as an open set.
    public struct Method: RawRepresentable, Sendable, Hashable {
        // swift-format-ignore: AllPublicDeclarationsHaveDocumentation
        public let rawValue: String
        // swift-format-ignore: AllPublicDeclarationsHaveDocumentation
        public init(rawValue: String) { self.rawValue = rawValue }

        /// No proof: a public client, protected by PKCE.
        public static let none = Self(rawValue: "none")
        /// The secret in an HTTP Basic header.
        public static let clientSecretBasic = Self(rawValue: "client_secret_basic")
        /// The secret in the request body.
        public static let clientSecretPost = Self(rawValue: "client_secret_post")
    }

    /// The method.
    public let method: Method

    /// The client's secret, for the methods that use one.
    let secret: Secret?

    /// No proof: a public client, which sends its `client_id` alone. Right for everything that runs on a user's device
    /// (RFC 8252 section 8.5: a secret that is shipped to many users is none).
    public static let none = ClientAuthentication(method: .none, secret: nil)

    /// The secret in an HTTP Basic header.
    public static func clientSecretBasic(_ secret: Secret) -> ClientAuthentication {
        ClientAuthentication(method: .clientSecretBasic, secret: secret)
    }

    /// The secret in the request body, for providers that do not read the header.
    public static func clientSecretPost(_ secret: Secret) -> ClientAuthentication {
        ClientAuthentication(method: .clientSecretPost, secret: secret)
    }

    /// Adds the proof to a request. RFC 6749 section 2.3: "The client MUST NOT use more than one authentication method
    /// in each request."
    func authenticate(_ request: inout ProviderRequest, clientID: String) {
        switch (method, secret) {
        case (.clientSecretBasic, let secret?):
            // RFC 6749 section 2.3.1: both are "encoded using the application/x-www-form-urlencoded encoding algorithm"
            // first. Skipping that works until one of them holds a colon, a percent sign or a plus. A space is sent as %20, which
            // also those understand who undo percent-encoding alone.
            let pair = [clientID, secret.exposed]
                .map { FormURLEncoding.encode($0).replacing("+", with: "%20") }.joined(separator: ":")
            request.headerFields[.authorization] = "Basic \(Data(pair.utf8).base64EncodedString())"
        case (.clientSecretPost, let secret?):
            request.protectedParameters["client_id"] = clientID
            request.protectedParameters["client_secret"] = secret.exposed
        default:
            request.protectedParameters["client_id"] = clientID
        }
    }
}
