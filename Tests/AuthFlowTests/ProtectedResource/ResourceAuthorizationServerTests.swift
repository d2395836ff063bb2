import AuthFlow
import AuthFlowJSON
import Testing

@testable import AuthFlowHTTP
@testable import AuthFlowResourceClient

/// The defense against mix-up attacks (RFC 9700 section 4.4) by servers that resources name.
@Suite struct ResourceAuthorizationServerTests {
    private static let issuer = "https://id.example"

    struct Server: CustomTestStringConvertible {
        let testDescription: String
        var authorizationEndpoint = "https://id.example/authorize"
        var redirectURI = "http://127.0.0.1/callback"
        var namesIssuer = false
        var isListed = false
        let isAccepted: Bool
    }

    private static let ownRedirectURI = "http://127.0.0.1/callback\(RedirectURI.mark(of: issuer))"

    @Test(arguments: [
        Server(testDescription: "a shared redirect URI", isAccepted: false),
        Server(testDescription: "a redirect URI for this server", redirectURI: ownRedirectURI, isAccepted: true),
        Server(
            testDescription: "an endpoint at another origin",
            authorizationEndpoint: "https://other.example/authorize",
            redirectURI: ownRedirectURI,
            isAccepted: false
        ),
        Server(
            testDescription: "responses that contain iss",
            authorizationEndpoint: "https://other.example/authorize",
            namesIssuer: true,
            isAccepted: true
        ),
        Server(
            testDescription: "a trusted issuer",
            authorizationEndpoint: "https://other.example/authorize",
            isListed: true,
            isAccepted: true
        ),
    ]) func aServerThatCannotBeDistinguishedFromAnotherIsRejected(_ test: Server) throws {
        let metadata = try ProviderMetadata([
            "issuer": .string(Self.issuer), "authorization_endpoint": .string(test.authorizationEndpoint),
            "token_endpoint": "https://id.example/token",
            "authorization_response_iss_parameter_supported": .bool(test.namesIssuer),
        ])
        let server = ResourceAuthorizationServer(issuer: Self.issuer, isAssumed: false, isListed: test.isListed)
        let result = Result { () throws(AuthError) in
            try server.requireMixUpDefense(metadata, redirectURI: test.redirectURI)
            if test.isListed { try server.requireOwnEndpoints(metadata) }
        }
        guard case .failure(let error) = result else {
            #expect(test.isAccepted)
            return
        }
        #expect(!test.isAccepted && error.code == .unsupported, "\(error)")
    }
}
