public import AuthFlow

#if canImport(FoundationNetworking)
import Foundation
public import FoundationNetworking
#else
public import Foundation
#endif

extension AuthClient {
    /// Adds a fresh access token to a request, for programs that send requests with `URLSession`:
    /// the `Authorization` header field, and a DPoP proof if the tokens are DPoP-bound (RFC 9449).
    ///
    /// A response with status 401 may mean that the token was revoked: call ``/AuthFlow/AuthClient/refresh()`` and this method
    /// again. ``/AuthFlow/AuthClient/send(_:)`` does both automatically. Each call of `refresh()` requests new tokens: if several requests are
    /// rejected at the same time, ``/AuthFlow/AuthClient/perform(_:)`` requests new tokens only once. `URLSession` follows redirects and may send
    /// the token with them, so reject redirects in its delegate. A background session does not ask its delegate, but always follows redirects: use it
    /// only for URLs that do not redirect, and request the token with ``/AuthFlow/AuthClient/freshCredential(lasting:)`` for the expected duration
    /// beforehand, because the system may send the request much later.
    ///
    /// For a WebSocket, whose URL has the scheme `wss`, call ``/AuthFlow/AuthClient/authorizationFields(method:url:)`` with `GET` and the corresponding
    /// https URL, and add the fields to the request.
    /// - Parameter request: The request, to an origin of ``/AuthFlow/AuthClient/Options/apiOrigins``.
    /// - Throws: ``/AuthFlow/AuthError`` with `invalid_configuration` when the token must not be sent there; any error that `freshTokens` throws.
    public func authorize(_ request: inout URLRequest) async throws {
        // RFC 9110 section 7.1: the target of a request "excludes the reference's fragment component". `URLSession` does not send it.
        let url = (request.url?.absoluteString ?? "").prefix { $0 != "#" }
        let fields = try await authorizationFields(
            method: HTTPRequest.Method(rawValue: request.httpMethod ?? "GET") ?? .get,
            url: String(url)
        )
        for field in fields { request.setValue(field.value, forHTTPHeaderField: field.name.rawName) }
    }
}
