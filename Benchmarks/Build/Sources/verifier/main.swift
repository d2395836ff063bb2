import AuthFlowOAuth

print(AuthorizationServer(issuer: "https://id.example.com").issuer)
