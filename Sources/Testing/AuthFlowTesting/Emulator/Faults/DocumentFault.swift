public import AuthFlow

/// A fault in a document that a provider serves, or in the HTTP response that contains it.
///
/// `Document` distinguishes the kinds of documents, so that each kind has its own faults.
public struct DocumentFault<Document>: Sendable {
    var members: EmulatorFault.Change = { _ in }
    var response: @Sendable (inout TransportResponse) -> Void = { _ in }

    /// The response that contains the document, with the fault applied.
    func applied(
        to document: [String: JSON],
        encoded encode: ([String: JSON]) -> TransportResponse = { .json(.object($0)) }
    ) -> TransportResponse {
        var document = document
        members(&document)
        var response = encode(document)
        response.head.headerFields[.cacheControl] = "no-store"
        self.response(&response)
        return response
    }

    /// Changes members of the document.
    public static func members(_ change: @escaping EmulatorFault.Change) -> Self { Self(members: change) }

    /// Sets a member to a different value, or removes it.
    public static func member(_ name: String, _ value: JSON?) -> Self { Self { $0[name] = value } }

    /// Changes the response.
    public static func response(_ change: @escaping @Sendable (inout TransportResponse) -> Void) -> Self {
        Self(response: change)
    }

    /// A redirect to another host (row O11).
    public static var redirected: Self {
        response {
            $0 = TransportResponse(
                head: HTTPResponse(status: .found, headerFields: [.location: "https://elsewhere.example.com/"])
            )
        }
    }

    /// A body of two megabytes (row O10).
    public static var oversized: Self { response { $0.body = Array(repeating: UInt8(ascii: " "), count: 2 << 20) } }

    /// Status 503.
    public static var unavailable: Self {
        response { $0 = TransportResponse(head: HTTPResponse(status: .serviceUnavailable)) }
    }

    /// An HTML page from an intermediary, with status 502.
    public static var brokenGateway: Self {
        response { $0 = .page("Bad gateway", "<p>The server does not respond.</p>", status: .badGateway) }
    }

    /// An empty body, with the status of a successful response.
    public static var empty: Self { response { $0.body = [] } }

    /// A `Content-Type` that does not match the body.
    public static func mediaType(_ type: String) -> Self { response { $0.head.headerFields[.contentType] = type } }

    /// An HTML page instead of JSON.
    public static var notJSON: Self { response { $0.body = Array("<html>".utf8) } }
}

/// A marker type for the metadata document.
public enum MetadataDocument: Sendable {}
/// A fault in the metadata document.
public typealias MetadataFault = DocumentFault<MetadataDocument>

extension DocumentFault<MetadataDocument> {
    /// An issuer that differs from the requested issuer (rows 17 and 88).
    public static var wrongIssuer: Self { Self { $0.append("INVALID", to: "issuer") } }
}

/// A marker type for the token endpoint's response.
public enum TokenResponseDocument: Sendable {}
/// A fault in the token endpoint's response.
public typealias TokenResponseFault = DocumentFault<TokenResponseDocument>

extension DocumentFault<TokenResponseDocument> {
    /// No `expires_in`, which is allowed (row 105).
    public static var missingExpiry: Self { member("expires_in", nil) }
    /// No `scope`, which is allowed (row 122).
    public static var missingScope: Self { member("scope", nil) }
    /// `token_type` in mixed case, which is allowed (row 106).
    public static var oddlyCasedTokenType: Self { member("token_type", "bEARER") }
    /// An unknown `token_type`.
    public static var unknownTokenType: Self { member("token_type", "mac") }
    /// No ID Token.
    public static var missingIDToken: Self { member("id_token", nil) }
    /// No access token.
    public static var missingAccessToken: Self { member("access_token", nil) }
}

/// A marker type for the device authorization endpoint's response.
public enum DeviceAuthorizationDocument: Sendable {}
/// A fault in the device authorization endpoint's response.
public typealias DeviceAuthorizationFault = DocumentFault<DeviceAuthorizationDocument>

/// A marker type for the userinfo endpoint's response.
public enum UserInfoDocument: Sendable {}
/// A fault in the userinfo endpoint's response. Members are changed before the response is signed.
public typealias UserInfoFault = DocumentFault<UserInfoDocument>

extension DocumentFault<UserInfoDocument> {
    /// Another user's `sub` (row 11).
    public static var wrongSubject: Self { Self { $0.append("invalid", to: "sub") } }
    /// No `sub`.
    public static var missingSubject: Self { member("sub", nil) }
    /// A different issuer, in a signed response.
    public static var wrongIssuer: Self { Self { $0.append("1", to: "iss") } }
    /// A different audience, in a signed response.
    public static var wrongAudience: Self { Self { $0.append("1", to: "aud") } }
    /// A signed response with an invalid signature.
    public static var badSignature: Self {
        response { response in
            let text = String(decoding: response.body, as: UTF8.self)
            response.body = Array(IDTokenFault.badSignature.text(text).utf8)
        }
    }
}
