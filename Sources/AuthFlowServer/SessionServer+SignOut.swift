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
        return try await credentials.credentials(tagged: userTag(identity.issuer, identity.subject)).compactMap {
            found in
            found.credential.map {
                SessionSummary(
                    name: found.key.name,
                    signedInAt: $0.signedInAt,
                    lastUse: found.lastUse,
                    isCurrent: found.key.name == session.name
                )
            }
        }.sorted { $0.signedInAt > $1.signedInAt }
    }

    /// Ends sessions of a session's user in every process, and revokes their tokens.
    /// - Parameters:
    ///   - session: The session of the user who asks. No other user's session is ended.
    ///   - names: The sessions; nil for all, this one included: "sign out everywhere".
    /// - Throws: ``/AuthFlow/AuthError`` with `storage_failed`.
    public func endSessions(ofUserOf session: Session, named names: [String]? = nil) async throws {
        var keys = [credentials.recordKey(for: key(session.identifier))]
        if let identity = session.identity {
            keys += try await credentials.credentials(tagged: userTag(identity.issuer, identity.subject)).map(\.key)
        }
        if let names { keys.removeAll { !names.contains($0.name) } }
        revoke(try await credentials.remove(Array(Set(keys))))
    }

    /// The tags by which the sessions of a user and of a session at the provider are found.
    func tags(of credential: Credential) -> [RecordTag] {
        guard let identity = credential.identity else { return [] }
        let sessionID = Self.sessionID(of: credential)
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
        credentials.begin { [client] in for credential in removed { try? await client.revoke(credential) } }
    }
}

// MARK: - Routes

extension SessionServer {
    /// POST /logout: ends the session here, with `everywhere=1` all of the user's, and sends the browser to the provider's sign-out page
    /// where there is one.
    func signOut(_ query: String, _ body: [UInt8], _ request: HTTPRequest) async -> TransportResponse {
        guard isFromOwnForm(request) || isFromOwnPage(request) else { return ServerResponse.plain(.forbidden) }
        let cookie = sessionCookie("").removal
        guard let identifier = sessionIdentifier(of: request) else {
            return ServerResponse.redirect(to: options.startPath).setting(cookie)
        }
        do {
            let key = credentials.recordKey(for: self.key(identifier))
            let removed = try await credentials.remove([key])
            let parameters = [query, String(decoding: body, as: UTF8.self)].map {
                FormURLEncoding.decode($0) ?? FormParameters()
            }
            if parameters.contains(where: { $0["everywhere"] == "1" }), let identity = removed.first?.identity {
                let others = try await credentials.credentials(tagged: userTag(identity.issuer, identity.subject))
                revoke(try await credentials.remove(others.map(\.key)))
            }
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

    /// GET /session: tells a script of the page who is signed in (RFC 10017 section 6.1.2.1).
    func describeSession(_ request: HTTPRequest) async -> TransportResponse {
        guard isFromOwnPage(request) else { return ServerResponse.plain(.forbidden) }
        do {
            // A page that asks all the time is no user.
            guard let session = try await session(of: request, isUse: false) else {
                return ServerResponse.json(.unauthorized, ["signed_in": false]).setting(sessionCookie("").removal)
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
            let found = try await sessions(of: token)
            let rest = max(1, token.acceptedUntil.timeIntervalSince(client.server.host.now()))
            let claim = RecordKey(
                name: token.identifier,
                issuer: token.issuer,
                clientID: client.registration.clientID,
                kind: .claim
            )
            let isFirst = try await store.claim(claim, for: .seconds(rest))
            // A provider that sends it again, because the first time something failed, means the sessions of that time. An attacker who
            // sends it again ends none that were begun later.
            let meant = isFirst ? found : found.filter { $0.credential.map { $0.signedInAt < token.issuedAt } ?? false }
            guard isFirst || found.isEmpty || !meant.isEmpty else {
                return refused("The logout token was used before (jti).")
            }
            let removed = try await credentials.remove(meant.map(\.key))
            // Section 2.7: "refresh tokens issued without the offline_access property ... SHOULD be revoked", and with it "normally
            // SHOULD NOT".
            revoke(removed.filter { !$0.tokens.scopes.contains("offline_access") })
            return ServerResponse.plain(.ok)
        } catch {
            return ServerResponse.json(.serviceUnavailable, ["error": "temporarily_unavailable"])
        }
    }

    /// The sessions that a logout token ends: with `sid` those of that session at the provider, otherwise all of the user. One that cannot
    /// be read here is meant too: another process may be able to.
    private func sessions(of token: LogoutToken) async throws -> [TaggedCredential] {
        func isOfUser(_ found: TaggedCredential) -> Bool {
            guard let subject = token.subject, let credential = found.credential else { return true }
            return credential.identity?.subject == subject
        }
        let ofUser =
            if let subject = token.subject {
                try await credentials.credentials(tagged: userTag(token.issuer, subject))
            } else {
                [TaggedCredential]()
            }
        guard let sessionID = token.sessionID else { return ofUser }
        let ofSession = try await credentials.credentials(tagged: providerSessionTag(token.issuer, sessionID)).filter(
            isOfUser
        )
        // A sign-in whose ID Token had no session identifier may be of this session.
        return ofSession + ofUser.filter { $0.credential.map { Self.sessionID(of: $0) == nil } ?? false }
    }

    private static func sessionID(of credential: Credential) -> String? {
        credential.tokens.verifiedIDToken?.claims["sid"]?.string
    }
}
