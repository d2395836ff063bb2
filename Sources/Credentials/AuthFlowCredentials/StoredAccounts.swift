public import AuthFlowEssentials
public import AuthFlowOAuth
import AuthFlowStorage

/// A session that the provider has ended. This record replaces a credential whose refresh was rejected, or returned another user's tokens.
public struct EndedSession: Sendable, Hashable {
    /// The user; nil when unknown.
    public let identity: Identity?

    /// The reason, usually the provider's error code and description. It is untrusted text.
    public let reason: String

    /// The time at which the end of the session was detected, according to this machine's clock.
    public let endedAt: Date

    /// Whether an earlier lease holder never released its lease, for example because its process was killed. That
    /// holder may have refreshed the tokens, and the new refresh token may be lost.
    public let isAfterInterruptedRefresh: Bool

    let account: AccountID
}

/// One record of a store: the accounts that are signed in under one key, one of which is the current account.
///
/// A web server session has one account; an app may have several. The accounts form one document, so that
/// every change is written atomically.
package struct StoredAccounts: Sendable, Hashable {
    package enum Entry: Sendable, Hashable {
        case signedIn(Credential)
        case ended(EndedSession)

        package var account: AccountID {
            switch self {
            case .signedIn(let credential): credential.account
            case .ended(let session): session.account
            }
        }

        /// The credential; nil when the session has ended.
        package var credential: Credential? {
            if case .signedIn(let credential) = self { credential } else { nil }
        }

        /// Whether this is a later entry of the same session: its tokens may have been refreshed, or it may have ended. A later sign-in to the
        /// account is another session.
        func continues(_ earlier: Self) -> Bool {
            guard let credential else { return true }
            return credential.signedInAt == earlier.credential?.signedInAt
        }

        /// The entry without the fields that can change while the tokens remain the same.
        var tokensOnly: Self {
            guard case .signedIn(var credential) = self else { return self }
            credential.applicationData = nil
            credential.rejectedRefreshes = 0
            return .signedIn(credential)
        }
    }

    package private(set) var entries: [Entry] = []

    /// The default account.
    private(set) var current: AccountID?

    /// Creates a record without accounts.
    package init() {}

    /// The entry of the account with the given name (``AccountID/isNamed(_:)``), or of the current account; nil if several accounts have
    /// the name. OpenID Connect Core section 5.7: a subject is unique only within its issuer.
    package func entry(_ name: String?) -> Entry? {
        guard let name else { return entries.first { $0.account == current } }
        let named = entries.filter { $0.account.isNamed(name) }
        return named.count == 1 ? named.first : nil
    }

    /// Checks that the name matches at most one account.
    /// - Throws: ``AuthError`` with `invalid_configuration`.
    package func requireUnambiguous(_ name: String?) throws(AuthError) {
        guard let name, entries.count(where: { $0.account.isNamed(name) }) > 1 else { return }
        throw AuthError(
            .invalidConfiguration,
            "Several accounts have the subject \"\(DisplayText.sanitized(name, limit: 80))\", at different issuers. Name the account by its issuer and subject, separated by a space."
        )
    }

    /// The entry of an account.
    func entry(of account: AccountID) -> Entry? { entries.first { $0.account == account } }

    /// Adds an entry, or replaces the account's existing entry.
    package mutating func set(_ entry: Entry, isCurrent: Bool) {
        let account = entry.account
        if let index = entries.firstIndex(where: { $0.account == account }) {
            entries[index] = entry
        } else {
            entries.append(entry)
        }
        if isCurrent || current == nil { current = account }
    }

    /// Makes an account the current account.
    package mutating func select(_ account: AccountID) { current = account }

    /// Removes an account. If it was the current account, the first signed-in account becomes current, or else the first account.
    mutating func remove(_ account: AccountID) {
        entries.removeAll { $0.account == account }
        if current == account { current = (entries.first { $0.credential != nil } ?? entries.first)?.account }
    }
}

// MARK: - Stored form

extension StoredAccounts {
    /// The format version of ``serialized()``.
    static let formatVersion: Int64 = 4

    private static let maximumSize = RecordKey.maximumRecordSize

    /// The accounts as bytes for a ``TokenStore``. They contain secrets.
    /// - Throws: ``AuthError`` with `storage_failed`.
    package func serialized() throws(AuthError) -> [UInt8] {
        var json: [String: JSON] = [
            "version": .integer(Self.formatVersion),
            "accounts": .array(
                entries.map {
                    switch $0 {
                    case .signedIn(let credential): credential.json
                    case .ended(let session): ["ended": session.json]
                    }
                }
            ),
        ]
        json["current"] = current?.json
        let bytes: [UInt8]
        do throws(JSONError) {
            bytes = try JSON.object(json).serialized(indented: true)
        } catch {
            throw AuthError(.storageFailed, "The credential cannot be written: \(error).", underlyingError: error)
        }
        guard bytes.count <= Self.maximumSize else { throw Self.sizeLimitExceeded }
        return bytes
    }

    /// Checks that there is space for one more credential of the maximum size.
    /// - Throws: ``AuthError`` with `storage_failed`.
    func requireSpace() throws(AuthError) {
        guard !entries.isEmpty else { return }
        let size = try serialized().count
        guard size + 2 * Credential.maximumSize <= Self.maximumSize else { throw Self.sizeLimitExceeded }
    }

    private static var sizeLimitExceeded: AuthError {
        AuthError(
            .storageFailed,
            "Another account cannot be stored: a client's accounts are limited to \(maximumSize / 1024) KiB. Sign out of one of them."
        )
    }

    /// Parses the output of ``serialized()``.
    /// - Throws: ``AuthError`` with `credential_unusable` when the bytes are damaged or have an unknown version.
    package init(serialized bytes: [UInt8]) throws(AuthError) {
        func damaged(_ reason: String, _ cause: (any Error)? = nil) -> AuthError {
            AuthError(
                .credentialUnusable,
                "The stored credential \(reason). Sign out locally, which removes it, and sign in again.",
                underlyingError: cause
            )
        }
        let json: JSON
        do throws(JSONError) {
            json = try JSON(parsing: bytes)
        } catch {
            throw damaged("is damaged: \(error)", error)
        }
        guard json["encrypted"] == nil else {
            throw AuthError(
                .credentialUnusable,
                "The stored credential is encrypted: it was stored by another kind of store, or by a store with encryption keys. Configure that store and its key. Only if the key is lost, sign out locally, which removes the credential, and sign in again."
            )
        }
        guard json["version"]?.integer == Self.formatVersion else {
            throw damaged("was written by another version of AuthFlow")
        }
        for account in json["accounts"]?.array ?? [] {
            if let session = account["ended"].flatMap(EndedSession.init) {
                set(.ended(session), isCurrent: false)
            } else if let credential = Credential(account) {
                set(.signedIn(credential), isCurrent: false)
            } else {
                throw damaged("is incomplete")
            }
        }
        guard !entries.isEmpty else { return }
        guard let current = json["current"].flatMap(AccountID.init) else { throw damaged("is incomplete") }
        select(current)
    }
}

extension EndedSession {
    var json: JSON {
        var json: [String: JSON] = [
            "account": account.json, "reason": .string(reason), "ended_at": .double(endedAt.timeIntervalSince1970),
        ]
        json["identity"] = identity?.json
        if isAfterInterruptedRefresh { json["after_unfinished_refresh"] = true }
        return .object(json)
    }

    package init?(_ json: JSON) {
        guard let account = json["account"].flatMap(AccountID.init), let reason = json["reason"]?.string,
            let endedAt = json["ended_at"]?.number
        else { return nil }
        self.init(
            identity: json["identity"].flatMap(Identity.init),
            reason: reason,
            endedAt: Date(secondsSince1970: endedAt),
            isAfterInterruptedRefresh: json["after_unfinished_refresh"] == true,
            account: account
        )
    }
}
