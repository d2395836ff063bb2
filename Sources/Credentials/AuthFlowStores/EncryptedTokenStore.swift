import AuthFlowEssentials
public import AuthFlowHTTP
import AuthFlowJOSE
import AuthFlowJSON
public import AuthFlowStorage
import Crypto
import CryptoExtras

/// Encrypts the records of another store, so that a copy or backup of the disk or database is useless without the key.
///
/// Each write is encrypted with a new data key (AES-256-GCM), which is wrapped with this store's key (AES Key Wrap, RFC 3394); the
/// record contains the key ID. The ciphertext is bound to the record's key in the underlying store, so that records
/// cannot be swapped. However, an attacker who can write to the underlying store can restore an older version of a
/// record. An attacker who can read the memory of the process, or the key where it is stored, can read the credential
/// too.
public struct EncryptedTokenStore: Sendable {
    /// The source of the key.
    public enum KeySource: Sendable {
        /// A file that only its owner can read: 32 random bytes in base64url; created before the first write if missing.
        /// Store the file on a different disk from the credentials; otherwise, the encryption provides no protection.
        case file(path: String)
        /// A passphrase, stretched with scrypt (RFC 7914).
        case passphrase(Secret)
        /// At least 32 random bytes in base64url in another store, such as the system's key store; created before the first
        /// write if they do not exist.
        case store(any TokenStore)
        /// Keys with IDs, for a store that many processes share. The first key encrypts, and every key decrypts, so
        /// the key can be rotated while the processes run.
        case keys(EncryptionKeys)
    }

    private let base: any TokenStore
    private let source: KeySource
    private let host: HostServices
    private let derived = DerivedKeys()

    /// Creates a store.
    /// - Parameters:
    ///   - base: The store for the encrypted records.
    ///   - key: The source of the key.
    ///   - host: Provides random bytes.
    public init(_ base: any TokenStore, key: KeySource, host: HostServices = .system) {
        self.base = base
        self.source = key
        self.host = host
    }
}

extension EncryptedTokenStore: TokenStore {
    public func bytes(for key: RecordKey) async throws -> [UInt8]? {
        guard let bytes = try await base.bytes(for: key) else { return nil }
        return try await decrypted(bytes, of: key)
    }

    public func bytes(under lease: Lease) async throws -> [UInt8]? {
        guard let bytes = try await base.bytes(under: lease) else { return nil }
        return try await decrypted(bytes, of: lease.key)
    }

    func decrypted(_ bytes: [UInt8], of key: RecordKey) async throws -> [UInt8] {
        let envelope = try Envelope(bytes)
        let dataKey = try await dataKey(of: envelope)
        do {
            let box = try AES.GCM.SealedBox(combined: envelope.sealed)
            return Array(try AES.GCM.open(box, using: dataKey, authenticating: Self.associatedData(for: key)))
        } catch {
            throw Self.damaged(error)
        }
    }

    private static func damaged(_ cause: any Error) -> AuthError {
        AuthError(
            .credentialUnusable,
            "The stored credential was tampered with or is damaged. Sign out locally, which removes it, and sign in again.",
            underlyingError: cause
        )
    }

    public func write(_ bytes: [UInt8]?, under lease: Lease) async throws {
        guard let bytes else { return try await base.write(nil, under: lease) }
        try await base.write(try await encrypted(bytes, for: lease.key), under: lease)
    }

    public func reserve(_ size: Int, under lease: Lease) async throws {
        // The key is created before the sign-in; otherwise, a failure to create it would surface only afterwards.
        switch source {
        case .file, .store: _ = try await secret(salt: [], isNeeded: false)
        case .passphrase, .keys: break
        }
        // The ciphertext is in base64url, with the wrapped key and the salt.
        try await base.reserve(size * 4 / 3 + 1024, under: lease)
    }

    func encrypted(_ bytes: [UInt8], for key: RecordKey) async throws -> [UInt8] {
        let (wrapping, salt) = try await currentKey(for: key)
        do {
            // Each write uses a new data key, so that no two writes share a key and a nonce.
            let dataKey = SymmetricKey(data: host.randomBytes(32))
            guard
                let sealed = try AES.GCM.seal(bytes, using: dataKey, authenticating: Self.associatedData(for: key))
                    .combined
            else { throw CryptoKitError.incorrectParameterSize }
            let envelope = Envelope(
                keyID: wrapping.id,
                salt: salt,
                wrappedKey: Array(try AES.KeyWrap.wrap(dataKey, using: wrapping.key)),
                sealed: Array(sealed)
            )
            return try envelope.serialized()
        } catch let error as AuthError {
            throw error
        } catch {
            throw AuthError(.storageFailed, "The credential could not be encrypted.", underlyingError: error)
        }
    }

    /// Rewraps the data key of a record with the store's current key, if it was wrapped with a different key. The
    /// ciphertext does not change.
    /// - Returns: Whether it was wrapped with a different key.
    /// - Throws: ``AuthError`` with `credential_unusable` when that key is unknown or the record is damaged, or any error thrown by the base store.
    func rewrap(_ key: RecordKey) async throws -> Bool {
        try await base.withLease(on: key) { lease in
            guard let bytes = try await base.bytes(under: lease) else { return false }
            var envelope = try Envelope(bytes)
            let (wrapping, salt) = try await currentKey(for: key)
            // Unwrapping also shows whether a key with the same ID is the key of this record.
            let dataKey = try await dataKey(of: envelope)
            guard envelope.keyID != wrapping.id else { return false }
            envelope.wrappedKey = Array(try AES.KeyWrap.wrap(dataKey, using: wrapping.key))
            (envelope.keyID, envelope.salt) = (wrapping.id, salt)
            try await base.write(try envelope.serialized(), under: lease)
            return true
        }
    }

    public func withLease<Return: Sendable>(
        on key: RecordKey,
        _ body: (Lease) async throws -> Return
    ) async throws -> Return {
        try await base.withLease(on: key, body)
    }

    private var wrongKeyHint: String {
        switch source {
        case .file(let path): "\(path) contains a different key. Restore the original file."
        case .passphrase: "the passphrase is different. Use the passphrase with which the credential was encrypted."
        case .store: "the system's key store contains a different key."
        case .keys: "none of the configured keys has its key ID. Add the key to the list."
        }
    }
}

// MARK: - Keys

extension EncryptedTokenStore {
    /// A key that wraps data keys.
    private struct WrappingKey {
        let id: String
        let key: SymmetricKey

        /// - Parameter secret: The secret from which the key and its ID are derived. The ID distinguishes a wrong key
        ///   from tampering; the cipher alone cannot.
        init(_ secret: SymmetricKey) {
            let check = HKDF<SHA256>.deriveKey(
                inputKeyMaterial: secret,
                info: Array("authflow check".utf8),
                outputByteCount: 12
            )
            self.id = unsafe Base64URL.encode(check.withUnsafeBytes { unsafe Array($0) })
            self.key = Self.derived(from: secret)
        }

        init(_ named: EncryptionKeys.Named) {
            self.id = named.id
            self.key = Self.derived(from: named.key)
        }

        private static func derived(from secret: SymmetricKey) -> SymmetricKey {
            HKDF<SHA256>.deriveKey(inputKeyMaterial: secret, info: Array("authflow wrapping".utf8), outputByteCount: 32)
        }
    }

    /// The wrapping key for a write, and the salt of its passphrase.
    private func currentKey(for key: RecordKey) async throws -> (WrappingKey, salt: [UInt8]) {
        switch source {
        case .keys(let keys): return (WrappingKey(keys.current), [])
        case .file, .store: return (WrappingKey(try await secret(salt: [], isNeeded: false)), [])
        case .passphrase:
            // The salt does not change for the lifetime of a record, so that a passphrase is stretched only once.
            if let envelope = try await base.bytes(for: key).flatMap({ try? Envelope($0) }) {
                let wrapping = WrappingKey(try await secret(salt: envelope.salt, isNeeded: false))
                if wrapping.id == envelope.keyID, envelope.salt.count >= Self.saltSize {
                    return (wrapping, envelope.salt)
                }
            }
            let salt = derived.trustedSalt(orNew: host.randomBytes(Self.saltSize))
            return (WrappingKey(try await secret(salt: salt, isNeeded: false)), salt)
        }
    }

    /// Unwraps the data key of a record.
    private func dataKey(of envelope: Envelope) async throws -> SymmetricKey {
        let wrapping: WrappingKey?
        if case .keys(let keys) = source {
            wrapping = keys[envelope.keyID].map { WrappingKey($0) }
        } else {
            wrapping = WrappingKey(try await secret(salt: envelope.salt, isNeeded: true))
        }
        guard let wrapping, wrapping.id == envelope.keyID else {
            throw AuthError(
                .credentialUnusable,
                "The key does not match the stored credential: \(wrongKeyHint) The credential's key ID is \"\(DisplayText.sanitized(envelope.keyID, limit: 60))\"."
            )
        }
        if envelope.salt.count >= Self.saltSize { derived.trust(envelope.salt) }
        do {
            return try AES.KeyWrap.unwrap(envelope.wrappedKey, using: wrapping.key)
        } catch {
            // A configured key's ID is chosen by the operator, so a wrong key may have the right ID.
            guard case .keys = source else { throw Self.damaged(error) }
            throw AuthError(
                .credentialUnusable,
                "The configured key with the ID \"\(DisplayText.sanitized(wrapping.id, limit: 60))\" is not the key with which the stored credential was encrypted, or the credential was tampered with or is damaged. Restore that key; if it is the right key, sign out locally, which removes the credential, and sign in again.",
                underlyingError: error
            )
        }
    }

    /// - Parameter isNeeded: Whether the key must already exist, because stored data is encrypted with it.
    private func secret(salt: [UInt8], isNeeded: Bool) async throws -> SymmetricKey {
        switch source {
        case .passphrase(let passphrase):
            return try await derived.key(for: salt) {
                // This runs on a separate thread, because key stretching is CPU-bound.
                try await BlockingCall.run { try Self.derivedKey(passphrase, salt: salt) }
            }
        case .file(let path):
            let file = PrivateFile(path)
            if let bytes = try file.contents(maximumSize: 1024, isKey: true) {
                return try Self.key(bytes, from: path)
            }
            guard !isNeeded else {
                // The credential is intact: it can be read once the key is restored.
                throw AuthError(
                    .storageFailed,
                    "The key file \(path) is missing, and the credential cannot be read without it. Restore the file."
                )
            }
            let bytes = host.randomBytes(32)
            try PrivateFile.createDirectory(FilePath.directory(of: path))
            guard try file.create(with: Array(Base64URL.encode(bytes).utf8)) else {
                // Another process created the file first.
                return try await secret(salt: salt, isNeeded: true)
            }
            return SymmetricKey(data: bytes)
        case .keys: preconditionFailure("Configured keys are not derived from a secret.")
        case .store(let store):
            let keyRecord = Self.keyRecord
            // All users share this record, so the lease is acquired only to create it.
            if let bytes = try await store.bytes(for: keyRecord) {
                return try Self.key(bytes, from: Self.keyStoreName)
            }
            guard !isNeeded else {
                throw AuthError(
                    .storageFailed,
                    "The system's key store has no key for the credential, which cannot be read without it. Restore the key."
                )
            }
            return try await store.withLease(on: keyRecord) { lease in
                if let bytes = try await store.bytes(for: keyRecord) {
                    return try Self.key(bytes, from: Self.keyStoreName)
                }
                let bytes = host.randomBytes(32)
                try await store.write(Array(Base64URL.encode(bytes).utf8), under: lease)
                return SymmetricKey(data: bytes)
            }
        }
    }

    /// The size of a new salt, and the minimum size of a salt that is used again, in bytes.
    private static let saltSize = 16

    private static let keyRecord = RecordKey(name: "encryption key", issuer: "", clientID: "", kind: "encryption_key")
    private static let keyStoreName = "The system's key store"

    private static func key(_ text: [UInt8], from source: String) throws(AuthError) -> SymmetricKey {
        let trimmed = text.filter { $0 != UInt8(ascii: "\n") && $0 != UInt8(ascii: "\r") }
        guard let bytes = Base64URL.decode(String(decoding: trimmed, as: UTF8.self)), bytes.count >= 32 else {
            throw AuthError(
                .storageFailed,
                "\(source) does not contain a key of at least 32 random bytes in base64url."
            )
        }
        return SymmetricKey(data: bytes)
    }

    /// Applies scrypt with the parameters that OWASP's Password Storage Cheat Sheet recommends for 32 MiB of memory.
    private static func derivedKey(_ passphrase: Secret, salt: [UInt8]) throws -> SymmetricKey {
        guard !passphrase.exposed.isEmpty else {
            throw AuthError(.invalidConfiguration, "The passphrase of the credential store is empty.")
        }
        return try KDF.Scrypt.deriveKey(
            from: Array(passphrase.exposed.utf8),
            salt: salt,
            outputByteCount: 32,
            rounds: 1 << 15,
            blockSize: 8,
            parallelism: 3,
            maxMemory: 64 << 20
        )
    }

    /// The additional authenticated data of the ciphertext.
    private static func associatedData(for key: RecordKey) -> [UInt8] {
        Array(key.uniqueName.utf8)
    }
}

// MARK: - Stored form

extension EncryptedTokenStore {
    /// A record in the underlying store.
    private struct Envelope {
        static let version: Int64 = 2

        var keyID: String
        var salt: [UInt8]
        var wrappedKey: [UInt8]
        let sealed: [UInt8]

        init(keyID: String, salt: [UInt8], wrappedKey: [UInt8], sealed: [UInt8]) {
            self.keyID = keyID
            self.salt = salt
            self.wrappedKey = wrappedKey
            self.sealed = sealed
        }

        init(_ bytes: [UInt8]) throws(AuthError) {
            guard let json = try? JSON(parsing: bytes) else {
                throw AuthError(
                    .credentialUnusable,
                    "The stored credential is damaged. Sign out locally, which removes it, and sign in again."
                )
            }
            guard let version = json["encrypted"]?.integer else {
                throw AuthError(
                    .credentialUnusable,
                    "The stored credential is not encrypted: it was written with different store settings. Sign out with those settings, and sign in again with the current settings."
                )
            }
            guard version == Self.version, let keyID = json["key_id"]?.string,
                let salt = Base64URL.decode(json["salt"]?.string ?? ""),
                let wrappedKey = json["key"]?.string.flatMap({ Base64URL.decode($0) }),
                let sealed = json["sealed"]?.string.flatMap({ Base64URL.decode($0) })
            else {
                throw AuthError(
                    .credentialUnusable,
                    "The stored credential is damaged, or was written by another version of AuthFlow. Sign out locally, which removes it, and sign in again."
                )
            }
            self.init(keyID: keyID, salt: salt, wrappedKey: wrappedKey, sealed: sealed)
        }

        func serialized() throws -> [UInt8] {
            var json: [String: JSON] = [
                "encrypted": .integer(Self.version), "cipher": "AES-256-GCM", "key_id": .string(keyID),
                "key": .string(Base64URL.encode(wrappedKey)), "sealed": .string(Base64URL.encode(sealed)),
            ]
            if !salt.isEmpty { json["salt"] = .string(Base64URL.encode(salt)) }
            return try JSON.object(json).serialized()
        }
    }
}
