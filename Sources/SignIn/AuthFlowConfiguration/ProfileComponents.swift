/// The components that a program lists, and that the profiles of a file select by name.
package struct ProfileComponents: Sendable {
    let providers: [ProviderFactory]
    let userAgents: [UserAgentFactory]
    let stores: [TokenStoreFactory]
    let assertions: [AssertionSourceFactory]

    /// Creates the components; default: none, except for the standard stores and the standard sources of assertions.
    package init(
        providers: [ProviderFactory] = [],
        userAgents: [UserAgentFactory] = [],
        stores: [TokenStoreFactory] = TokenStoreFactory.standard,
        assertions: [AssertionSourceFactory] = AssertionSourceFactory.standard
    ) {
        (self.providers, self.userAgents, self.stores, self.assertions) = (providers, userAgents, stores, assertions)
    }
}
