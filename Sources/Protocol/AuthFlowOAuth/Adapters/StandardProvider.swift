import AuthFlowIssuer

/// A provider without deviations from the standards, whose metadata comes from a source that is not an adapter.
struct StandardProvider: ProviderAdapter {
    let source: any MetadataSource

    var issuer: String { source.issuer }

    func metadata(in context: ServerContext) async throws -> ProviderMetadata { try await source.metadata(in: context) }
}
