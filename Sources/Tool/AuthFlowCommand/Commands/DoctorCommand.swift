import ArgumentParser
import AuthFlow
import AuthFlowDesktop
import AuthFlowEssentials
import AuthFlowLoopback
import AuthFlowServerConfiguration
import AuthFlowSystem

struct DoctorCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "doctor",
        abstract: "Diagnose problems that would prevent a login: on this machine, in the profile, and at its provider.",
        discussion: "No user is signed in or out, and no secret is printed. Exits with 1 when a problem is found."
    )

    @OptionGroup var options: ProfileOptions

    @Flag(
        help:
            "Fix problems on this machine: a configuration file that other users can write to, and a URI scheme that no program handles."
    )
    var fix = false

    func run() async throws {
        var findings = Findings()
        if fix { fixPermissions(&findings) }
        let launchEnvironment = LaunchEnvironment.current()
        Self.examine(launchEnvironment, &findings)
        Self.examinePorts(&findings)
        do {
            try await examineProfile(launchEnvironment, &findings)
        } catch let error as ConfigurationError {
            for issue in error.issues { findings.bad("configuration", issue.description) }
        } catch let error as AuthError where error.code == .invalidConfiguration {
            findings.bad("configuration", error.description)
        }
        guard findings.areGood else {
            throw AuthError(.userAgentFailed, "A problem would prevent a login: see the lines marked with !!.")
        }
    }

    /// Removes other users' write permissions, because a configuration file that they can write to is not used. The
    /// user must review any changes that other users may have made.
    private func fixPermissions(_ findings: inout Findings) {
        guard options.issuer == nil, options.clientID == nil else { return }
        let path = ConfigurationChoice(option: options.config).path
        let descriptor = unsafe open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK)
        guard descriptor >= 0 else { return }
        defer { close(descriptor) }
        var status = stat()
        guard unsafe fstat(descriptor, &status) == 0, status.st_mode & S_IFMT == S_IFREG, status.st_uid == geteuid(),
            PrivateGroup.letsOthersWrite(status)
        else { return }
        if fchmod(descriptor, status.st_mode & 0o7755) == 0 {
            findings.note(
                "file",
                "fixed: only you can write to \(path) now. Review its contents: until now, other users could write to it."
            )
        } else {
            findings.bad("file", "other users can write to \(path), and its permissions cannot be changed")
        }
    }

    private static func examine(_ launchEnvironment: LaunchEnvironment, _ findings: inout Findings) {
        let kinds = [
            (launchEnvironment.isRemoteShell, "a remote shell"),
            (launchEnvironment.isRemoteEditor, "a remote editor window"),
            (launchEnvironment.isContainer, "a container"), (launchEnvironment.isWSL, "WSL"),
        ].filter(\.0).map(\.1)
        let terminal = launchEnvironment.hasTerminal ? "with a terminal" : "without a terminal"
        findings.good("session", "\(kinds.isEmpty ? "this machine" : kinds.joined(separator: ", ")), \(terminal)")
        switch launchEnvironment.browser {
        case .command(let command, let reason): findings.good("browser", "\(command[0]), because \(reason)")
        case .none(let reason): findings.note("browser", "none: \(reason)")
        }
    }

    /// The fixed port of a redirect URI must be free at sign-in. The user agent uses the first redirect URI at which it can listen, so an
    /// unavailable port is a problem only if the profile has no other redirect URI.
    private static func examineRedirectPorts(_ client: AuthClient, _ findings: inout Findings) {
        var results: [(isAvailable: Bool, text: String)] = []
        var hasAvailable = false
        for case .loopback(let host, let port, _) in client.registration.redirectURIs.map(\.kind) {
            guard let port else {
                // Any free port can be used.
                hasAvailable = true
                continue
            }
            do {
                _ = try LoopbackPort.probe(host: host, port: port)
                hasAvailable = true
                results.append((true, "\(host):\(port), from the redirect URI, is available"))
            } catch let error as AuthError where error.code == .portBusy {
                results.append((false, "\(host):\(port), from the redirect URI, is in use"))
            } catch {
                results.append((false, "\(host):\(port), from the redirect URI, cannot be bound: \(error)"))
            }
        }
        for result in results {
            if result.isAvailable {
                findings.good("port", result.text)
            } else if hasAvailable {
                findings.note("port", "\(result.text); a sign-in uses another redirect URI of the profile")
            } else {
                findings.bad("port", result.text)
            }
        }
    }

    private static func examinePorts(_ findings: inout Findings) {
        for host in ["127.0.0.1", "[::1]"] {
            do {
                findings.good("port", "\(host):\(try LoopbackPort.probe(host: host)) is available")
            } catch {
                // The absence of IPv6 is not a problem.
                let text = "none at \(host): \(error)"
                if host == "[::1]" { findings.note("port", text) } else { findings.bad("port", text) }
            }
        }
    }

    private func examineProfile(_ launchEnvironment: LaunchEnvironment, _ findings: inout Findings) async throws {
        let clock = ServerClock()
        let choice = ConfigurationChoice(option: options.config)
        let file = try options.choice.file()
        let origin =
            options.issuer == nil ? "\(choice.path), \(choice.origin.rawValue)" : "none: --issuer and --client-id"
        if file.profileNames.isEmpty, options.profile == nil {
            findings.good("file", "\(origin), without a profile")
            try await examineResourceStore(&findings)
            return
        }
        let profiles = try examinedProfiles(in: file)
        let profile = profiles[0]
        findings.good("file", origin)
        var quiet = options.choice
        quiet.profile = profile.name
        // Only the findings are printed, with no progress messages between them.
        quiet.isQuiet = !options.verbose
        let client = try quiet.client(launchEnvironment: launchEnvironment, transport: clock.over)
        try client.methods.createUserAgents()
        findings.good("profile", profile.name)
        let others = profiles.map(\.name).filter { $0 != profile.name }
        if !others.isEmpty {
            let names = others.joined(separator: ", ")
            findings.note("", "not examined: the other profiles of \"server\" (--profile): \(names)")
        }
        let isWebApplication = try client.flowWithoutUser == nil && Self.isWebApplication(profile, in: file)
        if let flow = client.flowWithoutUser {
            findings.good("user", "not needed: the client obtains tokens without a sign-in (\(flow.rawValue))")
        } else if isWebApplication {
            findings.good("user agent", "not needed: the users of the web application use their own browsers (server)")
        } else if Self.usesUserAgent(client) {
            try examineUserAgents(client, profile, launchEnvironment, &findings)
        } else {
            findings.good("user agent", "not needed: the user signs in on another device (device)")
        }
        do {
            let isWritten = try await client.checkStore()
            findings.good("store", isWritten ? "can be read, written and locked" : "can be read and locked")
        } catch {
            try Task.checkCancellation()
            findings.bad("store", ExitStatus.message(for: error))
        }
        try await examineProvider(client, clock, isWebApplication: isWebApplication, &findings)
    }

    /// The profile to examine, followed by the other profiles of a web application. Without a selected profile, the profile of its first provider
    /// is examined.
    private func examinedProfiles(in file: ConfigurationFile) throws -> [Profile] {
        guard options.profile == nil, file.defaultProfile == nil, file.profileNames.count > 1, file.hasServer else {
            return [try file.profile(options.profile)]
        }
        return try SessionServer.profiles(in: file, host: ToolEnvironment.host)
    }

    /// Reads the store of the sign-ins to protected resources.
    private func examineResourceStore(_ findings: inout Findings) async throws {
        do {
            let context = try RegistrationCommands.Context(config: options.config)
            let known = KnownResources(store: context.store)
            let count = try await known.addresses().count
            findings.good("resources", "their store can be read; it lists \(count)")
            let (lacksResources, lacksRegistrations) = (
                try await known.lacksResources(), try await known.lacksRegistrations()
            )
            if lacksResources || lacksRegistrations {
                findings.note("", "the list is incomplete: it was damaged or full, or is encrypted with another key")
            }
        } catch {
            try Task.checkCancellation()
            findings.bad("resources", ExitStatus.message(for: error))
        }
    }

    /// Whether the users of a web application sign in with a profile. The application receives the redirects, so it may occupy the port.
    private static func isWebApplication(_ profile: Profile, in file: ConfigurationFile) throws -> Bool {
        guard file.hasServer else { return false }
        return try SessionServer.profiles(in: file, host: ToolEnvironment.host).contains { $0.name == profile.name }
    }

    /// Whether a sign-in may use the authorization code grant, even if no user agent works here.
    private static func usesUserAgent(_ client: AuthClient) -> Bool {
        let flows = client.methods.methods.map { $0.flow } + client.methods.skipped.map { $0.flow }
        return flows.contains(.authorizationCode)
    }

    /// Whether a sign-in with the tool sends an authorization request. The device flow may be tried before a user agent.
    private static func sendsAuthorizationRequests(_ client: AuthClient, offersDeviceFlow: Bool) -> Bool {
        let flows = client.methods.methods.map { $0.flow }
        if flows.first == .device, offersDeviceFlow { return false }
        return flows.contains(.authorizationCode) || usesUserAgent(client) && !flows.contains(.device)
    }

    private func examineUserAgents(
        _ client: AuthClient,
        _ profile: Profile,
        _ launchEnvironment: LaunchEnvironment,
        _ findings: inout Findings
    ) throws {
        let agents = try profile.userAgentExplanation(
            Known.components,
            context: UserAgentContext(
                launchEnvironment: launchEnvironment,
                redirectURIs: client.registration.redirectURIs
            )
        )
        let hasDeviceFlow = client.methods.methods.contains { $0.flow == .device }
        if let chosen = agents.chosen {
            findings.good("user agent", chosen)
        } else if hasDeviceFlow {
            findings.note("user agent", "none can be used here, so the user signs in on another device (device)")
        } else {
            let (url, code) = (Self.login("--no-browser"), Self.login("--device"))
            findings.bad("user agent", "none can be used here. \(url) shows the URL; \(code) shows a code")
        }
        // Only the loopback user agent binds the port.
        if agents.chosen?.hasPrefix("loopback") ?? !hasDeviceFlow { Self.examineRedirectPorts(client, &findings) }
        for reason in agents.reasons where !reason.hasSuffix(": ") && !reason.isEmpty { findings.note("", reason) }
        examineSchemes(client, &findings)
    }

    private func examineSchemes(_ client: AuthClient, _ findings: inout Findings) {
        for case .privateUse(let scheme) in client.registration.redirectURIs.map(\.kind) {
            let handler = SchemeHandler(scheme: scheme)
            if handler.isInstalled {
                findings.good("scheme", "\(scheme): opens with \(handler.program ?? "this program")")
            } else if fix {
                do {
                    try handler.install(program: try ToolEnvironment.program())
                    findings.good("scheme", "fixed: \(scheme): now opens with this program")
                } catch {
                    findings.bad("scheme", "\(error)")
                }
            } else {
                findings.note(
                    "scheme",
                    "\(scheme): URLs are not handled by authflow on this machine. Run: \(handler.installCommand)"
                )
            }
        }
    }

    /// OIDC Core section 3.1.2.1: without "openid", the request is not an OpenID Connect request.
    static let unknownUser =
        "the user will not be identified: add the \"openid\" scope, or set \"identity\" to another source"

    /// Reports contradictions between the profile and the provider's metadata.
    private static func compare(
        _ client: AuthClient,
        _ metadata: ProviderMetadata,
        sendsAuthorizationRequests: Bool,
        _ findings: inout Findings
    ) {
        let settings = client.registration
        if metadata.tokenEndpoint == nil { findings.bad("endpoints", "the provider has no token endpoint") }
        if sendsAuthorizationRequests { compareAuthorizationRequests(settings, metadata, &findings) }
        compareFeatures(settings, metadata, &findings)
        let method = settings.authentication.resolved(for: metadata.tokenEndpointAuthMethods).method.rawValue
        if let announced = metadata.tokenEndpointAuthMethods, !announced.contains(method) {
            let names = announced.map { DisplayText.sanitized($0, limit: 40) }.joined(separator: ", ")
            // Many providers do not list "none", but accept public clients.
            let text = "the provider's metadata lists \(names), but the profile uses \(method)"
            if method == "none" {
                findings.note("client", text)
            } else {
                findings.bad("client", text)
            }
        }
        // OIDC Core section 11: for offline_access, the server "MUST ensure that the prompt parameter contains consent
        // unless other conditions for processing the request permitting offline access to the requested resources are
        // in place".
        let prompt = settings.parameters[.authorization]?["prompt"]?.split(separator: " ") ?? []
        if settings.scopes.contains("offline_access"), !prompt.contains("consent") {
            findings.note(
                "scopes",
                "some providers issue a refresh token for \"offline_access\" only with the parameter \"prompt\": \"consent\""
            )
        }
    }

    private static func compareAuthorizationRequests(
        _ settings: ClientRegistration,
        _ metadata: ProviderMetadata,
        _ findings: inout Findings
    ) {
        if metadata.authorizationEndpoint == nil {
            findings.bad("endpoints", "the provider has no authorization endpoint")
        }
        if settings.requestObjectKey == nil, metadata.json["require_signed_request_object"] == true {
            findings.bad("signed_requests", "the provider requires signed authorization requests (RFC 9101)")
        }
        if let methods = metadata.codeChallengeMethods, !methods.isEmpty, !methods.contains("S256") {
            findings.bad("PKCE", "the provider does not support S256")
        } else if settings.requiresAdvertisedPKCE, metadata.codeChallengeMethods?.contains("S256") != true {
            findings.bad("PKCE", "the provider does not advertise S256, which \"announced_pkce\" requires")
        }
        if metadata.requiresPushedRequests, settings.pushedRequests == .never {
            findings.bad(
                "PAR",
                "the provider accepts only pushed authorization requests (RFC 9126), but \"par\" is \"never\""
            )
        }
        if metadata.requiresPushedRequests || settings.pushedRequests == .always,
            metadata.pushedAuthorizationRequestEndpoint == nil
        {
            findings.bad("PAR", "the provider has no endpoint for pushed authorization requests (RFC 9126)")
        }
    }

    /// Reports features that the profile uses but the provider's metadata does not list. Providers do not always list everything that they
    /// support.
    private static func compareFeatures(
        _ settings: ClientRegistration,
        _ metadata: ProviderMetadata,
        _ findings: inout Findings
    ) {
        func expect(_ wanted: [String], in member: String, for key: String) {
            guard let listed = metadata.json[member]?.strings, !wanted.isEmpty, Set(listed).isDisjoint(with: wanted)
            else { return }
            let names = listed.prefix(8).map { DisplayText.sanitized($0, limit: 40) }.joined(separator: ", ")
            findings.note(key, "\(wanted.joined(separator: ", ")), but the provider's \(member) lists \(names)")
        }
        expect([settings.responseMode.rawValue], in: "response_modes_supported", for: "response_mode")
        expect(
            (settings.idTokenSigningAlgorithms ?? []).map(\.rawValue),
            in: "id_token_signing_alg_values_supported",
            for: "id_token_signing_algorithms"
        )
        if settings.usesDPoP, metadata.json["dpop_signing_alg_values_supported"] == nil {
            findings.note("dpop", "the provider does not advertise DPoP (dpop_signing_alg_values_supported)")
        }
        // OpenID Connect Discovery section 3: the member applies to the request parameter of the authorization endpoint.
        let isPushed =
            settings.pushedRequests == .always
            || settings.pushedRequests == .automatic && metadata.pushedAuthorizationRequestEndpoint != nil
        if settings.requestObjectKey != nil, !isPushed, metadata.json["request_parameter_supported"] == false {
            findings.note("signed_requests", "not supported by the provider (request_parameter_supported)")
        }
    }

    private static func examineFlows(_ client: AuthClient, _ metadata: ProviderMetadata, _ findings: inout Findings) {
        let flows = client.methods.methods.map(\.flow)
        if flows == [.device], metadata.deviceAuthorizationEndpoint == nil {
            findings.bad("flow", "only the device flow, but the provider has no device authorization endpoint")
        }
        if flows == [.clientCredentials], let grants = metadata.json["grant_types_supported"]?.strings,
            !grants.contains("client_credentials")
        {
            findings.note("flow", "the provider's grant_types_supported does not contain client_credentials")
        }
    }

    /// The command that signs in with the examined profile and an option.
    private static func login(_ option: String) -> String {
        SignInAdvice.command(adding: option) ?? "authflow login \(option)"
    }

    private static func examineSignIn(
        _ client: AuthClient,
        _ metadata: ProviderMetadata,
        _ findings: inout Findings
    ) {
        if client.client.identifiesUsers {
            findings.good("user", "sign-ins identify the user")
        } else {
            findings.note("user", unknownUser)
        }
        let device = metadata.deviceAuthorizationEndpoint == nil ? "not offered" : "offered (\(login("--device")))"
        findings.note("device grant", device)
    }

    private func examineProvider(
        _ client: AuthClient,
        _ clock: ServerClock,
        isWebApplication: Bool,
        _ findings: inout Findings
    ) async throws {
        do {
            let metadata = try await client.metadata()
            findings.good("provider", metadata.issuer)
            let hasIDTokens = !client.isWithoutUser && client.registration.scopes.contains("openid")
            let endpointProblems = try await client.client.server.endpointProblems(
                idTokenAlgorithms: hasIDTokens ? client.client.idTokenAlgorithms(metadata) : nil
            )
            if !metadata.issuer.hasPrefix("https:") {
                findings.note("TLS", "none: the provider is on this machine")
            } else if metadata.document != nil || endpointProblems.isEmpty {
                // Configured endpoints are used without a request for metadata.
                findings.good("TLS", "the provider's certificate is trusted on this machine")
            }
            for problem in endpointProblems { findings.bad(problem.name, "\(problem.error)") }
            if metadata.jwksURI != nil, !endpointProblems.contains(where: { $0.name == "keys" }) {
                findings.good("keys", "the provider's signing keys were fetched")
            }
            // The provider's RFC 8414 document may have members that its OpenID Connect document lacks.
            let supplemented = try await client.client.server.metadata(with: \.deviceAuthorizationEndpoint)
            let offersDeviceFlow = supplemented.deviceAuthorizationEndpoint != nil
            let sendsRequests = Self.sendsAuthorizationRequests(client, offersDeviceFlow: offersDeviceFlow)
            Self.compare(client, metadata, sendsAuthorizationRequests: isWebApplication || sendsRequests, &findings)
            Self.examineFlows(client, supplemented, &findings)
            if !client.isWithoutUser { Self.examineSignIn(client, supplemented, &findings) }
        } catch {
            try Task.checkCancellation()
            findings.bad("provider", "\(error)")
        }
        let clientID = DisplayText.sanitized(client.registration.clientID, limit: 200)
        let test = client.isWithoutUser ? ". To test it, run: \(SignInAdvice.token)" : ""
        findings.note("client ID", "\"\(clientID)\": only the provider can determine whether it is registered\(test)")
        if clock.offset == nil { findings.note("clock", "no response had a Date header") }
        if let offset = clock.offset {
            let text = "\(abs(Int(offset.rounded()))) s \(offset > 0 ? "ahead of" : "behind") the provider's"
            // The resolution of the Date header is one second.
            if abs(offset) > client.registration.clockLeeway.seconds + 1 {
                findings.bad("clock", "\(text); correct it")
            } else if abs(offset) > 30 {
                findings.note("clock", "\(text), which the profile's clock_leeway covers")
            } else {
                findings.good("clock", text)
            }
        }
        Self.showURIsToRegister(client, findings)
    }

    private static func showURIsToRegister(_ client: AuthClient, _ findings: Findings) {
        func show(_ uri: RedirectURI, _ key: String) {
            let isFree = if case .loopback(_, nil, _) = uri.kind { true } else { false }
            findings.note("", isFree ? "\(uri) (with any port, RFC 8252 section 7.3)" : uri.uri)
            if isFree { findings.note("", "if the provider compares ports, set a port in \"\(key)\"") }
        }
        if usesUserAgent(client) {
            findings.note("to register", "these redirect URIs, exactly:")
            for uri in client.registration.redirectURIs { show(uri, "redirect_uri") }
        }
        // A user who signs in on another device signs out at the provider with a user agent.
        if let uri = client.registration.postLogoutRedirectURI, !client.isWithoutUser {
            findings.note("to register", "this post-logout redirect URI, exactly:")
            show(uri, "post_logout_redirect_uri")
        }
    }
}
