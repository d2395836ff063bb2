package import AuthFlow
import AuthFlowEssentials
package import AuthFlowServer
package import AuthFlowSimulation

extension SimulatedProvider {
    /// One process of the web application that is the provider's client.
    package func application(
        at process: Simulation.Process,
        _ host: HostServices,
        _ records: SimulatedRecords,
        options: SessionServerOptions = SessionServerOptions(origin: Browser.origin)
    ) throws -> SessionServer {
        var values = ClientRegistration.Values(clientID: "client")
        values.authentication = .clientSecretPost(Secret("a secret of the application"))
        values.redirectURIs = [try RedirectURI("\(Browser.origin)/callback")]
        values.scopes = ["openid", "offline_access"]
        let server = AuthorizationServer(Adapter(), transport: Transport(self, process), host: host)
        return try SessionServer(
            client: OAuthClient(server: server, registration: try ClientRegistration(values)),
            store: records.store(of: process, host: host),
            options: options,
            observer: { [world] event in world.note("event: \(event)") }
        )
    }
}
