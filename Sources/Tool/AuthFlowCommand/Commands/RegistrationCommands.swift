import ArgumentParser
import AuthFlow
import AuthFlowEssentials

/// Manages the dynamic registrations that were made automatically for protected resources: `authflow register show`,
/// `renew` and `remove`.
enum RegistrationCommands {
    /// The store of the registrations, and the settings that they depend on.
    struct Context {
        let redirectURI: RedirectURI
        let store: any TokenStore
        let transport: any HTTPTransport

        init(config: String?) throws {
            let settings = try ResourceChoice.file(config)?.content.resourceClient ?? ResourceClientSettings()
            (self.store, self.redirectURI) = try settings.registrationStore(
                Known.components,
                host: ToolEnvironment.host
            )
            self.transport = try settings.transport(environment: ToolEnvironment.host.environment)
        }

        /// The registrations with an issuer, or for the origin of a resource; nil returns all registrations.
        func registrations(_ address: String?) async throws -> [(issuer: String, origin: String)] {
            let all = try await KnownResources(store: store).registrations()
            guard let address else { return all }
            let endpoint = try Endpoint(address, name: "URL")
            let resources = try await KnownResources(store: store).addresses().compactMap { try? Endpoint($0) }
            let siblings = resources.filter { $0.origin == endpoint.origin }
            // A mistyped path must not affect the other resources of the origin.
            let path = endpoint.path.droppingTrailingSlash
            let isMeant =
                siblings.isEmpty || path.isEmpty || siblings.contains { $0.path.droppingTrailingSlash == path }
            return all.filter { $0.issuer.isIdentical(to: address) || isMeant && $0.origin == endpoint.origin }
        }

        /// The registrations with an issuer for the resources at an origin.
        struct Found {
            var registrations: [StoredRegistration] = []
            /// A message if a registration cannot be read.
            var damage: String?
            var isCurrentUnreadable = false
            /// The error of the store; nil if the store can be read.
            var storageError: AuthError?
            /// The client IDs of the earlier registrations that cannot be read.
            var unreadable: [String] = []

            var clientIDs: [String] { registrations.map(\.clientID) }
        }

        /// The registrations with an issuer for the resources at an origin: the current registration, and earlier registrations
        /// that signed-in resources use.
        /// - Parameter skipsUnreadable: Whether read errors are reported in the result instead of being thrown; an unusable current registration
        ///   is always reported there.
        func stored(
            at issuer: String,
            for origin: String,
            config: String?,
            skipsUnreadable: Bool
        ) async throws -> Found {
            let registrations = StoredRegistrations(store: store, for: origin)
            var found = Found()
            do {
                let (current, isDamaged) = try await registrations.current(at: issuer, for: redirectURI)
                found.registrations += [current].compactMap(\.self)
                if isDamaged { found.damage = Self.damageMessage(issuer, origin, config) }
            } catch let error as AuthError
                where error.code == .credentialUnusable || skipsUnreadable && error.code == .storageFailed
            {
                found.damage = Self.damageMessage(issuer, origin, config, because: error)
                if error.code == .storageFailed { found.storageError = error }
            }
            found.isCurrentUnreadable = found.damage != nil
            for address in try await KnownResources(store: store).addresses() {
                guard let endpoint = try? Endpoint(address), endpoint.origin == origin else { continue }
                let client = try? ResourceChoice.clientWithoutProfile(of: address, config: config)
                for known in (try? await client?.registeredClients()) ?? []
                where known.issuer.isIdentical(to: issuer)
                    && !found.registrations.contains(where: { $0.clientID.isIdentical(to: known.clientID) })
                {
                    do {
                        let earlier = try await registrations.registration(
                            at: issuer,
                            for: redirectURI,
                            clientID: known.clientID
                        )
                        if let earlier { found.registrations.append(earlier) }
                    } catch let error as AuthError
                        where skipsUnreadable && [.credentialUnusable, .storageFailed].contains(error.code)
                    {
                        found.damage = found.damage ?? Self.damageMessage(issuer, origin, config, because: error)
                        if error.code == .storageFailed { found.storageError = error }
                        found.unreadable.append(known.clientID)
                    }
                }
            }
            return found
        }

        /// The message about a damaged registration.
        private static func damageMessage(
            _ issuer: String,
            _ origin: String,
            _ config: String?,
            because error: AuthError? = nil
        ) -> String {
            // The issuer may also have registrations for other origins, which are intact.
            let command = ShellWord.line(["authflow", "register", "remove", origin, "--local"] + option(config))
            let name = DisplayText.sanitized(issuer, limit: 300)
            guard let error else {
                return
                    "The stored registration with \(name) is damaged. To remove the registrations for \(origin) from this machine, run: \(command)"
            }
            let condition =
                error.code == .credentialUnusable ? "the store's key is correct" : "that cannot be corrected"
            return
                "The stored registration with \(name) cannot be read: \(error.message) If \(condition), remove the registrations for \(origin) from this machine: \(command)"
        }

        /// The client IDs at an issuer with which the user has signed in to a resource; nil for an origin, an unknown resource or unreadable record.
        func clients(of address: String, at issuer: String, config: String?) async throws -> [String]? {
            let endpoint = try Endpoint(address, name: "URL")
            let path = endpoint.path.droppingTrailingSlash
            guard !path.isEmpty,
                let known = try await KnownResources(store: store).addresses().first(where: {
                    let other = try? Endpoint($0)
                    return other?.origin == endpoint.origin && other?.path.droppingTrailingSlash == path
                })
            else { return nil }
            let client = try? ResourceChoice.clientWithoutProfile(of: known, config: config)
            return try? await client?.registeredClients().filter { $0.issuer.isIdentical(to: issuer) }.map(\.clientID)
        }

        private static func option(_ config: String?) -> [String] { OptionWords.of("--config", config) }

        /// The advice when the registrations for an origin are not those of a resource.
        static func others(of address: String, _ config: String?) -> String {
            let origin = (try? Endpoint(address).origin) ?? address
            let command = ShellWord.line(["authflow", "register", "remove", origin] + option(config))
            return "To remove all registrations for \(origin), run: \(command)"
        }

        /// The message when there is no registration.
        static func absence(_ config: String?) -> String {
            let command = ShellWord.line(["authflow", "register", "show"] + option(config))
            return "There is no such registration. To list the registrations, run: \(command)"
        }
    }

    static func warnOfLostEntries(_ mayLackEntries: Bool) {
        guard mayLackEntries else { return }
        Terminal.printMessage("Warning: The list was damaged or full, and may be incomplete.")
    }

    struct Show: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "show",
            abstract: "Show the dynamic client registrations. Sends no requests and shows no secrets."
        )

        @Argument(help: "The URL of a protected resource or an issuer; default: all.")
        var address: String?

        @Option(name: [.short, .long], help: "The configuration file, which names the store.", completion: .file())
        var config: String?

        @Flag(help: "Print the registrations as JSON.")
        var json = false

        func run() async throws {
            let context = try Context(config: config)
            var all: [JSON] = []
            var found: [StoredRegistration] = []
            var isIncomplete = false
            var storageError: AuthError?
            for (issuer, origin) in try await context.registrations(address) {
                let stored = try await context.stored(
                    at: issuer,
                    for: origin,
                    config: config,
                    skipsUnreadable: true
                )
                found += stored.registrations
                guard let damage = stored.damage else { continue }
                Terminal.printMessage("Warning: \(damage)")
                isIncomplete = true
                storageError = storageError ?? stored.storageError
            }
            for stored in found {
                all.append([
                    "issuer": .string(stored.issuer), "client_id": .string(stored.clientID),
                    "redirect_uris": .array(stored.redirectURIs.map { .string($0.uri) }),
                    "scopes": .array(stored.scopes.map(JSON.string)),
                    "registered_at": .string(stored.registeredAt.formatted(.iso8601)),
                    "secret_expires_at": stored.secretExpiresAt.map { .string($0.formatted(.iso8601)) } ?? .null,
                ])
                guard !json else { continue }
                Terminal.result("\(DisplayText.sanitized(stored.issuer, limit: 300))")
                Terminal.row("client", DisplayText.sanitized(stored.clientID, limit: 300))
                Terminal.row("registered", stored.registeredAt.formatted(.iso8601))
                Terminal.row("redirects to", stored.redirectURIs.map(\.uri).joined(separator: " "))
            }
            if json {
                try Terminal.result(.array(all))
            } else if all.isEmpty, !isIncomplete {
                Terminal.printMessage(address == nil ? "There are no registrations." : Context.absence(config))
            }
            RegistrationCommands.warnOfLostEntries(try await KnownResources(store: context.store).lacksRegistrations())
            if let storageError { throw storageError }
        }
    }

    struct Renew: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "renew",
            abstract: "Register a new client for a protected resource. You must sign in again afterwards."
        )

        @Argument(help: "The URL of the protected resource.")
        var address: String

        @Option(name: [.short, .long], help: "The configuration file.", completion: .file())
        var config: String?

        func run() async throws {
            UnfinishedClients.note(.signOut)
            let context = try Context(config: config)
            let choice = ResourceChoice(address: address, choice: ProfileChoice(config: config))
            let (new, old, signOut) = try await choice.client().renewRegistration()
            if let old {
                if let error = try await unregister(old, context, name: "The old registration") {
                    Terminal.printMessage("The old registration may remain at \(old.issuer): \(error)")
                }
            } else {
                Terminal.printMessage(
                    "The old registration, if any, is still used for other resources of the same server."
                )
            }
            Terminal.printMessage(
                "Registered with \(new.issuer) as \(DisplayText.sanitized(new.clientID, limit: 300)). To sign in, run: \(choice.loginCommand)"
            )
            guard RegistrationCommands.isRevoked(signOut, address) else { throw ExitStatus.signedOutLocallyOnly }
        }
    }

    struct Remove: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "remove",
            abstract: "Remove a registration locally, and at the authorization server where possible (RFC 7592)."
        )

        @Argument(help: "The URL of a protected resource or an issuer.")
        var address: String

        @Option(name: [.short, .long], help: "The configuration file, which names the store.", completion: .file())
        var config: String?

        @Flag(help: "Remove the registration from this machine only.")
        var local = false

        func run() async throws {
            UnfinishedClients.note(.signOut)
            let context = try Context(config: config)
            var all: [(registrations: StoredRegistrations, stored: StoredRegistration)] = []
            var origins = Set([try Endpoint(address, name: "URL").origin])
            var unreadable: [(registrations: StoredRegistrations, issuer: String, found: Context.Found)] = []
            var hasOthers = false
            for (issuer, origin) in try await context.registrations(address) {
                let registrations = StoredRegistrations(store: context.store, for: origin)
                origins.insert(origin)
                let found = try await context.stored(
                    at: issuer,
                    for: origin,
                    config: config,
                    skipsUnreadable: local
                )
                // Other resources of the same origin may use other registrations.
                let own = try await context.clients(of: address, at: issuer, config: config)
                let isOwn = { (stored: StoredRegistration) in own?.contains(stored.clientID) ?? true }
                all += found.registrations.filter(isOwn).map { (registrations, $0) }
                if !found.registrations.isEmpty { hasOthers = true }
                guard let damage = found.damage, own?.allSatisfy(found.clientIDs.contains) != true else { continue }
                guard local else { throw AuthError(.storageFailed, damage) }
                unreadable.append((registrations, issuer, found))
            }
            // If the list of resources is damaged or full, the tokens for the resources that it lacks are not found.
            let known = KnownResources(store: context.store)
            let lacksResources = try await known.lacksResources()
            var areRevoked = local || !lacksResources
            var resources = try await known.addresses()
            if !resources.contains(where: { $0.isIdentical(to: address) }) { resources.append(address) }
            // Signs out first, because the tokens can be neither found nor revoked without the registration: an error stops the command.
            for resource in resources {
                guard let endpoint = try? Endpoint(resource), origins.contains(endpoint.origin) else { continue }
                let client = try ResourceChoice.clientWithoutProfile(of: resource, config: config)
                var isConcerned = false
                for (_, stored) in all where !isConcerned { isConcerned = try await client.hasSignIn(with: stored) }
                for (_, issuer, found) in unreadable where !isConcerned {
                    isConcerned =
                        found.registrations.isEmpty
                        ? try await client.hasSignIn(at: issuer)
                        : try await client.registeredClients().contains {
                            $0.issuer.isIdentical(to: issuer) && !found.clientIDs.contains($0.clientID)
                        }
                }
                guard isConcerned else { continue }
                if local {
                    guard try await client.signOutLocally() else { continue }
                } else {
                    let signOut = try await client.signOut()
                    guard signOut.credential != nil else { continue }
                    if !RegistrationCommands.isRevoked(signOut, resource) { areRevoked = false }
                }
                Terminal.printMessage("Signed out of \(Redaction.url(resource)) on this machine.")
            }
            for (registrations, issuer, found) in unreadable {
                if found.isCurrentUnreadable {
                    try await registrations.remove(at: issuer, for: context.redirectURI)
                }
                for clientID in found.unreadable {
                    try await registrations.remove(at: issuer, for: context.redirectURI, clientID: clientID)
                }
                Terminal.printMessage(
                    "The registration with \(DisplayText.sanitized(issuer, limit: 300)) could not be read, and was removed from this machine."
                )
            }
            var failure: (any Error)?
            for (registrations, stored) in all {
                // The registration access token is needed until the server has deleted the registration.
                if !local, let error = try await unregister(stored, context, name: "The registration") {
                    failure = failure ?? error
                    // The sign-out removes an earlier registration that no other resource uses; if there is no current one, it is restored, so that
                    // a later attempt can delete it at the server.
                    let redirectURI = context.redirectURI
                    if try await registrations.registration(at: stored.issuer, for: redirectURI) == nil {
                        try await registrations.save(stored, for: redirectURI)
                    }
                    let kept = try await registrations.registration(
                        at: stored.issuer,
                        for: redirectURI,
                        clientID: stored.clientID
                    )
                    Terminal.printMessage(
                        kept == nil
                            ? "The registration \(DisplayText.sanitized(stored.clientID, limit: 300)) remains at \(stored.issuer)."
                            : "The registration with \(stored.issuer) was not removed from this machine. To remove it only here, use --local."
                    )
                    continue
                }
                try await registrations.remove(at: stored.issuer, for: context.redirectURI, clientID: stored.clientID)
                Terminal.printMessage("The registration with \(stored.issuer) was removed from this machine.")
            }
            if let failure { throw failure }
            let lacksRegistrations = try await known.lacksRegistrations()
            RegistrationCommands.warnOfLostEntries(lacksRegistrations || lacksResources)
            guard !all.isEmpty || !unreadable.isEmpty else {
                guard !lacksRegistrations else {
                    let choice = ResourceChoice(address: address, choice: ProfileChoice(config: config))
                    throw AuthError(
                        .storageFailed,
                        "No registration was found, but the list of registrations is incomplete, so a registration may remain. A sign-in to the resource adds it to the list again. If this URL is the resource's, run: \(choice.loginCommand)"
                    )
                }
                // Any registrations for the URL's origin belong to other resources, or to a sign-in whose record is missing.
                Terminal.printMessage(
                    hasOthers
                        ? "No sign-in to \(Redaction.url(address)) uses a registration. \(Context.others(of: address, config))"
                        : Context.absence(config)
                )
                return
            }
            if lacksResources, !local {
                Terminal.printMessage("The tokens of resources that are missing from the list may remain valid.")
            }
            guard areRevoked else { throw ExitStatus.signedOutLocallyOnly }
        }
    }

    /// Whether a sign-out revoked the tokens; if not, prints the reason.
    private static func isRevoked(_ signOut: SignOut, _ resource: String) -> Bool {
        guard let reason = signOut.revocation.failureReason else { return true }
        Terminal.printMessage("The tokens for \(Redaction.url(resource)) may remain valid: \(reason)")
        return false
    }

    /// Deletes a registration at its server, if that is possible, and reports the outcome.
    /// - Returns: The error, if a later attempt may succeed; otherwise nil.
    private static func unregister(_ stored: StoredRegistration, _ context: Context, name: String) async throws
        -> AuthError?
    {
        do {
            let isConfirmed = try await stored.unregister(transport: context.transport, host: ToolEnvironment.host)
            Terminal.printMessage(
                isConfirmed
                    ? "\(name) was removed at \(stored.issuer)."
                    : "\(stored.issuer) no longer accepts the registration access token, so \(name.lowercased()) was probably removed there."
            )
            return nil
        } catch let error as AuthError where error.code == .unsupported {
            Terminal.printMessage("\(name) may remain at \(stored.issuer): \(error)")
            return nil
        } catch let error as AuthError {
            return error
        }
    }
}
