public import AuthFlow

/// A request to an emulator, together with the standard response, for a test that emulates the endpoints and formats of one provider.
///
/// ```swift
/// extension OIDCEmulator {
///     /// Adds the forge's own API, which identifies an access token's user.
///     func addForge() {
///         self.customResponse = { exchange in
///             exchange.request.path == "/api/v4/user" ? exchange.userInfo() : exchange.response
///         }
///     }
/// }
/// ```
public struct EmulatedExchange: Sendable {
    /// The request.
    public let request: ReceivedRequest

    /// The emulator's standard response; status 404 for an unknown path.
    public let response: TransportResponse

    let address: String
    let emulator: OIDCEmulator

    /// The userinfo endpoint's response to this request, whatever its path: the claims of the access token's user, or an error.
    public func userInfo() -> TransportResponse { emulator.userInfo(request.request, address) }
}
