import AuthFlow
import AuthFlowJSON
import HTTPTypes

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

// MARK: - The sessions of a user

extension SessionServer {
    /// Returns the sessions of a session's user, the newest first.
    /// - Throws: ``/AuthFlow/AuthError`` with `storage_failed`.
    public func sessions(ofUserOf session: Session) async throws -> [SessionSummary] {
        guard let identity = session.identity else {
            return [
                SessionSummary(
                    name: session.name,
                    signedInAt: session.signedInAt,
                    lastUse: session.signedInAt,
                    isCurrent: true
                )
            ]
        }
        return try await credentials.credentials(tagged: userTag(identity.issuer, identity.subject)).map {
            SessionSummary(
                name: $0.key.name,
                signedInAt: $0.credential.signedInAt,
                lastUse: $0.lastUse,
                isCurrent: $0.key.name == session.name
            )
        }.sorted { $0.signedInAt > $1.signedInAt }
    }

    /// Ends sessions of a session's user in every process, and revokes their tokens.
    /// - Parameters:
    ///   - session: The session of the user who asks. No other user's session is ended.
    ///   - names: The sessions; nil for all, this one included: "sign out everywhere".
    /// - Throws: ``/AuthFlow/AuthError`` with `storage_failed`.
    public func endSessions(ofUserOf session: Session, named names: [String]? = nil) async throws {
        var keys = [credentials.recordKey(for: CredentialKey(session.identifier.exposed))]
        if let identity = session.identity {
            keys += try await credentials.credentials(tagged: userTag(identity.issuer, identity.subject)).map(\.key)
        }
        if let names { keys.removeAll { !names.contains($0.name) } }
        revoke(try await credentials.remove(Array(Set(keys))))
    }

    /// The tags by which the sessions of a user and of a session at the provider are found.
    func tags(of credential: Credential) -> [RecordTag] {
        guard let identity = credential.identity else { return [] }
        let sessionID = credential.tokens.verifiedIDToken?.claims["sid"]?.string
        return [userTag(identity.issuer, identity.subject)]
            + (sessionID.map { [providerSessionTag(identity.issuer, $0)] } ?? [])
    }

    private func userTag(_ issuer: String, _ subject: String) -> RecordTag {
        RecordTag(["sub", client.registration.clientID, issuer, subject], key: options.tagKey)
    }

    /// OpenID Connect Back-Channel Logout section 2.4: a `sid` is unique within its issuer.
    private func providerSessionTag(_ issuer: String, _ sessionID: String) -> RecordTag {
        RecordTag(["sid", client.registration.clientID, issuer, sessionID], key: options.tagKey)
    }

    /// Revokes tokens, while the response is on its way: that the session has ended does not depend on it.
    func revoke(_ removed: [Credential]) {
        guard !removed.isEmpty else { return }
        Task { [client] in for credential in removed { try? await client.revoke(credential) } }
    }
}

// MARK: - Routes

extension SessionServer {
    /// POST /logout: ends the session here, with `everywhere=1` all of the user's, and sends the browser to the provider's sign-out page
    /// where there is one.
    func signOut(_ query: String, _ request: HTTPRequest) async -> TransportResponse {
        guard isFromOwnForm(request) || isFromOwnPage(request) else { return ServerResponse.plain(.forbidden) }
        let cookie = sessionCookie("").removal
        guard let identifier = sessionIdentifier(of: request) else {
            return ServerResponse.redirect(to: options.startPath).setting(cookie)
        }
        do {
            let key = credentials.recordKey(for: CredentialKey(identifier.exposed))
            let isEverywhere = FormURLEncoding.decode(query)?["everywhere"] == "1"
            if isEverywhere, let session = try await session(of: request) {
                try await endOtherSessions(ofUserOf: session)
            }
            let removed = try await credentials.remove([key])
            // Before the tokens are revoked: some providers take the ID Token of a revoked grant for no hint.
            var end: EndSessionRequest?
            if let credential = removed.first { end = try? await client.endSessionRequest(for: credential) }
            revoke(removed)
            return ServerResponse.redirect(to: end?.url ?? options.startPath).setting(cookie)
        } catch {
            return ServerResponse.refusal(
                .serviceUnavailable,
                "The session could not be ended. Try again.",
                start: options.startPath
            )
        }
    }

    private func endOtherSessions(ofUserOf session: Session) async throws {
        let others = try await sessions(ofUserOf: session).filter { !$0.isCurrent }.map(\.name)
        if !others.isEmpty { try await endSessions(ofUserOf: session, named: others) }
    }

    /// GET /session: tells a script of the page who is signed in (RFC 10017 section 6.1.2.1).
    func describeSession(_ request: HTTPRequest) async -> TransportResponse {
        guard isFromOwnPage(request) else { return ServerResponse.plain(.forbidden) }
        do {
            guard let session = try await session(of: request) else {
                return ServerResponse.json(.unauthorized, ["signed_in": false])
            }
            var json: [String: JSON] = [
                "signed_in": true, "signed_in_at": .integer(Int64(session.signedInAt.timeIntervalSince1970)),
            ]
            json["sub"] = session.identity.map { .string($0.subject) }
            json["name"] = session.identity.map { .string($0.displayName) }
            return ServerResponse.json(.ok, .object(json))
        } catch {
            return ServerResponse.json(.serviceUnavailable, ["error": "temporarily_unavailable"])
        }
    }

    /// POST /backchannel-logout: the provider has ended sessions (OpenID Connect Back-Channel Logout 1.0 section 2.5).
    func endSessions(_ body: [UInt8], _ request: HTTPRequest) async -> TransportResponse {
        // Section 2.8: "If the logout request is not valid or the logout failed, the RP MUST respond with HTTP 400 Bad Request."
        func refused(_ reason: String) -> TransportResponse {
            ServerResponse.json(.badRequest, ["error": "invalid_request", "error_description": .string(reason)])
        }
        let form = FormURLEncoding.decode(String(decoding: body, as: UTF8.self))
        guard let texts = form?.values(for: "logout_token"), texts.count == 1 else {
            return refused("The request has no logout_token.")
        }
        let token: LogoutToken
        do {
            token = try await client.verify(logoutToken: Secret(texts[0]), options.logoutTokens)
        } catch let error as AuthError where error.code == .invalidLogoutToken {
            return refused(DisplayText.sanitized(error.message))
        } catch {
            return ServerResponse.json(.serviceUnavailable, ["error": "temporarily_unavailable"])
        }
        do {
            let keys = try await sessions(of: token)
            // An attacker who sends a token again ends sessions that were begun later. A provider that sends it again because the response
            // was lost is told that it is done.
            let rest = max(1, token.acceptedUntil.timeIntervalSince(client.server.host.now()))
            let claim = RecordKey(
                name: token.identifier,
                issuer: token.issuer,
                clientID: client.registration.clientID,
                kind: .claim
            )
            guard try await store.claim(claim, for: .seconds(rest)) else {
                return keys.isEmpty ? ServerResponse.plain(.ok) : refused("The logout token was used before (jti).")
            }
            do {
                let removed = try await credentials.remove(keys)
                // Section 2.7: "refresh tokens issued without the offline_access property ... SHOULD be revoked", and with it "normally
                // SHOULD NOT".
                revoke(removed.filter { !$0.tokens.scopes.contains("offline_access") })
            } catch {
                // The provider may send it again, because nothing was done.
                _ = try? await store.remove([claim])
                throw error
            }
            return ServerResponse.plain(.ok)
        } catch {
            return ServerResponse.json(.serviceUnavailable, ["error": "temporarily_unavailable"])
        }
    }

    /// The sessions that a logout token ends: with `sid` those of that session at the provider, otherwise all of the user.
    private func sessions(of token: LogoutToken) async throws -> [RecordKey] {
        let tag =
            if let sessionID = token.sessionID {
                providerSessionTag(token.issuer, sessionID)
            } else {
                userTag(token.issuer, token.subject ?? "")
            }
        return try await credentials.credentials(tagged: tag)
            .filter { found in token.subject.map { found.credential.identity?.subject == $0 } ?? true }.map(\.key)
    }
}
