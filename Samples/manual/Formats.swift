import AuthFlow
import AuthFlowTesting

// The listings about response formats from the article "Writing a provider adapter".

/// A provider whose token responses are form-encoded, but have the media type `text/plain`.
struct PlainTextProvider: ProviderAdapter, ResponseParsing {
    let issuer: String

    func metadata(in context: ServerContext) async throws -> ProviderMetadata { try await context.discover() }

    func parameters(of response: ProviderResponse) throws -> JSON {
        guard response.http.mediaType == "text/plain" else { return try response.parameters() }
        var http = response.http
        http.head.headerFields[.contentType] = "application/x-www-form-urlencoded"
        return try ProviderResponse(purpose: response.purpose, endpoint: response.endpoint, http: http).parameters()
    }
}

extension OIDCEmulator {
    /// Converts the token endpoint's JSON to the provider's format.
    func respondInPlainText() {
        self.customResponse = { exchange in
            var response = exchange.response
            guard exchange.request.path == "/token", let members = try? JSON(parsing: response.body).object else {
                return response
            }
            var form = FormParameters()
            for (name, value) in members { form.append(name, value.string ?? value.integer.map(String.init) ?? "") }
            response.head.headerFields[.contentType] = "text/plain"
            response.body = Array(FormURLEncoding.encodeQuery(form).utf8)
            return response
        }
    }
}

func conformsWithPlainText() async throws {
    try await EmulatorEnvironment.with(.inProcess) { environment in
        environment.emulator.respondInPlainText()
        let adapter = PlainTextProvider(issuer: environment.emulator.issuer)
        var registration = try EmulatorEnvironment.registration()
        registration.scopes = ["openid", "offline_access"]
        let tested = try environment.client(registration: registration, adapter: adapter)
        let other = try environment.client(registration: registration, adapter: adapter, user: .bob)
        try await ProviderConformance(adapter: adapter, client: tested, other: other).run()
    }
}
