import ArgumentParser
import AuthFlow
import AuthFlowDesktop
import AuthFlowEssentials
import AuthFlowTerminal
import AuthFlowTrace

struct LoginCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(commandName: "login", abstract: "Sign in and store the credential.")

    @OptionGroup var resource: ResourceOptions

    @OptionGroup var scope: ScopeOptions

    @OptionGroup var options: ProfileOptions

    @Flag(help: "Print the signed-in user as JSON.")
    var json = false

    @Flag(help: "Keep the signed-in account, and add the new one.")
    var addAccount = false

    @Flag(help: "Replace the signed-in account if a different account signs in.")
    var replaceAccount = false

    @Flag(help: "Sign in on another device, with a code (device flow). Overrides the profile.")
    var device = false

    @Option(
        help: "The user agent, overriding the profile: auto, loopback, system-browser, headless, tree or paste.",
        completion: .list(["auto"] + Known.userAgents.map(\.name))
    )
    var userAgent: String?

    @Flag(help: "Do not open a browser; only show the URL.")
    var noBrowser = false

    @Flag(
        name: .customLong("private"),
        help:
            "Open a private browser window, without existing sign-ins; overrides a device flow of the profile. If that is not possible, no browser is opened."
    )
    var isPrivate = false

    @Option(
        help: ArgumentHelp(
            "With a URL: an authentication context class to request (RFC 9470). May be given more than once, in order of preference.",
            valueName: "acr"
        )
    )
    var acrValues: [String] = []

    @Option(help: "With a URL: the maximum age of the user's authentication, in seconds (RFC 9470).")
    var maxAge: Int?

    @Option(help: "Write a trace of the login to this file, as an HTML page without secrets.", completion: .file())
    var trace: String?

    func validate() throws {
        try resource.check(options, scopes: scope.scopes)
        guard !device || userAgent == nil && !noBrowser && !isPrivate else {
            throw ValidationError(
                "--device needs no user agent, so it cannot be combined with --user-agent, --no-browser or --private."
            )
        }
        guard !(addAccount && replaceAccount) else {
            throw ValidationError("--add-account and --replace-account cannot be combined.")
        }
        guard resource.url != nil || acrValues.isEmpty && maxAge == nil else {
            throw ValidationError(
                "--acr-values and --max-age need the URL of a resource; for a profile, set them in \"parameters\", under \"authorization\"."
            )
        }
        guard maxAge.map({ ResourceClient.Options.maxAges.contains($0) }) ?? true else {
            throw ValidationError("--max-age must be a number of seconds from 0 to 31536000.")
        }
        guard !resource.hasAddress || !device && !addAccount && !replaceAccount else {
            throw ValidationError("--device, --add-account and --replace-account need a profile, not a URL.")
        }
    }

    func run() async throws {
        UnfinishedClients.note(.signIn)
        let policy: AccountPolicy = addAccount ? .addAccount : replaceAccount ? .replaceAccount : .sameAccount
        var launchEnvironment = LaunchEnvironment.current()
        launchEnvironment.mayOpenBrowser = !noBrowser
        launchEnvironment.wantsPrivateWindow = isPrivate
        let redirects = TerminalRedirects(isEnabled: launchEnvironment.hasTerminal)
        let flows: [SignInFlow]? = device ? [.device] : userAgent != nil ? [.authorizationCode] : nil
        let flowTrace = FlowTrace()
        let observer: @Sendable (FlowEvent) -> Void = { event in
            redirects.observer(event)
            flowTrace.observer(event)
        }
        let recording: ((any HTTPTransport) -> any HTTPTransport)? = trace == nil ? nil : { flowTrace.transport($0) }
        if var choice = try resource.choice(options, scopes: scope.scopes) {
            choice.authentication = RequiredAuthentication(acrValues: acrValues, maxAge: maxAge)
            let client = try choice.client(
                userAgent: userAgent,
                launchEnvironment: launchEnvironment,
                transport: recording,
                observer: observer
            )
            // Fail before the first request rather than after it.
            try client.methods.createUserAgents()
            if let trace { try beginTrace(trace) }
            defer { if let trace { write(flowTrace, to: trace) } }
            do {
                _ = try await redirects.accepting(by: { client.resume(with: $0) }) { try await client.signIn() }
            } catch let error as AuthError where error.code == .noUserAgent {
                throw error.withAdvice(besides: ["--device"] + (noBrowser ? ["--no-browser"] : []))
            }
            try await ResourceReport.print(client, asJSON: json)
            return
        }
        var choice = options.choice(scopes: scope.scopes)
        try await choice.addUsualScopes()
        let client = try choice.client(
            flows: flows,
            userAgent: userAgent,
            launchEnvironment: launchEnvironment,
            transport: recording,
            observer: observer
        )
        // Fail before the first request rather than after it.
        try client.methods.createUserAgents()
        if let trace { try beginTrace(trace) }
        // The trace is also written when the login fails, which is when it is needed most.
        defer { if let trace { write(flowTrace, to: trace) } }
        let previous = addAccount ? (try? await client.accounts()) ?? [] : []
        let signIn: SignIn
        do {
            signIn = try await redirects.accepting(for: client) { try await client.signIn(policy) }
        } catch let error as AuthError where error.code == .noUserAgent {
            adviseScheme(client)
            let account = addAccount ? ["--add-account"] : replaceAccount ? ["--replace-account"] : []
            throw error.withAdvice(with: account, besides: noBrowser ? ["--no-browser"] : [])
        }
        // The AWS credentials belong to the sign-in that this one replaces.
        try? await AWSKeys.remove(try choice.file().profile(choice.profile), client)
        try Report.print(
            signIn.credential,
            asJSON: json,
            coversDetails: client.coversAuthorizationDetails(signIn.credential),
            tokens: client.tokensWithoutSignIn
        )
        if !options.quiet { reportRepeatedAccount(signIn.credential, previous) }
        if client.credentials.store is MemoryTokenStore, !options.quiet {
            Terminal.printMessage(
                "The tokens were not stored, because \"store\" is \"memory\": other commands cannot use them."
            )
        }
        // The sign-in has succeeded, but the next command will not find the credential.
        if let error = signIn.storageError, !(await client.storeUnsavedTokens(of: signIn)) { throw error }
    }

    /// Reports that the user was already signed in, although another account was to be added.
    /// - Parameter previous: The accounts before the login.
    private func reportRepeatedAccount(_ credential: Credential, _ previous: [Identity]) {
        guard let user = credential.identity,
            previous.contains(where: {
                $0.issuer.isIdentical(to: user.issuer) && $0.subject.isIdentical(to: user.subject)
            })
        else { return }
        let advice = device || isPrivate ? "" : " If your browser signs in the same user again, use --private."
        Terminal.printMessage("No account was added, because \(user.displayName) was already signed in.\(advice)")
    }

    /// Explains how to register this program as the desktop's handler for the scheme of a redirect URI.
    private func adviseScheme(_ client: AuthClient) {
        for case .privateUse(let scheme) in client.registration.redirectURIs.map(\.kind) {
            let handler = SchemeHandler(scheme: scheme)
            guard !handler.hasEntry else { continue }
            Terminal.printMessage("To open \(scheme): URLs with this program, run: \(handler.installCommand)")
        }
    }

    private static let traceMark = "<!-- A login, recorded by authflow -->\n"

    /// Creates the trace file before the sign-in, so that an unusable path is reported first.
    private func beginTrace(_ path: String) throws(AuthError) {
        do throws(AuthError) {
            let mark = Array(Self.traceMark.utf8)
            try PrivateFile(URL(fileURLWithPath: path).path).write(mark, markedBy: mark)
        } catch {
            throw error.withMessage("The trace cannot be written. \(error.message)", because: error)
        }
    }

    private func write(_ trace: FlowTrace, to path: String) {
        do {
            let place = URL(fileURLWithPath: path)
            let page = Self.traceMark + trace.html(title: "authflow login")
            try PrivateFile(place.path).write(Array(page.utf8), markedBy: Array(Self.traceMark.utf8))
            Terminal.printMessage("The trace was written to \(path).")
        } catch {
            Terminal.printMessage("Warning: the trace could not be written: \(error)")
        }
    }
}

extension AuthError {
    /// The error for a sign-in without a usable user agent, with alternatives that do not open a browser on this machine.
    /// - Parameters:
    ///   - given: The options to repeat in the suggested commands.
    ///   - options: The options that were already given, or that the sign-in does not support.
    func withAdvice(with given: [String] = [], besides options: [String] = []) -> AuthError {
        let command = ([SignInAdvice.command ?? "authflow login"] + given).joined(separator: " ")
        let advice = [
            ("--no-browser", "To show the URL anyway"),
            ("--device", "To sign in on another device, if the provider supports that"),
        ].filter { !options.contains($0.0) }.map { "\($0.1): \(command) \($0.0)." }
        return AuthError(code, ([message] + advice).joined(separator: " "), underlyingError: self)
    }
}
