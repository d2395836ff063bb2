import AuthFlowEssentials
import AuthFlowOAuth
package import AuthFlowSignIn
import Synchronization

/// The authorization server for a resource, after discovery and validation.
struct FoundServer: Sendable {
    /// The resource identifier.
    let resource: String
    /// The resource's metadata; nil when the resource has none.
    let metadata: ProtectedResourceMetadata?
    /// The authorization server.
    let server: AuthorizationServer
    let serverMetadata: ProviderMetadata
    /// Whether the resource's origin is only assumed to be an authorization server.
    let isAssumed: Bool
}

extension ResourceClient {
    /// Finds the authorization server of the resource, and checks that a sign-in there is safe.
    /// - Parameter challenge: The resource's challenge; nil when unknown.
    /// - Throws: ``AuthError`` with `discovery_failed`, `issuer_mismatch` or `unsupported`.
    func find(_ challenge: ResourceChallenge?) async throws -> FoundServer {
        let discovery = ProtectedResourceDiscovery(address: address, transport: transport, host: host)
        let metadata = try await discovery.metadata(named: challenge?.metadata)
        let issuer: String
        var isAssumed = false
        if let metadata {
            let details = [
                "metadata": "\(metadata.location)", "resource": Redaction.url(metadata.resource),
                "fit": metadata.fit.rawValue,
            ]
            FlowReporter(host: host, observer: observer).report(.discovery, details: details)
        }
        if let issuers = metadata?.authorizationServers, !issuers.isEmpty {
            issuer = try await choose(among: issuers)
        } else if let registered {
            // MCP authorization, "Protected Resource Metadata Discovery": without metadata, "use pre-configured values".
            issuer = registered.server.issuer
        } else if let metadata {
            throw AuthError(
                .discoveryFailed,
                "\(address) does not name an authorization server: its metadata at \(metadata.location) has no \"authorization_servers\". If you have registered a client, configure it with its issuer."
            )
        } else if options.assumesAuthorizationServerAtOrigin {
            issuer = address.origin
            isAssumed = true
        } else {
            throw AuthError(
                .discoveryFailed,
                "\(address) does not name an authorization server: there is no protected resource metadata (RFC 9728) at its well-known URLs. Is it the URL of an API or an MCP server, and not the issuer of a provider?"
            )
        }
        let (server, serverMetadata) = try await resolve(issuer, isAssumed: isAssumed)
        if methods.withoutUser == nil {
            try OAuthClient.requireAdvertisedPKCE(serverMetadata)
            // This check must precede the registration of a client at these endpoints.
            try (server.source as? ResourceAuthorizationServer)?.requireOwnEndpoints(serverMetadata)
        }
        return FoundServer(
            resource: metadata?.resource ?? options.resource ?? address.resourceIdentifier,
            metadata: metadata,
            server: server,
            serverMetadata: serverMetadata,
            isAssumed: isAssumed
        )
    }

    /// The authorization server with the given issuer, and its metadata. The server's own spelling of the issuer is used from then on.
    private func resolve(_ issuer: String, isAssumed: Bool) async throws -> (AuthorizationServer, ProviderMetadata) {
        let server = server(issuer, isAssumed: isAssumed)
        do {
            return (server, try await server.metadata())
        } catch let error as AuthError where error.code == .issuerMismatch && registered == nil {
            // RFC 8414 section 3.3: the issuer in the metadata "MUST be identical" to the one from which the URL was formed.
            guard let other = IssuerSpelling.other(issuer).map({ self.server($0, isAssumed: isAssumed) }) else {
                throw error
            }
            do {
                return (other, try await other.metadata())
            } catch let second as AuthError where second.code == .issuerMismatch {
                throw error
            }
        }
    }

    /// RFC 9728 section 7.6: the client chooses among several authorization servers.
    private func choose(among issuers: [String]) async throws -> String {
        let chosen: String
        if let registered {
            // MCP authorization, "Authorization Server Binding": credentials of one server "MUST NOT" be used with another.
            guard issuers.contains(where: { IssuerSpelling.areEqual($0, registered.server.issuer) }) else {
                throw AuthError(
                    .issuerMismatch,
                    "\(address) trusts \(Self.list(issuers)), but this client is registered with \(registered.server.issuer). Register a client with a trusted authorization server, or check the URL."
                )
            }
            chosen = registered.server.issuer
        } else if let known = try await known(), issuers.contains(where: { IssuerSpelling.areEqual($0, known.issuer) })
        {
            chosen = known.issuer
        } else {
            chosen = issuers.first ?? ""
        }
        let endpoint = try AuthError.recoded(.discoveryFailed) { () throws(AuthError) in try Endpoint(issuer: chosen) }
        guard registered != nil || options.trusts(chosen) || address.mayReferTo(endpoint) else {
            throw AuthError(
                .discoveryFailed,
                "\(address.origin) names the authorization server \(endpoint.origin), a loopback or private address. If you trust this authorization server, list its issuer in \"issuers\"."
            )
        }
        return chosen
    }

    private static func list(_ issuers: [String]) -> String {
        issuers.prefix(3).map { Redaction.url($0) }.joined(separator: ", ")
    }

    /// The maximum number of scopes in one request. Some servers list more than a hundred scopes, in their metadata or in every challenge.
    private static let maximumScopes = 300

    /// The scopes to request.
    ///
    /// MCP authorization, "Scope Selection Strategy": the scopes in the challenge, else all of `scopes_supported`, else none.
    /// - Throws: ``AuthError`` with `unsupported` when the challenge and the options contain too many scopes for one request.
    func scopes(for challenge: ResourceChallenge?, _ found: FoundServer) async throws -> [String] {
        let required = Set((challenge?.scopes ?? []) + options.scopes)
        guard required.count <= Self.maximumScopes else {
            throw AuthError(
                .unsupported,
                "\(address) requires \(required.count) scopes; at most \(Self.maximumScopes) can be requested."
            )
        }
        let demanded = challenge?.scopes ?? found.metadata?.scopes ?? []
        let known = try await known()
        // "Step-Up Authorization Flow": the union with the previously requested scopes, so that no permission is lost.
        let isSame = known.map { $0.resource == found.resource && $0.issuer == found.server.issuer } ?? false
        // Some servers grant scopes that were not requested, and a step-up must not lose them. Scopes that neither metadata lists may not be requestable.
        let isStepUp = challenge.map { [.scope, .authentication].contains($0.demand) } ?? false
        let listed = Set((found.metadata?.scopes ?? []) + (found.serverMetadata.scopes ?? []))
        let granted = isSame && isStepUp ? try? await client()?.credential()?.tokens.scopes : nil
        // A server may report "openid" although it issues no ID Token.
        let kept = (granted ?? []).filter { $0 != "openid" && listed.contains($0) }
        let before = isSame ? (known?.scopes ?? []) + kept : []
        let configured = options.scopes + (registered?.registration.scopes.filter { $0 != "openid" } ?? [])
        var scopes: [String] = []
        var room = Self.maximumScopes - required.count
        // A scope that was configured after its rejection is requested again.
        let rejected = Set(isSame ? known?.rejectedScopes ?? [] : []).subtracting(configured)
        for scope in before + demanded + configured
        where !scopes.contains(scope) && (required.contains(scope) || room > 0 && !rejected.contains(scope)) {
            scopes.append(scope)
            if !required.contains(scope) { room -= 1 }
        }
        // "Refresh Tokens": offline_access only if the authorization server lists it, or the configuration does. As the only scope, it would
        // replace the scopes that the server grants by default.
        let isOffered = found.serverMetadata.scopes?.contains("offline_access") == true
        if !isOffered { scopes.removeAll { $0 == "offline_access" && !configured.contains($0) } }
        if isOffered, methods.withoutUser == nil, (1..<Self.maximumScopes).contains(scopes.count),
            !scopes.contains("offline_access")
        {
            scopes.append("offline_access")
        }
        return scopes
    }

    /// The requested scopes that only the resource's metadata lists, after the authorization server has rejected the request with `invalid_scope`.
    ///
    /// RFC 8414 section 2 allows a server to support scopes that it does not list, so all scopes are requested first. Scopes that a challenge or the
    /// configuration requires, or that were requested successfully before, are not included.
    func unlistedScopes(
        among scopes: [String],
        for challenge: ResourceChallenge?,
        _ found: FoundServer
    ) async throws -> [String] {
        guard let listed = found.serverMetadata.scopes, !listed.isEmpty else { return [] }
        let before = try await known()?.scopes ?? []
        let required = (challenge?.scopes ?? []) + options.scopes + (registered?.registration.scopes ?? [])
        let kept = Set(listed + required + before)
        return scopes.filter { !kept.contains($0) }
    }

    /// Whether tokens are DPoP-bound: as the options specify; by default, true if the last token was bound, if the registration or the resource
    /// requires it, or if the resource and the server support it.
    func usesDPoP(_ challenge: ResourceChallenge?, _ found: FoundServer) -> Bool {
        if let uses = options.usesDPoP { return uses }
        // A step-up must not weaken the binding of the previous token.
        let known = state.withLock { $0.known }
        if let known, known.usesDPoP, known.issuer == found.server.issuer, known.resource == found.resource {
            return true
        }
        if registered?.registration.usesDPoP == true || found.metadata?.requiresDPoP == true { return true }
        // The proofs of generated keys are signed with ES256, which the server and the resource (RFC 9728 section 2) must both accept.
        let name = "dpop_signing_alg_values_supported"
        let isOffered = found.serverMetadata.json[name]?.strings?.contains("ES256") == true
        let listed = found.metadata?.json[name]?.strings.flatMap { $0.isEmpty ? nil : $0 }
        let isWanted = listed?.contains("ES256") ?? (challenge?.isDPoP == true)
        return isOffered && isWanted
    }

    /// Rejects a resource that does not accept bearer tokens in the `Authorization` header, before the user signs in for a token that cannot be sent.
    ///
    /// RFC 9728 section 2: an empty `bearer_methods_supported` means that no bearer method is supported, but some serializers write an empty list for
    /// an absent value, so a challenge with the scheme `Bearer` takes precedence over an empty list.
    /// - Throws: ``AuthError`` with `unsupported`.
    func requireBearerInHeader(_ challenge: ResourceChallenge?, _ found: FoundServer) throws(AuthError) {
        guard let methods = found.metadata?.bearerMethods, !methods.contains("header") else { return }
        if methods.isEmpty, challenge?.isBearer == true { return }
        throw AuthError(
            .unsupported,
            methods.isEmpty
                ? "\(address) accepts no bearer tokens (an empty \"bearer_methods_supported\" in its metadata), and no other tokens can be obtained from \(found.server.issuer)."
                : "\(address) does not accept bearer tokens in the Authorization header (\"bearer_methods_supported\" in its metadata). Tokens in the body or in the query are not supported."
        )
    }

    // MARK: The client's identifier

    /// Identifies the client at an authorization server. The methods are tried in the order that MCP requires:
    /// pre-registration, client ID metadata document, dynamic registration.
    /// - Parameter isForSignIn: Whether the client is used to sign in. It is then not registered if no sign-in method can be used here.
    func identify(
        _ found: FoundServer,
        scopes: [String],
        usesDPoP: Bool,
        isForSignIn: Bool
    ) async throws -> KnownResource {
        var known = KnownResource(
            resource: found.resource,
            issuer: found.server.issuer,
            clientID: "",
            identification: .registered,
            scopes: scopes,
            usesDPoP: usesDPoP
        )
        known.isAssumed = found.isAssumed
        known.coversHost = found.metadata?.fit == .prefix
        if let registered {
            known.clientID = registered.registration.clientID
        } else if let document = options.clientMetadataDocument,
            found.serverMetadata.json["client_id_metadata_document_supported"] == true,
            // RFC 9700 section 4.4.2.2: a client with a metadata document has one set of redirect URIs for all servers, so the redirect URIs do
            // not distinguish the servers.
            found.serverMetadata.sendsIssuerInResponses || options.trusts(found.server.issuer)
        {
            known.clientID = document
            known.identification = .metadataDocument
        } else if found.serverMetadata.registrationEndpoint != nil {
            let stored = try await registrations.registration(at: known.issuer, for: redirectURI) {
                $0.isUsable(at: host.now())
            } orElse: {
                if isForSignIn { _ = try methods.requireLast() }
                return try await register(found, scopes: scopes)
            }
            known.clientID = stored.clientID
            known.identification = .dynamic
        } else {
            throw AuthError(
                .unsupported,
                options.clientMetadataDocument == nil
                    ? "\(known.issuer) does not support dynamic client registration. Register a client there, and configure its client_id."
                    : "\(known.issuer) does not support dynamic client registration, and does not advertise the features that the safe use of a client ID metadata document requires (client_id_metadata_document_supported, authorization_response_iss_parameter_supported). Register a client there, and configure its client_id."
            )
        }
        return known
    }

    /// Registers the client again with the resource's authorization server, and replaces the stored registration. The
    /// new registration cannot use the tokens of the old registration, so the user is signed out and must sign in again.
    /// - Returns: The new registration; the old registration, which continues to exist at the
    ///   server, or nil if there was no old registration or another resource has tokens from it; and the outcome of the sign-out.
    /// - Throws: ``AuthError`` with `unsupported` when the client is not dynamically registered there; any error from discovery, registration,
    ///   the store or the sign-out.
    package func renewRegistration() async throws -> (
        new: StoredRegistration, old: StoredRegistration?, signOut: SignOut
    ) {
        let challenge = try await requestChallenge()
        let found = try await find(challenge)
        let scopes = try await scopes(for: challenge, found)
        let old = try await registrations.readable(at: found.server.issuer, for: redirectURI)
        // If the store fails, or the record of this resource cannot be read, the renewal stops before it registers a client.
        if let old { _ = try await isUsed(clientID: old.clientID, at: old.issuer) }
        _ = try await hasSignIn()
        let present = try await identify(found, scopes: scopes, usesDPoP: false, isForSignIn: false)
        guard present.identification == .dynamic else {
            throw AuthError(.unsupported, "The client is not dynamically registered with \(present.issuer).")
        }
        // If there was no usable registration before, `identify` has just created one.
        var new = try await registrations.registration(at: present.issuer, for: redirectURI)
        if new == nil || new?.clientID == old?.clientID {
            let made = try await register(found, scopes: scopes)
            try await registrations.save(made, for: redirectURI)
            new = made
        }
        let signOut = try await signOut()
        guard let new else { throw AuthError(.storageFailed, "The registration with \(present.issuer) is not stored.") }
        guard let old, try await !isUsed(clientID: old.clientID, at: old.issuer) else { return (new, nil, signOut) }
        try await registrations.remove(at: old.issuer, for: redirectURI, clientID: old.clientID)
        return (new, old, signOut)
    }

    /// Registers the client (RFC 7591).
    /// - Parameter mayOmitScopes: Whether a registration without scopes is also useful.
    func register(
        _ found: FoundServer,
        scopes: [String],
        mayOmitScopes: Bool = true
    ) async throws -> StoredRegistration {
        let redirectURIs = registeredRedirectURIs(at: found.server.issuer)
        // Some servers grant only the scopes that a client was registered with, so the scopes that may be needed later are also included.
        let later = (found.metadata?.scopes ?? []).filter { !scopes.contains($0) }
        var request = DynamicRegistration.Request(redirectURIs: redirectURIs, name: options.clientName)
        // Includes refresh_token even if the server's metadata does not list it, because some servers list only authorization_code.
        request.grantTypes = ["authorization_code", "refresh_token"]
        var choices = [scopes + later]
        if !later.isEmpty { choices.append(scopes) }
        // RFC 7591 section 2: without `scope`, the server "MAY register a client with a default set of scopes".
        if !scopes.isEmpty, mayOmitScopes { choices.append([]) }
        let registered = try await Self.register(&request, withFirstOf: choices, at: found.server)
        return StoredRegistration(
            registered,
            issuer: found.server.issuer,
            redirectURIs: redirectURIs,
            scopes: request.scopes,
            at: host.wholeSecond
        )
    }

    /// Registers the client with the first scopes that the server accepts. Some servers reject a registration with a scope that they do not allow for
    /// dynamically registered clients, instead of registering the client without that scope.
    /// - Parameters:
    ///   - request: The request, without scopes; afterwards, with the registered scopes.
    ///   - choices: The scopes to try; an empty element for a registration without `scope`.
    private static func register(
        _ request: inout DynamicRegistration.Request,
        withFirstOf choices: [[String]],
        at server: AuthorizationServer
    ) async throws -> DynamicRegistration.Registered {
        let registration = DynamicRegistration(server: server)
        for (scopes, next) in zip(choices, choices.dropFirst()) {
            request.scopes = scopes
            do {
                return try await registration.register(request)
            } catch let error as AuthError where error.code == .providerRejected {
                // Without `scope`, a client may be registered with fewer scopes than it needs, so the error must be about the scopes.
                let errors = ["invalid_scope", "insufficient_scope", "invalid_client_metadata"]
                let mayConcernScopes = error.providerError.map { errors.contains($0.error) } ?? (error.status == 400)
                guard !next.isEmpty || mayConcernScopes else { throw error }
            }
        }
        request.scopes = choices.last ?? []
        return try await registration.register(request)
    }

    /// Many servers compare the port of a loopback redirect URI, although RFC 8252 section 7.3 requires them to allow
    /// any port. Therefore, a few ports are registered, at least one of which should be free.
    private func registeredRedirectURIs(at issuer: String) -> [RedirectURI] {
        options.redirectURIs.map { $0.own(for: issuer) }.flatMap { uri -> [RedirectURI] in
            guard case .loopback(_, nil, _) = uri.kind else { return [uri] }
            var ports: Set<Int> = []
            while ports.count < 3 {
                let bytes = host.randomBytes(2)
                // Above the most widely used ports, and below Linux's ephemeral ports.
                ports.insert(10_000 + (Int(bytes[0]) << 8 | Int(bytes[1])) % 22_000)
            }
            return ports.sorted().compactMap { try? RedirectURI(uri.uri(port: $0)) }
        }
    }

    /// Whether an authorization server no longer recognizes a client that was dynamically registered more than a minute
    /// ago. The server's error page would never redirect back, and the user could do nothing about it.
    func isUnregistered(_ known: KnownResource, _ client: AuthClient) async throws -> Bool {
        guard let stored = try await registrations.registration(at: known.issuer, for: redirectURI),
            !stored.isNew(at: host.now(), for: 60), let redirectURI = stored.redirectURIs.first
        else { return false }
        let oauth = client.client
        let metadata = try await oauth.metadata()
        // A pushed request is rejected before a page is shown.
        guard metadata.pushedAuthorizationRequestEndpoint == nil else { return false }
        // If the server supports `prompt`, the request ends without showing a page.
        let prompt = known.scopes.contains("openid") ? AuthorizationOptions.Prompt.none : nil
        let request = try await oauth.authorizationRequest(
            AuthorizationOptions(prompt: prompt, scopes: known.scopes, resources: [known.resource]),
            redirectURI: redirectURI.uri,
            state: host.randomToken()
        )
        let probe = TransportRequest(
            .get,
            try Endpoint(request.url),
            timeout: .seconds(10),
            maximumResponseSize: 64 * 1024
        )
        // Unlike other requests, this one may be answered with a redirect, which is not followed.
        let received = try? await withDeadline(probe.timeout, clock: host.clock) {
            AuthError(.timedOut, "The authorization server did not respond in time.")
        } _: { [transport] in
            try await transport.send(probe)
        }
        guard let response = received else { return false }
        switch response.status {
        // RFC 6749 section 4.1.2.1 forbids a redirect to the unverified redirect URI. Some servers redirect to an error page.
        case 300..<400: return Self.isUnknownClient(Self.errorInRedirect(response))
        case 400, 401, 422: break
        default: return false
        }
        let json = try? response.parsed()
        switch json?["error"]?.string {
        case "invalid_client": return true
        // Some validation libraries return all parameters of the request in an error about one of them. A page may contain them in its links, also if it
        // is about the client.
        case nil, "invalid_request":
            return Self.namesClient(response.body) && (json == nil || !response.body.contains("code_challenge".utf8))
        default: return false
        }
    }

    /// The `error` parameter in the target of a redirect.
    private static func errorInRedirect(_ response: TransportResponse) -> String? {
        let location = (response.head.headerFields[.location] ?? "").prefix { $0 != "#" }
        guard let start = location.firstIndex(of: "?") else { return nil }
        return RedirectResponse.parameters(in: location[location.index(after: start)...])?["error"]
    }

    /// Whether an error means that the server does not recognize the client.
    static func isUnknownClient(_ error: String?) -> Bool { error == "invalid_client" }

    /// Whether an error page contains "client_id" or "client ID": such pages have no standard
    /// format. Bytes are compared, because Swift compares text with many combining marks slowly.
    private static func namesClient(_ body: [UInt8]) -> Bool {
        let text = body.map { (UInt8(ascii: "A")...UInt8(ascii: "Z")).contains($0) ? $0 | 0x20 : $0 }
        return text.contains("client_id".utf8) || text.contains("client id".utf8)
    }
}
