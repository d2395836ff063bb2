import ArgumentParser
import AuthFlow
import AuthFlowEssentials
import AuthFlowSystem
import AuthFlowTerminal

struct CurlCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "curl",
        abstract: "Send a request to a protected resource with a fresh access token, and print the response.",
        discussion: """
            The token is restricted to the resource, is sent only in the Authorization header field, is not sent after a redirect, and does not appear in the process \
            list. With --profile and a URL at one of the profile's "api_origins", it is the profile's own token, unless you have signed in to that resource, or to one at a parent path, \
            with "authflow login --profile NAME URL". Exit status 4 means that a login is needed, and 1 that \
            the response has another status of 400 or above.
            """
    )

    @OptionGroup var resource: ResourceOptions

    @OptionGroup var scope: ScopeOptions

    @OptionGroup var options: ProfileOptions

    @Option(name: [.customShort("X"), .customLong("request")], help: "The method. Default: GET, or POST with data.")
    var method: String?

    @Option(
        name: [.customShort("H"), .customLong("header")],
        help: "A header field, as \"Name: value\"; may be given more than once."
    )
    var headers: [String] = []

    @Option(
        name: [.customShort("d"), .customLong("data")],
        help: "The body, @FILE to read it from a file, or @- to read it from standard input."
    )
    var data: String?

    @Option(help: "The resource for which to request the token, if the request URL is below the resource's URL.")
    var at: String?

    @Flag(name: [.customShort("i"), .customLong("include")], help: "Print the status and the header fields too.")
    var include = false

    @Flag(help: "Sign in when the resource requires it.")
    var signIn = false

    func validate() throws {
        guard resource.url != nil else { throw ValidationError("The URL is missing.") }
        try resource.check(options, scopes: scope.scopes)
    }

    func run() async throws {
        guard let choice = try resource.choice(options, scopes: scope.scopes) else { return }
        if signIn { UnfinishedClients.note(.signIn) }
        let target = try Endpoint(choice.address, name: "address")
        let sender = try await sender(choice, target)
        let response = try await sender.send(try await request(to: target))
        if include {
            Terminal.result("HTTP \(response.status)")
            for field in response.head.headerFields {
                Terminal.result("\(field.name.rawName): \(DisplayText.sanitized(field.value, limit: 1000))")
            }
            Terminal.result("")
        }
        Terminal.result(bytes: response.body)
        guard response.status < 400 else {
            let isRejection = response.status == 401
            let lacksScope = ResourceChallenge(response)?.demand == .scope
            let advice = isRejection || lacksScope ? " \(advice(for: response))" : ""
            throw AuthError(
                isRejection ? .accessTokenRejected : .invalidResponse,
                "\(Redaction.url(choice.address)) responded with status \(response.status).\(advice)",
                providerError: await sender.providerError(in: response),
                status: response.status
            )
        }
    }

    /// The advice to the user after an API has rejected a profile's token.
    private func advice(for response: TransportResponse) -> String {
        let command = SignInAdvice.command ?? "authflow login"
        guard let challenge = ResourceChallenge(response) else { return "Sign in again: \(command)" }
        guard challenge.demand == .authentication else {
            guard challenge.demand == .scope else { return "Sign in again: \(command)" }
            guard let scopes = challenge.scopes else { return "The API requires a scope that it does not name." }
            let shown = DisplayText.sanitized(scopes.joined(separator: " "), limit: 300)
            return
                "The API requires the scopes \"\(shown)\": add them to the profile's \"scopes\", and sign in again: \(command)"
        }
        let values = challenge.acrValues.prefix(8).map { DisplayText.sanitized($0, limit: 60) }.joined(separator: " ")
        let wanted = [
            values.isEmpty ? nil : "\"acr_values\": \"\(values)\"", challenge.maxAge.map { "\"max_age\": \"\($0)\"" },
        ].compactMap(\.self).joined(separator: ", ")
        let isShown = !wanted.isEmpty && (values.isEmpty || values == challenge.acrValues.joined(separator: " "))
        let actions = [
            signIn ? nil : "repeat the request with --sign-in\(isShown ? "" : ".")",
            isShown
                ? "set {\"authorization\": {\(wanted)}} in the profile's \"parameters\" and sign in again: \(command)"
                : nil,
        ].compactMap(\.self).joined(separator: ", or ")
        return "The API requires stronger or more recent authentication."
            + (actions.isEmpty ? "" : " \(actions.prefix(1).uppercased())\(actions.dropFirst())")
    }

    /// The client that adds the token to the request.
    private enum Sender {
        /// The profile's client, for an API whose origin the profile lists.
        case api(AuthClient, TerminalRedirects, signsIn: Bool)
        case resource(ResourceClient, TerminalRedirects)

        func send(_ request: TransportRequest) async throws -> TransportResponse {
            switch self {
            case .resource(let client, let redirects):
                return try await redirects.accepting(by: { client.resume(with: $0) }) {
                    try await client.send(request)
                }
            case .api(let client, let redirects, let signsIn):
                var response: TransportResponse?
                do {
                    response = try await client.send(request)
                } catch let error as AuthError where error.code == .loginRequired && signsIn {}
                if let response, response.status != 401 { return response }
                if let response, !signsIn { return response }
                var options = AuthorizationOptions()
                if !client.isWithoutUser, let challenge = response.flatMap(ResourceChallenge.init),
                    challenge.demand == .authentication
                {
                    options.acrValues = challenge.acrValues
                    options.maxAge = challenge.maxAge.map { .seconds($0) }
                }
                let signIn = try await redirects.accepting(for: client) { [options] in
                    try await client.signIn(options: options)
                }
                if let error = signIn.storageError, !(await client.storeUnsavedTokens(of: signIn)) { throw error }
                return try await client.send(request)
            }
        }

        func providerError(in response: TransportResponse) async -> ProviderError? {
            switch self {
            case .resource(let client, _):
                return await client.providerError(in: response)
            case .api(let client, _, _):
                let token = try? await client.credential()?.tokens.accessToken
                return response.providerError(redacting: [token].compactMap { $0 })
            }
        }
    }

    private func sender(_ choice: ResourceChoice, _ target: Endpoint) async throws -> Sender {
        var choice = choice
        if let at { choice.address = at }
        let redirects = TerminalRedirects()
        func resource(for client: AuthClient, of profile: Profile) throws -> ResourceClient {
            try choice.client(for: client, of: profile, signsInOnDemand: signIn, observer: redirects.observer)
        }
        guard let (file, profile) = try apiProfile(choice, target) else {
            return .resource(try choice.client(signsInOnDemand: signIn, observer: redirects.observer), redirects)
        }
        // The profile's client is created once, because obtaining its secret may require running a program.
        let client = try file.choice.client(in: file.content, observer: redirects.observer)
        // A profile that selects an account has no tokens for resources.
        guard client.options.account == nil else { return .api(client, redirects, signsIn: signIn) }
        // The profile lists this resource.
        if file.content.profileNames(for: choice.address).contains(profile.name) {
            return .resource(try resource(for: client, of: profile), redirects)
        }
        // The interpretation of such a path depends on the server: the path could identify any resource.
        guard !target.hasDotSegments else {
            throw AuthError(
                .invalidConfiguration,
                "The path has dot segments, whose meaning depends on the server. Send the URL without them."
            )
        }
        // A sign-in to a resource takes precedence, even if it has ended: a token with more access must not replace the resource's token.
        for address in try await Self.resources(of: client, at: target) {
            choice.address = address
            let resource = try resource(for: client, of: profile)
            guard try await resource.hasSignIn() else { continue }
            await resource.list()
            return .resource(resource, redirects)
        }
        SignInAdvice.choose(file.choice.arguments, signIn: [])
        return .api(client, redirects, signsIn: signIn)
    }

    /// The URLs of the resources that a request could target, most specific first.
    private static func resources(of client: AuthClient, at target: Endpoint) async throws -> [String] {
        let lists = KnownResources(store: client.credentials.store)
        // The list may be incomplete.
        let addresses = try await lists.addresses(registered: client.options.name) + parents(of: target)
        var known: Set<String> = []
        return addresses.compactMap { address -> (address: String, count: Int)? in
            guard known.insert(address).inserted, let endpoint = try? Endpoint(address), endpoint.mayCover(target)
            else { return nil }
            return (address, endpoint.possibleSegments.count)
        }.sorted { $0.count > $1.count }.map(\.address)
    }

    /// The URL itself, and the first parent paths.
    private static func parents(of target: Endpoint) -> [String] {
        // The URL as the user entered it, and its normalized form.
        let written = target.url.split(separator: "/", maxSplits: 3, omittingEmptySubsequences: false).prefix(3)
            .joined(separator: "/")
        var addresses = [target.url]
        for segments in [target.path.split(separator: "/").map(String.init), target.possibleSegments] {
            for count in 0...min(segments.count, 32) {
                let path = segments.prefix(count).map { "/\($0)" }.joined()
                // Metadata and users may specify a resource with or without the trailing slash.
                for origin in [written, target.origin] { addresses += ["\(origin)\(path)", "\(origin)\(path)/"] }
            }
        }
        return addresses
    }

    /// The profile and its file, if the profile lists the URL's origin in `api_origins`.
    private func apiProfile(
        _ choice: ResourceChoice,
        _ target: Endpoint
    ) throws -> (file: (content: ConfigurationFile, choice: ProfileChoice), profile: Profile)? {
        guard at == nil, choice.resource == nil, choice.scopes.isEmpty, !choice.assumesOrigin,
            let name = choice.choice.profile, let file = try ResourceChoice.file(choice.choice.config)
        else { return nil }
        let profile = try file.content.profile(name)
        guard try profile.apiOrigins().contains(where: { $0.origin == target.origin }) else { return nil }
        return ((file.content, choice.choice), profile)
    }

    /// The fields that the transport sets: RFC 9112 sections 3.2, 6.1 and 6.2, and RFC 9110 sections 7.6.1, 7.8 and 10.1.1.
    private static let ownFields: Set<String> = [
        "connection", "content-length", "expect", "host", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade",
    ]

    private func request(to target: Endpoint) async throws -> TransportRequest {
        var fields: HTTPFields = [:]
        for (index, header) in headers.enumerated() {
            guard let colon = header.firstIndex(of: ":"), let name = HTTPField.Name(String(header[..<colon])) else {
                // The argument may contain a secret, such as an API key, in any position.
                throw ValidationError(
                    "Header field \(index + 1) (-H) is not of the form \"Name: value\". It is not shown, because it may contain a secret."
                )
            }
            guard !Self.ownFields.contains(name.canonicalName) else {
                throw ValidationError("The header field \(name.rawName) cannot be set, because the transport sets it.")
            }
            let value = header[header.index(after: colon)...].trimmingWhitespace()
            // RFC 9110 section 5.5. `HTTPField` would replace such characters with spaces.
            guard HTTPField.isValidValue(value) else {
                throw ValidationError(
                    "The value of the header field \(name.rawName) contains a line break or another control character."
                )
            }
            fields.append(HTTPField(name: name, value: value))
        }
        let body = try await body()
        guard let method = HTTPRequest.Method(self.method ?? (body == nil ? "GET" : "POST")) else {
            throw ValidationError("\"\(self.method ?? "")\" is not an HTTP method.")
        }
        if body != nil, fields[.contentType] == nil { fields[.contentType] = "application/json" }
        return TransportRequest(
            method,
            target,
            headerFields: fields,
            body: body ?? [],
            timeout: .seconds(300),
            maximumResponseSize: 64 * 1024 * 1024
        )
    }

    private func body() async throws -> [UInt8]? {
        guard let data else { return nil }
        guard data.hasPrefix("@") else { return Array(data.utf8) }
        let (path, limit) = (String(data.dropFirst()), 64 * 1024 * 1024)
        // The file may be a pipe, such as <(command) in a shell.
        let contents = try await BlockingInput.read {
            path == "-"
                ? BoundedFile.contents(of: STDIN_FILENO, maximumSize: limit)
                : BoundedFile.contents(atPath: path, maximumSize: limit)
        }
        guard let contents else {
            throw AuthError(
                .invalidConfiguration,
                "\(path == "-" ? "Standard input" : path) cannot be read, or is larger than 64 MiB."
            )
        }
        return contents
    }
}
