import AuthFlowJSON
import Crypto
import CryptoExtras
import Synchronization

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

/// Encrypts what another store keeps (ChaCha20-Poly1305): a copy of the disk, or a backup of it, is then of no use without
/// the key.
///
/// What is stored is bound to its key in the store, so that files cannot be exchanged for one another. A process that can read the
/// memory of the process, or the key where it is kept, reads the credential too.
public struct EncryptedTokenStore: Sendable {
    /// Where the key comes from.
    public enum KeySource: Sendable {
        /// A file of 32 random bytes that only its owner can read; made when it is not there and something is stored.
        /// Keep it on another disk than the credentials, or it protects nothing.
        case file(path: String)
        /// A passphrase, stretched with scrypt (RFC 7914).
        case passphrase(Secret)
        /// 32 bytes or more that another store keeps, such as the system's; made when they are not there.
        case store(any TokenStore)
    }

    private let base: any TokenStore
    private let source: KeySource
    private let host: HostServices
    private let derived = DerivedKeys()

    /// Creates a store.
    /// - Parameters:
    ///   - base: Keeps what is encrypted.
    ///   - key: Where the key comes from.
    ///   - host: Randomness.
    public init(_ base: any TokenStore, key: KeySource, host: HostServices = .system) {
        self.base = base
        self.source = key
        self.host = host
    }

    /// Keys that were stretched already, by their salt: that takes a tenth of a second on purpose.
    private final class DerivedKeys: Sendable {
        /// The most that are kept: records of one store have one salt, unless several programs made the first ones at once.
        private static let limit = 64
        private let keys = Mutex<[[UInt8]: SymmetricKey]>([:])

        subscript(salt: [UInt8]) -> SymmetricKey? {
            get { keys.withLock { $0[salt] } }
            set {
                keys.withLock { keys in
                    if keys.count >= Self.limit { keys.removeAll() }
                    keys[salt] = newValue
                }
            }
        }

        /// A salt whose key is known, for a new record.
        var knownSalt: [UInt8]? { keys.withLock { $0.keys.first } }
    }
}

extension EncryptedTokenStore: TokenStore {
    // swift-format-ignore: AllPublicDeclarationsHaveDocumentation
    public func bytes(for key: RecordKey) async throws -> [UInt8]? {
        guard let bytes = try await base.bytes(for: key) else { return nil }
        let envelope = try Envelope(bytes)
        let secret = try await secret(salt: envelope.salt, isNeeded: true)
        guard Self.check(of: secret) == envelope.check else {
            throw AuthError(.credentialUnusable, "The key does not fit the stored credential: \(wrongKeyHint)")
        }
        do {
            let box = try ChaChaPoly.SealedBox(combined: envelope.sealed)
            return Array(
                try ChaChaPoly.open(box, using: Self.encryptionKey(of: secret), authenticating: Self.place(of: key))
            )
        } catch {
            throw AuthError(
                .credentialUnusable,
                "The stored credential was changed, or is damaged. Sign out locally, which removes it, and sign in again.",
                underlyingError: error
            )
        }
    }

    // swift-format-ignore: AllPublicDeclarationsHaveDocumentation
    public func write(_ bytes: [UInt8]?, under lease: Lease) async throws {
        let key = lease.key
        guard let bytes else { return try await base.write(nil, under: lease) }
        // The salt stays for the life of the entry, so that a passphrase is stretched once.
        let known = try await base.bytes(for: key).flatMap { try? Envelope($0).salt }
        let salt = known ?? derived.knownSalt ?? host.randomBytes(16)
        let secret = try await secret(salt: salt, isNeeded: false)
        do {
            let box = try ChaChaPoly.seal(
                bytes,
                using: Self.encryptionKey(of: secret),
                authenticating: Self.place(of: key)
            )
            let envelope = Envelope(salt: salt, check: Self.check(of: secret), sealed: Array(box.combined))
            try await base.write(try envelope.serialized(), under: lease)
        } catch let error as AuthError {
            throw error
        } catch {
            throw AuthError(.storageFailed, "The credential could not be encrypted.", underlyingError: error)
        }
    }

    // swift-format-ignore: AllPublicDeclarationsHaveDocumentation
    public func withLease<Return: Sendable>(
        on key: RecordKey,
        _ body: (Lease) async throws -> Return
    ) async throws -> Return {
        try await base.withLease(on: key, body)
    }

    private var wrongKeyHint: String {
        switch source {
        case .file(let path): "\(path) is not the file it was encrypted with."
        case .passphrase: "the passphrase is not the one it was encrypted with."
        case .store: "the system's key store has another one than it was encrypted with."
        }
    }
}

// MARK: - Keys

extension EncryptedTokenStore {
    /// - Parameter isNeeded: Whether the key must be there already, because something was encrypted with it.
    private func secret(salt: [UInt8], isNeeded: Bool) async throws -> SymmetricKey {
        switch source {
        case .passphrase(let passphrase):
            if let known = derived[salt] { return known }
            // On a thread of its own: stretching keeps a processor busy.
            let key = try await BlockingCall.run {
                try Self.stretched(passphrase, salt: salt)
            } onCancel: {
            }
            derived[salt] = key
            return key
        case .file(let path):
            let file = PrivateFile(path)
            if let bytes = try file.contents(maximumSize: 1024) { return try Self.key(bytes, from: path) }
            guard !isNeeded else {
                throw AuthError(
                    .credentialUnusable,
                    "The key file \(path) is not there. Without it the credential cannot be read."
                )
            }
            let bytes = host.randomBytes(32)
            try PrivateFile.createDirectory(String(path.prefix(upTo: path.lastIndex(of: "/") ?? path.startIndex)))
            guard try file.create(with: Array(Base64URL.encode(bytes).utf8)) else {
                // Another process was quicker.
                return try await secret(salt: salt, isNeeded: true)
            }
            return SymmetricKey(data: bytes)
        case .store(let store):
            let place = RecordKey(name: "encryption key", issuer: "", clientID: "", kind: "encryption_key")
            // All users share this record: only the one who creates it may make the others wait.
            if let bytes = try await store.bytes(for: place) {
                return try Self.key(bytes, from: "the system's key store")
            }
            guard !isNeeded else {
                throw AuthError(
                    .credentialUnusable,
                    "The system's key store has no key for the credential. Without it the credential cannot be read."
                )
            }
            return try await store.withLease(on: place) { lease in
                if let bytes = try await store.bytes(for: place) {
                    return try Self.key(bytes, from: "the system's key store")
                }
                let bytes = host.randomBytes(32)
                try await store.write(Array(Base64URL.encode(bytes).utf8), under: lease)
                return SymmetricKey(data: bytes)
            }
        }
    }

    private static func key(_ text: [UInt8], from place: String) throws(AuthError) -> SymmetricKey {
        let trimmed = text.filter { $0 != UInt8(ascii: "\n") && $0 != UInt8(ascii: "\r") }
        guard let bytes = Base64URL.decode(String(decoding: trimmed, as: UTF8.self)), bytes.count >= 32 else {
            throw AuthError(.storageFailed, "\(place) does not hold a key: 32 random bytes in base64url.")
        }
        return SymmetricKey(data: bytes)
    }

    /// scrypt with the parameters that OWASP's Password Storage Cheat Sheet has for 32 MiB of memory.
    private static func stretched(_ passphrase: Secret, salt: [UInt8]) throws -> SymmetricKey {
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

    private static func encryptionKey(of secret: SymmetricKey) -> SymmetricKey {
        HKDF<SHA256>.deriveKey(inputKeyMaterial: secret, info: Array("authflow encryption".utf8), outputByteCount: 32)
    }

    /// Tells a wrong key from a changed credential, which the cipher alone cannot.
    private static func check(of secret: SymmetricKey) -> [UInt8] {
        let key = HKDF<SHA256>.deriveKey(
            inputKeyMaterial: secret,
            info: Array("authflow check".utf8),
            outputByteCount: 16
        )
        return unsafe key.withUnsafeBytes { unsafe Array($0) }
    }

    /// What the encrypted bytes are bound to.
    private static func place(of key: RecordKey) -> [UInt8] {
        Array(key.uniqueName.utf8)
    }
}

// MARK: - Stored form

extension EncryptedTokenStore {
    /// What the store beneath keeps.
    private struct Envelope {
        static let version: Int64 = 1

        let salt: [UInt8]
        let check: [UInt8]
        let sealed: [UInt8]

        init(salt: [UInt8], check: [UInt8], sealed: [UInt8]) {
            self.salt = salt
            self.check = check
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
                    "The stored credential is not encrypted: it was kept by another store. Sign out with that one, and sign in again with this one."
                )
            }
            guard version == Self.version, let salt = json["salt"]?.string.flatMap({ Base64URL.decode($0) }),
                let check = json["check"]?.string.flatMap({ Base64URL.decode($0) }),
                let sealed = json["sealed"]?.string.flatMap({ Base64URL.decode($0) })
            else {
                throw AuthError(
                    .credentialUnusable,
                    "The stored credential is damaged, or was written by another version of AuthFlow. Sign out locally, which removes it, and sign in again."
                )
            }
            self.init(salt: salt, check: check, sealed: sealed)
        }

        func serialized() throws -> [UInt8] {
            try JSON.object([
                "encrypted": .integer(Self.version), "cipher": "ChaCha20-Poly1305",
                "salt": .string(Base64URL.encode(salt)), "check": .string(Base64URL.encode(check)),
                "sealed": .string(Base64URL.encode(sealed)),
            ]).serialized()
        }
    }
}
