import Synchronization

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif
#if canImport(Darwin)
import Darwin
#else
import Glibc
#endif

/// Where a client's signing key comes from: a value, or a file that is read again when it was replaced.
public struct SigningKeySource: Sendable {
    private let read: @Sendable () throws(AuthError) -> any SigningKey

    /// A key that stays the same.
    public init(_ key: any SigningKey) {
        self.read = { () throws(AuthError) in key }
    }

    /// The key in a file: PEM, JWK or a JWK set. To rotate it, replace the file: the next signature uses the new key.
    /// - Parameters:
    ///   - path: The file. No other user may be able to read it.
    ///   - keyID: The `kid` that the key is registered by; in a set, the key to use. Default: that of the JWK, else the thumbprint.
    public static func file(path: String, keyID: String? = nil) -> SigningKeySource {
        let file = PrivateKeyFile(path: path, keyID: keyID)
        return SigningKeySource(file)
    }

    private init(_ file: PrivateKeyFile) {
        self.read = { () throws(AuthError) in try file.key() }
    }

    /// The key to sign with now.
    /// - Throws: ``AuthError`` with `invalid_configuration` when the file cannot be used.
    public func key() throws(AuthError) -> any SigningKey { try read() }
}

/// A file with a private key, and what was last read from it.
private final class PrivateKeyFile: Sendable {
    private let path: String
    private let keyID: String?
    private let last = Mutex<(version: Version, key: PrivateKey)?>(nil)

    /// The largest file that is read, in bytes.
    private static let maximumSize = 64 * 1024

    /// What tells one content of the file from the next.
    fileprivate struct Version: Equatable {
        let device: UInt64
        let inode: UInt64
        let size: Int64
        let seconds: Int
        let nanoseconds: Int
    }

    init(path: String, keyID: String?) {
        self.path = path
        self.keyID = keyID
    }

    func key() throws(AuthError) -> PrivateKey {
        // Kubernetes replaces a mounted secret by replacing a link, so links are followed.
        let descriptor = unsafe open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
        guard descriptor >= 0 else { throw refusal("it does not exist or cannot be read") }
        defer { close(descriptor) }
        var status = stat()
        guard unsafe fstat(descriptor, &status) == 0, status.st_mode & S_IFMT == S_IFREG else {
            throw refusal("it is not a plain file")
        }
        guard status.st_uid == geteuid() || status.st_uid == 0 else { throw refusal("it belongs to another user") }
        let isOpenToGroup = status.st_mode & 0o070 != 0 && !PrivateGroup.isOwn(status.st_gid)
        guard status.st_mode & 0o007 == 0, !isOpenToGroup else {
            throw refusal("others can read it. Run: chmod 600 '\(DisplayText.sanitized(path))'")
        }
        let version = Version(status)
        if let last = last.withLock({ $0 }), last.version == version { return last.key }
        guard let bytes = BoundedFile.contents(of: descriptor, maximumSize: Self.maximumSize) else {
            throw refusal("it cannot be read, or has more than \(Self.maximumSize) bytes")
        }
        let key = try PrivateKey(text: Secret(String(decoding: bytes, as: UTF8.self)), keyID: keyID)
        last.withLock { $0 = (version, key) }
        return key
    }

    private func refusal(_ reason: String) -> AuthError {
        AuthError(.invalidConfiguration, "The key file \(DisplayText.sanitized(path)) cannot be used: \(reason).")
    }
}

extension PrivateKeyFile.Version {
    fileprivate init(_ status: stat) {
        self.device = UInt64(truncatingIfNeeded: status.st_dev)
        self.inode = UInt64(truncatingIfNeeded: status.st_ino)
        self.size = Int64(status.st_size)
        #if canImport(Darwin)
        self.seconds = status.st_mtimespec.tv_sec
        self.nanoseconds = status.st_mtimespec.tv_nsec
        #else
        self.seconds = status.st_mtim.tv_sec
        self.nanoseconds = status.st_mtim.tv_nsec
        #endif
    }
}
