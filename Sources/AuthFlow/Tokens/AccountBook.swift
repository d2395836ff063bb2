import AuthFlowJSON
public import Foundation

/// A session that the provider has ended: what is left of a credential when its refresh token is refused.
public struct EndedSession: Sendable, Hashable {
    /// Whose it was.
    public let identity: Identity

    /// Why, in the provider's words.
    public let reason: String

    /// When that was found out, by this machine's clock.
    public let endedAt: Date
}

/// What a store keeps for one client: the accounts that are signed in, and which of them is meant when none is named.
///
/// All of them are one document, so that whatever happens to one is written whole or not at all.
struct AccountBook: Sendable, Hashable {
    enum Entry: Sendable, Hashable {
        case signedIn(Credential)
        case ended(EndedSession)

        var identity: Identity {
            switch self {
            case .signedIn(let credential): credential.identity
            case .ended(let session): session.identity
            }
        }
    }

    private(set) var entries: [Entry] = []

    /// The subject of the account that is meant when none is named.
    private(set) var current: String?

    /// The entry of an account, or the current one.
    func entry(_ subject: String?) -> Entry? {
        entries.first { $0.identity.subject == subject ?? current }
    }

    /// The refresh token of an account, or of the current one.
    func refreshToken(_ subject: String?) -> Secret? {
        guard case .signedIn(let credential)? = entry(subject) else { return nil }
        return credential.tokens.refreshToken
    }

    /// Adds an entry, or replaces the one of the same account.
    mutating func set(_ entry: Entry, isCurrent: Bool) {
        let subject = entry.identity.subject
        if let index = entries.firstIndex(where: { $0.identity.subject == subject }) {
            entries[index] = entry
        } else {
            entries.append(entry)
        }
        if isCurrent || current == nil { current = subject }
    }

    /// Makes another account the current one.
    mutating func select(_ subject: String) { current = subject }

    /// Takes an account out. The first of those that are left becomes the current one.
    mutating func remove(_ subject: String) {
        entries.removeAll { $0.identity.subject == subject }
        if current == subject { current = entries.first?.identity.subject }
    }
}

// MARK: - Stored form

extension AccountBook {
    /// The version that ``serialized()`` writes. Version 1 had one credential and nothing around it.
    static let formatVersion: Int64 = 2

    /// The book as bytes for a ``TokenStore``. They hold secrets.
    /// - Throws: ``AuthError`` with `storage_failed`.
    func serialized() throws(AuthError) -> [UInt8] {
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
        json["current"] = current.map(JSON.string)
        do throws(JSONError) {
            return try JSON.object(json).serialized(indented: true)
        } catch {
            throw AuthError(.storageFailed, "The credential cannot be written: \(error).", underlyingError: error)
        }
    }

    /// Reads what ``serialized()`` wrote, now or in an older version.
    /// - Throws: ``AuthError`` with `storage_failed` when the bytes are damaged or of a version not known here.
    init(serialized bytes: [UInt8]) throws(AuthError) {
        func damaged(_ reason: String, _ cause: (any Error)? = nil) -> AuthError {
            AuthError(
                .storageFailed,
                "The stored credential \(reason). Sign out, which removes it, and in again.",
                underlyingError: cause
            )
        }
        let json: JSON
        do throws(JSONError) {
            json = try JSON(parsing: bytes)
        } catch {
            throw damaged("is damaged: \(error)", error)
        }
        switch json["version"]?.integer {
        case 1:
            guard let credential = Credential(json) else { throw damaged("is incomplete") }
            set(.signedIn(credential), isCurrent: true)
        case Self.formatVersion:
            for account in json["accounts"]?.array ?? [] {
                if let session = account["ended"].flatMap(EndedSession.init) {
                    set(.ended(session), isCurrent: false)
                } else if let credential = Credential(account) {
                    set(.signedIn(credential), isCurrent: false)
                } else {
                    throw damaged("is incomplete")
                }
            }
            guard let current = json["current"]?.string ?? (entries.isEmpty ? "" : nil) else {
                throw damaged("is incomplete")
            }
            if !entries.isEmpty { select(current) }
        default:
            throw damaged("was written by another version of AuthFlow")
        }
    }
}
