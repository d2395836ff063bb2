public import AuthFlow

/// A provider where the users of an application sign in.
public struct SessionProvider: Sendable {
    /// The name of the provider in sessions and in the `provider` parameter of the sign-in route: 1 to 32 characters
    /// from `a` to `z`, `0` to `9` and `-`.
    public let name: String

    /// The name that users see when they choose a provider; default: the host of the issuer.
    public let displayName: String

    /// The application's client at the provider. Its first redirect URI must be on the application's origin, with a
    /// path that no other provider uses (RFC 9700 section 4.4.2.2: "a distinct redirect URI for each issuer").
    public let client: OAuthClient

    /// The remaining lifetime below which an access token is treated as expired.
    package var freshnessMargin = Duration.seconds(60)

    /// Creates a provider.
    /// - Parameters:
    ///   - name: The name.
    ///   - client: The client.
    ///   - displayName: The name that users see.
    public init(_ name: String, client: OAuthClient, displayName: String? = nil) {
        self.name = name
        self.client = client
        let host = (try? Endpoint(client.server.issuer))?.host
        self.displayName = displayName ?? host ?? name
    }

    static func isName(_ name: String) -> Bool {
        (1...32).contains(name.utf8.count)
            && name.utf8.allSatisfy {
                (UInt8(ascii: "a")...UInt8(ascii: "z")).contains($0) || $0.isDigit || $0 == UInt8(ascii: "-")
            }
    }
}
