import AuthFlow
import AuthFlowOIDC
import AuthFlowPostgreSQL
import AuthFlowServer

print(SessionServerOptions(origin: "https://app.example.com").origin, PostgreSQLTokenStore.self)
