import AuthFlowIssuer

print(AuthorizationServer(issuer: "https://id.example.com").issuer)
