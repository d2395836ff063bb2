public import AuthFlow

// "Configure Native SSO": other apps can exchange the device secret that is issued at one app's sign-in, and thereby sign the user in.

/// The device secret and the session that the apps of a group share.
struct SharedSecret: Sendable {
    /// The maximum number of replaced secrets.
    private static let replacedLimit = 8

    let deviceSecret: Secret
    let idToken: Secret
    let subject: String
    /// The user's other device secrets: other apps may still be signed in with them.
    private(set) var replaced: [Secret] = []
}

extension SharedSecret {
    /// Parses JSON in the format of ``json``.
    init?(_ json: JSON) {
        guard let secret = json["device_secret"]?.string, let idToken = json["id_token"]?.string,
            let subject = json["sub"]?.string
        else { return nil }
        self.init(deviceSecret: Secret(secret), idToken: Secret(idToken), subject: subject)
        self.replaced = (json["replaced_secrets"]?.strings ?? []).map(Secret.init)
    }

    var json: JSON {
        var json: [String: JSON] = [
            "device_secret": .string(deviceSecret.exposed), "id_token": .string(idToken.exposed),
            "sub": .string(subject),
        ]
        if !replaced.isEmpty { json["replaced_secrets"] = .array(replaced.map { .string($0.exposed) }) }
        return .object(json)
    }

    /// All of the user's device secrets, the shared device secret first.
    var all: [Secret] { [deviceSecret] + replaced }

    /// Adds a device secret of the user, other than the shared device secret.
    mutating func addReplaced(_ secret: Secret) { replaced = Array(([secret] + replaced).prefix(Self.replacedLimit)) }

    /// A copy of this secret with the user's earlier device secrets as its replaced secrets.
    func replacing(_ old: SharedSecret?) -> SharedSecret {
        guard let old, old.subject.isIdentical(to: subject) else { return self }
        var new = self
        new.replaced = Array(old.all.filter { $0 != deviceSecret }.prefix(Self.replacedLimit))
        return new
    }
}

/// A record of the end of a shared sign-in, which replaces the shared device secret.
private struct SharedSignOut: Sendable {
    /// The app that signed the user out of all apps.
    let clientID: String
    let subject: String?
    /// The device secret, if it could not be revoked, in which case the sign-out page must revoke it.
    let unrevoked: Secret?
}

extension SharedSignOut {
    /// Parses JSON in the format of ``json``.
    init?(_ json: JSON) {
        guard let clientID = json["ended_by"]?.string else { return nil }
        self.init(
            clientID: clientID,
            subject: json["sub"]?.string,
            unrevoked: json["unrevoked_secret"]?.string.map(Secret.init)
        )
    }

    var json: JSON {
        var json: [String: JSON] = ["ended_by": .string(clientID)]
        json["sub"] = subject.map(JSON.string)
        json["unrevoked_secret"] = unrevoked.map { .string($0.exposed) }
        return .object(json)
    }
}

extension OktaProvider {
    private func sharedSecret(in context: ProviderContext) async throws -> SharedSecret? {
        try await context.sharedCredentials?.value(for: issuer).flatMap { SharedSecret($0.exposed) }
    }

    /// The shared device secret, if it belongs to the given user.
    private func sharedSecret(of subject: String?, in context: ProviderContext) async throws -> SharedSecret? {
        guard let subject, let shared = try await sharedSecret(in: context), shared.subject.isIdentical(to: subject)
        else { return nil }
        return shared
    }

    /// The device secret for the sign-out page: the app's device secret, or the shared device secret with which the user was signed in.
    func deviceSecret(endedBy tokens: TokenSet?, in context: ProviderContext) async throws -> Secret? {
        if let own = tokens?.deviceSecret { return own }
        let subject = tokens?.verifiedIDToken?.claims["sub"]?.string
        if let shared = try await sharedSecret(of: subject, in: context) { return shared.deviceSecret }
        let sharedSignOut = try await context.sharedCredentials?.value(for: issuer).flatMap {
            SharedSignOut($0.exposed)
        }
        guard let sharedSignOut, sharedSignOut.clientID.isIdentical(to: context.registration.clientID),
            let subject, sharedSignOut.subject.isIdentical(to: subject)
        else { return nil }
        return sharedSignOut.unrevoked
    }

    /// Checks that the ID Token and the device secret that was issued with it belong together (`ds_hash`).
    public func check(_ credential: Credential, replacing previous: Credential?, in context: ProviderContext)
        async throws
    {
        // After a refresh, the ID Token may still be from the sign-in, while the device secret is from the refresh.
        guard let idToken = credential.tokens.verifiedIDToken, idToken != previous?.tokens.verifiedIDToken,
            let secret = credential.tokens.deviceSecret
        else { return }
        try requireHash(of: secret, in: idToken)
    }

    /// `ds_hash` is computed like `at_hash`, and optional.
    private func requireHash(of secret: Secret, in idToken: IDToken) throws(AuthError) {
        guard let hash = idToken.claims["ds_hash"] else { return }
        guard let expected = idToken.leftHash(of: secret), hash == .string(expected) else {
            throw AuthError(.invalidIDToken, "The ID Token does not match the device secret (ds_hash).")
        }
    }
}

extension OktaProvider: SharedSignIn {
    /// Exchanges the ID Token and device secret that another app has shared.
    public func exchangeForSignIn(in context: ProviderContext) async throws -> TokenExchange? {
        guard isShared(context.registration), let shared = try await sharedSecret(in: context) else { return nil }
        var exchange = TokenExchange(
            shared.idToken,
            type: .idToken,
            audience: audience.map { [$0] } ?? [],
            // The device secret remains the same: it was issued for the sign-in, and an exchange issues no new one.
            scopes: context.registration.scopes.filter { $0 != "device_sso" }
        )
        exchange.actorToken = shared.deviceSecret
        exchange.actorTokenType = secretType
        exchange.subject = shared.subject
        return exchange
    }

    /// Checks that the ID Token belongs to the session that was exchanged, if it contains `ds_hash` or `sid`, which are optional. Another app may
    /// have shared a different session of the user in the meantime.
    public func check(_ credential: Credential, from exchange: TokenExchange, in context: ProviderContext)
        async throws
    {
        guard let idToken = credential.tokens.verifiedIDToken else { return }
        if let secret = credential.tokens.deviceSecret ?? exchange.actorToken {
            try requireHash(of: secret, in: idToken)
        }
        if let sid = idToken.claims["sid"], let expected = Self.session(of: exchange.subjectToken), sid != expected {
            throw AuthError(.invalidIDToken, "The ID Token belongs to a session other than the exchanged one (sid).")
        }
    }

    /// The `sid` of a shared ID Token, which the app that shared it has verified.
    private static func session(of idToken: Secret) -> JSON? {
        let parts = idToken.exposed.split(separator: ".", omittingEmptySubsequences: false)
        guard parts.count == 3, let payload = Base64URL.decode(parts[1]) else { return nil }
        return (try? JSON(parsing: payload))?["sid"]
    }

    /// Shares the device secret that was issued with a sign-in or a refresh.
    public func share(_ credential: Credential, replacing previous: Credential?, in context: ProviderContext)
        async throws
    {
        let tokens = credential.tokens
        guard let store = context.sharedCredentials, let secret = tokens.deviceSecret, let idToken = tokens.idToken,
            let subject = credential.identity?.subject
        else { return }
        let shared = SharedSecret(deviceSecret: secret, idToken: idToken, subject: subject)
        try await store.change(for: issuer) { old in
            let current = old.flatMap { SharedSecret($0.exposed) }
            guard let previous else { return RedactedJSON(shared.replacing(current).json) }
            // The group may have signed out since then, or use the device secret of a later sign-in.
            guard let replaced = previous.tokens.deviceSecret, var current, current.subject.isIdentical(to: subject),
                current.all.contains(replaced)
            else { return old }
            if current.deviceSecret == replaced { return RedactedJSON(shared.replacing(current).json) }
            current.addReplaced(secret)
            return RedactedJSON(current.json)
        }
    }

    /// Names the app that signed the user out of all apps, if any.
    public func reasonForEnd(of credential: Credential, in context: ProviderContext) async -> String? {
        let shared = try? await context.sharedCredentials?.value(for: issuer)
        guard let sharedSignOut = shared.flatMap({ SharedSignOut($0.exposed) }),
            let subject = credential.identity?.subject, sharedSignOut.subject.isIdentical(to: subject)
        else { return nil }
        return "signed out in the app \(DisplayText.sanitized(sharedSignOut.clientID, limit: 60))"
    }
}

extension OktaProvider: TokenRevoking {
    /// Revokes the device secret, if the sign-out applies to all apps, and then this app's tokens. The device secret of
    /// another user, who has since signed in to another app, remains valid. A shared record that is damaged or cannot be decrypted is removed.
    public func revoke(_ credential: Credential, in context: ProviderContext) async throws {
        let own = credential.revocableTokens(at: context.host.now())
        guard signOut != .thisApp, isShared(context.registration) else { return try await context.revoke(own) }
        let subject = credential.identity?.subject
        var failure: (any Error)?
        var shared: SharedSecret?
        do {
            shared = try await sharedSecret(of: subject, in: context)
        } catch {
            // This app's own tokens are revoked even if the shared record cannot be read.
            failure = error
        }
        // The user may have signed in to another app since this app's sign-in, so the shared device secret may differ from this app's.
        let secrets = Set([credential.tokens.deviceSecret].compactMap { $0 } + (shared?.all ?? []))
        do {
            try await context.revoke(secrets.map { RevocableToken($0, typeHint: "device_secret") } + own)
        } catch {
            failure = failure ?? error
        }
        // Regardless of the response, no app may use the secret from now on.
        let isUnrevoked = failure != nil && signOut == .allAppsWithSecretInAddress
        let sharedSignOut = SharedSignOut(
            clientID: context.registration.clientID,
            subject: subject,
            unrevoked: isUnrevoked ? shared?.deviceSecret ?? credential.tokens.deviceSecret : nil
        )
        do {
            try await context.sharedCredentials?.change(for: issuer) { old in
                let current = old.flatMap { SharedSecret($0.exposed) }
                let isAnother = current.map { !secrets.contains($0.deviceSecret) } ?? false
                // The sign-out page must still revoke the secret in the existing record, so the record is retained.
                let isAwaited = old.flatMap { SharedSignOut($0.exposed) }?.unrevoked != nil
                return isAnother || isAwaited ? old : RedactedJSON(sharedSignOut.json)
            }
        } catch let error as AuthError where error.code == .credentialUnusable {
            // Otherwise, every later sign-out would fail, and no later sign-in could be shared.
            try await context.sharedCredentials?.remove(for: issuer)
        }
        if let failure { throw failure }
    }
}
