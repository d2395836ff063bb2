/// The source of an issuer's metadata: discovery, or fixed values. Adapters are sources, too.
public protocol MetadataSource: Sendable {
    /// The issuer in the metadata, compared code point by code point. Stored credentials are bound to it.
    var issuer: String { get }

    /// Returns the provider's endpoints and capabilities, either discovered
    /// (``ServerContext/discover(at:order:tokenIssuer:advice:)``) or fixed.
    ///
    /// Called once for all waiting callers, and again when the discovered document expires. If it throws, the previous
    /// metadata, if any, is used.
    func metadata(in context: ServerContext) async throws -> ProviderMetadata
}
