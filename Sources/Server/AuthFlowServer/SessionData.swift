import AuthFlow
import AuthFlowEssentials

/// Data that an application stores in sessions. It is stored and removed together with the session's tokens, is
/// encrypted if the tokens are, and is carried over to the next session of the same user in the same browser, for
/// example after a step-up. Numbers are JSON numbers: store `Decimal` as text.
///
/// ```swift
/// struct Cart: SessionData { var items: [String] = [] }
///
/// try await server.updateData(of: session) { (cart: inout Cart?) in
///     cart = Cart(items: (cart?.items ?? []) + ["tea"])
/// }
/// ```
public protocol SessionData: Codable, Sendable {
    /// The current version; default: 1. Increment it if earlier versions of the program cannot read the new values.
    static var version: Int { get }

    /// Decodes a value that an earlier version wrote; default: throws an error.
    /// - Parameters:
    ///   - version: The version.
    ///   - json: The value as JSON.
    static func upgraded(from version: Int, _ json: [UInt8]) throws -> Self
}

extension SessionData {
    public static var version: Int { 1 }

    public static func upgraded(from version: Int, _ json: [UInt8]) throws -> Self {
        throw AuthError(
            .sessionDataUnusable,
            "The session's data has version \(version), but this program requires version \(Self.version)."
        )
    }
}

/// The stored form of an application's data: `{"version": 1, "value": ...}`.
enum StoredSessionData {
    /// The maximum size of a value, in bytes of JSON.
    static let maximumSize = 16 * 1024

    static func encode(_ data: some SessionData) throws(AuthError) -> Secret {
        do {
            let bytes = Array(try JSONEncoder().encode(data))
            guard bytes.count <= maximumSize else {
                throw AuthError(
                    .sessionDataUnusable,
                    "The session's data is \(bytes.count) bytes long; the maximum is \(maximumSize) bytes."
                )
            }
            let value = try JSON(parsing: bytes)
            let stored: JSON = ["version": .integer(Int64(type(of: data).version)), "value": value]
            return Secret(String(decoding: try stored.serialized(), as: UTF8.self))
        } catch let error as AuthError {
            throw error
        } catch {
            throw AuthError(
                .sessionDataUnusable,
                "The session's data cannot be encoded as JSON.",
                underlyingError: error
            )
        }
    }

    static func decode<Value: SessionData>(_ type: Value.Type, _ stored: Secret?) throws(AuthError) -> Value? {
        guard let stored else { return nil }
        do {
            let json = try JSON(parsing: Array(stored.exposed.utf8))
            guard let version = json["version"]?.integer, let value = json["value"] else {
                throw AuthError(.sessionDataUnusable, "The session's data is damaged.")
            }
            let bytes = try value.serialized()
            guard version != Int64(Value.version) else {
                return try JSONDecoder().decode(Value.self, from: Data(bytes))
            }
            // Data of a newer version is never decoded, so that this program cannot overwrite it with an incomplete
            // value.
            guard version < Int64(Value.version) else {
                throw AuthError(
                    .sessionDataUnusable,
                    "The session's data has version \(version), which is newer than this program's version (\(Value.version))."
                )
            }
            return try Value.upgraded(from: Int(version), bytes)
        } catch let error as AuthError {
            throw error
        } catch {
            throw AuthError(.sessionDataUnusable, "The session's data cannot be decoded.", underlyingError: error)
        }
    }
}

extension SessionServer {
    /// Returns the application's data in a session, or nil if there is none. It is always read from the store, so it
    /// includes the latest change by any process.
    /// - Throws: ``/AuthFlow/AuthError`` with `session_data_unusable`, `credential_unusable`, `storage_failed`, or, if the session has
    ///   ended, `login_required`.
    public func data<Value: SessionData>(_ type: Value.Type = Value.self, of session: Session) async throws -> Value? {
        let sessions = try sessions(of: session)
        guard let credential = try await sessions.credentials.credential(for: sessions.key(session.identifier)) else {
            throw AuthError(.loginRequired, "The session has ended. Sign in again.")
        }
        return try StoredSessionData.decode(type, credential.applicationData)
    }

    /// Changes the application's data in a session under an exclusive lease.
    /// - Parameters:
    ///   - session: The session.
    ///   - change: Changes the data, which is nil if there is none; setting it to nil removes the data. It may be
    ///     called more than once, even after its first result was stored, if the store's response was lost: make it
    ///     idempotent where that matters.
    /// - Returns: The new data.
    /// - Throws: ``/AuthFlow/AuthError`` with `session_data_unusable`, `credential_unusable`, an error of the store such as `lease_busy`, or, if the
    ///   session has ended, `login_required`; any error that `change` throws.
    @discardableResult
    public func updateData<Value: SessionData>(
        of session: Session,
        _ change: @escaping @Sendable (inout Value?) throws -> Void
    ) async throws -> Value? {
        let sessions = try sessions(of: session)
        let key = sessions.key(session.identifier)
        let credential = try await sessions.credentials.changeApplicationData(of: key) { stored in
            var value = try StoredSessionData.decode(Value.self, stored)
            try change(&value)
            return try value.map { value throws(AuthError) in try StoredSessionData.encode(value) }
        }
        return try StoredSessionData.decode(Value.self, credential.applicationData)
    }
}
