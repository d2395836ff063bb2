import AuthFlow
import AuthFlowEssentials

// Logouts by the provider (OpenID Connect Back-Channel Logout 1.0).

extension SessionServer {
    /// POST /backchannel-logout: ends the sessions that the provider's logout token identifies (OpenID Connect Back-Channel Logout
    /// 1.0 section 2.5).
    /// - Parameter body: The form.
    func endSessions(_ body: String, at provider: ProviderSessions) async -> TransportResponse {
        // Section 2.8: "If the logout request was invalid or the logout failed, the RP MUST respond with HTTP 400 Bad Request."
        func refused(_ reason: String) -> TransportResponse {
            ServerResponse.json(.badRequest, ["error": "invalid_request", "error_description": .string(reason)])
        }
        let form = FormURLEncoding.decode(body)
        guard let texts = form?.values(for: "logout_token"), texts.count == 1 else {
            return refused("The request must contain exactly one logout_token.")
        }
        let token: LogoutToken
        do {
            token = try await provider.client.verify(logoutToken: Secret(texts[0]), options.logoutTokens)
        } catch let error as AuthError where error.code == .invalidLogoutToken {
            return refused(DisplayText.sanitized(error.message))
        } catch {
            // Any client can cause `temporarily_unavailable`, with a token that has a forged key ID.
            if (error as? AuthError)?.code != .temporarilyUnavailable { report(.endSession, error) }
            return ServerResponse.json(.serviceUnavailable, ["error": "temporarily_unavailable"])
        }
        do {
            // The operation is completed even if the current task is cancelled: the provider might not resend the token, and the use must be
            // recorded if the sessions have ended.
            let isReplay = try await complete(at: provider) { [self] in
                try await storeLogoutRecords(of: token, at: provider)
                let found = try await sessions(of: token, at: provider)
                let isFirst = try await !wasUsed(token, at: provider)
                let logout = ProviderLogout(
                    token: token,
                    isFirst: isFirst,
                    clockLeeway: provider.client.registration.clockLeeway
                )
                let targets = found.filter(logout.ends)
                guard !logout.isReplay(ending: targets, of: found) else { return true }
                try await end(targets, at: provider, .providerLogout, revoking: \.endsWithProviderSession)
                if isFirst { try await recordUse(of: token, at: provider) }
                return false
            }
            return isReplay
                ? refused("The logout token has already been used (jti).") : ServerResponse.plain(.ok)
        } catch {
            return ServerResponse.json(.serviceUnavailable, ["error": "temporarily_unavailable"])
        }
    }

    /// The sessions that a logout token may end: with `sid`, the sessions that belong to that session at the provider;
    /// otherwise, all sessions of the user.
    private func sessions(
        of token: LogoutToken,
        at provider: ProviderSessions
    ) async throws -> [TaggedCredential] {
        let ofUser =
            if let subject = token.subject {
                try await sessionsToEnd(ofUser: subject, token.issuer, at: provider)
            } else {
                [TaggedCredential]()
            }
        guard let sessionID = token.sessionID else { return ofUser }
        let ofSession = try await sessionsToEnd(ofProviderSession: sessionID, token.issuer, at: provider)
            .filter(token.isForUser)
        // A sign-in whose ID Token had no session identifier may belong to this session.
        return ofSession + ofUser.filter { $0.credential.map { $0.authentication?.sessionID == nil } ?? false }
    }
}

// MARK: - Sign-ins in progress

// A logout token may arrive between the code exchange and the write of the new session, when there is no session to
// find. Therefore, a logout stores a record before it looks up sessions, and a sign-in looks up such records after it
// writes its session, so that one of the two always finds the other. The issue times of the logout token and of the
// ID Token both come from the provider, so the record never ends a later sign-in, even if the provider reuses the
// session identifier. A front-channel logout request contains no timestamp, so its record contains the current time plus
// the allowed clock skew, because this machine's clock may be behind the provider's clock.

extension SessionServer {
    /// The keys of a logout record: the first key is used for writing, and all keys are used for lookups.
    private func keys(of subject: LogoutRecordSubject, _ issuer: String, at provider: ProviderSessions) -> [RecordKey] {
        let clientID = provider.client.registration.clientID
        return HashedTag(["logout", clientID, issuer] + subject.parts, keys: options.tagKeys).all.map { tag in
            RecordKey(name: Base64URL.encode(tag.bytes), issuer: issuer, clientID: clientID, kind: .logout)
        }
    }

    /// Stores the records of a logout token for longer than the maximum duration of a sign-in, so that sign-ins in progress
    /// can find them. The sign-in time is recorded when the tokens arrive, which may be after the logout.
    private func storeLogoutRecords(of token: LogoutToken, at provider: ProviderSessions) async throws {
        for subject in LogoutRecordSubject.stored(by: token) {
            try await storeLogoutRecord(subject, token.issuer, token.issuedAt, at: provider)
        }
    }

    /// Stores a record of a logout token whose sessions have ended. If the process is killed or the store fails before the record is stored, the provider may resend
    /// the token, which must then end the same sessions as if it were used for the first time.
    private func recordUse(of token: LogoutToken, at provider: ProviderSessions) async throws {
        let rest = max(0, token.acceptedUntil.timeIntervalSince(host.now()))
        let lifetime = Duration.seconds(rest) + provider.client.registration.clockLeeway
        try await storeLogoutRecord(.token(token.identifier), token.issuer, token.issuedAt, for: lifetime, at: provider)
    }

    /// Whether a logout token has already been used.
    private func wasUsed(_ token: LogoutToken, at provider: ProviderSessions) async throws -> Bool {
        for key in keys(of: .token(token.identifier), token.issuer, at: provider) {
            if try await logout(in: key) != nil { return true }
        }
        return false
    }

    /// Stores a record for a session that the provider has just ended.
    func storeLogoutRecord(ofProviderSession name: String, _ issuer: String, at provider: ProviderSessions) async throws
    {
        let time = host.now() + provider.client.registration.clockLeeway.seconds
        try await storeLogoutRecord(.session(name), issuer, time, at: provider)
    }

    private func storeLogoutRecord(
        _ subject: LogoutRecordSubject,
        _ issuer: String,
        _ issuedAt: Date,
        for lifetime: Duration = signInTimeout * 2,
        at provider: ProviderSessions
    ) async throws {
        guard let key = keys(of: subject, issuer, at: provider).first else { return }
        try await storeLogoutRecord(key, issuedAt, for: lifetime)
    }

    private func storeLogoutRecord(_ key: RecordKey, _ issuedAt: Date, for lifetime: Duration) async throws {
        try await store.withLease(on: key) { lease in
            var time = issuedAt.timeIntervalSince1970
            switch try await logout(in: key) {
            // An earlier time does not replace a later time.
            case .at(let last)?: time = max(time, last)
            // The record was stored before now.
            case .unreadable?: time = max(time, host.now().timeIntervalSince1970)
            case nil: break
            }
            try await store.write(
                Array("\(time)".utf8),
                RecordAttributes(lifetime: lifetime),
                under: lease
            )
        }
    }

    /// A logout that is recorded in the store.
    private enum RecordedLogout {
        /// The time, in seconds since 1970.
        case at(TimeInterval)
        /// The record is damaged, or is encrypted with a key that is not configured. Its time is unknown.
        case unreadable
    }

    /// The logout in a record; nil when there is none.
    private func logout(in key: RecordKey) async throws -> RecordedLogout? {
        do {
            guard let bytes = try await store.bytes(for: key) else { return nil }
            guard let time = TimeInterval(String(decoding: bytes, as: UTF8.self)) else { return .unreadable }
            return .at(time)
        } catch let error as AuthError where error.code == .credentialUnusable {
            return .unreadable
        }
    }

    /// Whether the provider ended the session of a sign-in before the session was stored here.
    func wasEndedMeanwhile(_ credential: Credential, at provider: ProviderSessions) async throws -> Bool {
        guard let identity = credential.identity else { return false }
        // If the process was paused for longer than the maximum duration of a sign-in, a record may have expired, so the
        // session is treated as ended.
        let age = host.now().timeIntervalSince(credential.signedInAt)
        guard age < Self.signInTimeout.seconds else { return true }
        let subjects = LogoutRecordSubject.concerning(identity.subject, session: credential.authentication?.sessionID)
        var wasEnded = false
        for key in subjects.flatMap({ keys(of: $0, identity.issuer, at: provider) }) {
            switch try await logout(in: key) {
            case .at(let time)?: wasEnded = wasEnded || LogoutRecordSubject.hasEnded(credential, at: time)
            case .unreadable?:
                // It may have ended this session. The record is replaced, so that it does not end every sign-in until it expires.
                try await storeLogoutRecord(key, host.now(), for: Self.signInTimeout * 2)
                wasEnded = true
            case nil: break
            }
        }
        return wasEnded
    }
}
