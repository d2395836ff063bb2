import AuthFlowResourceServer

print(
    try ResourceServer(
        "https://api.example.com",
        issuers: [TrustedIssuer(AuthorizationServer(issuer: "https://id.example.com"))]
    )
)
