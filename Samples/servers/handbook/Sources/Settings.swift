import AuthFlowOIDC
import AuthFlowPostgreSQL
import AuthFlowServerConfiguration
import AuthFlowSwiftConfiguration
import Configuration

func serverFromTheEnvironment() async throws -> SessionServer {
    let reader = ConfigReader(provider: EnvironmentVariablesProvider()).scoped(to: "auth")
    let file = try await ConfigurationFile(
        reader: reader,
        profiles: ["staff"],
        providers: [.oidc],
        stores: [.memory, .postgreSQL],
        server: SessionServer.configurationKeys
    )
    return try SessionServer(configuration: file, providers: [.oidc], stores: [.memory, .postgreSQL])
}
