import Crypto

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

/// Keeps each credential in a file of its own that only its owner can read.
///
/// The tokens stand in the file as they are: whoever reads the disk as this user, or a backup of it, has them.
public struct FileTokenStore: TokenStore {
    /// The largest file that is written or read, in bytes: a document of accounts, also when it is encrypted.
    private static let maximumSize = 2 * AccountBook.maximumSize

    private let directory: String
    private let clock: any Clock<Duration>
    private let patience: Duration

    /// Creates a store.
    /// - Parameters:
    ///   - directory: An absolute path. Created with mode 0700 when it is missing.
    ///   - clock: The clock to wait for other processes on.
    ///   - patience: How long to wait for another process that has access: longer than a refresh with a slow provider takes.
    public init(directory: String, clock: any Clock<Duration> = ContinuousClock(), patience: Duration = .seconds(90)) {
        self.directory = directory
        self.clock = clock
        self.patience = patience
    }

    /// Creates a store in the person's data directory.
    init(host: HostServices) {
        self.init(directory: Self.defaultDirectory(environment: host.environment), clock: host.clock)
    }

    /// Where a person's data goes on this system: `$XDG_DATA_HOME/authflow`, `~/.local/share/authflow`, or on Apple's
    /// systems `~/Library/Application Support/authflow`.
    public static func defaultDirectory(environment: [String: String]) -> String {
        // XDG Base Directory Specification: a relative path is invalid and ignored.
        if let data = environment["XDG_DATA_HOME"], data.hasPrefix("/") { return "\(data)/authflow" }
        let home = HomeDirectory.path(environment: environment)
        #if canImport(Darwin)
        return "\(home)/Library/Application Support/authflow"
        #else
        return "\(home)/.local/share/authflow"
        #endif
    }

    // swift-format-ignore: AllPublicDeclarationsHaveDocumentation
    public func bytes(for key: TokenKey) async throws -> [UInt8]? {
        try PrivateFile(path(for: key, "json")).contents(maximumSize: Self.maximumSize)
    }

    // swift-format-ignore: AllPublicDeclarationsHaveDocumentation
    public func set(_ bytes: [UInt8]?, for key: TokenKey) async throws {
        let file = PrivateFile(path(for: key, "json"))
        if let bytes {
            // What could not be read again is not written.
            guard bytes.count <= Self.maximumSize else {
                throw AuthError(
                    .storageFailed,
                    "A credential of \(bytes.count) bytes is larger than what is kept, \(Self.maximumSize) bytes."
                )
            }
            try PrivateFile.createDirectory(directory)
            try file.replace(with: bytes)
        } else {
            try file.remove()
        }
    }

    // swift-format-ignore: AllPublicDeclarationsHaveDocumentation
    public func withExclusiveAccess<Return: Sendable>(
        to key: TokenKey,
        _ body: () async throws -> Return
    ) async throws -> Return {
        try PrivateFile.createDirectory(directory)
        // The lock is a file of its own: the credential's is replaced, and a lock on the old one would guard nothing.
        let place = PrivateFile(path(for: key, "lock"))
        var lock = try place.openLock()
        defer { lock.release() }
        var waited = Duration.zero
        var pause = Duration.milliseconds(5)
        waiting: while true {
            switch try lock.acquire() {
            case .taken: break waiting
            case .outdated:
                // Opened before the old one is closed: what is closed when opening fails is then closed once.
                let next = try place.openLock()
                lock.release()
                lock = next
            case .busy:
                guard waited < patience else {
                    let holder = lock.holder.map { "Process \($0)" } ?? "Another process"
                    throw AuthError(
                        .storageFailed,
                        "\(holder) has held \(place.path) for \(Int(patience.seconds)) seconds. Wait for it, or end it."
                    )
                }
                try await clock.sleep(for: pause)
                waited += pause
                pause = min(pause * 2, .milliseconds(250))
            }
        }
        // Where nothing is kept there is nothing to leave behind.
        defer { if !PrivateFile(path(for: key, "json")).exists { lock.remove() } }
        return try await body()
    }

    private func path(for key: TokenKey, _ suffix: String) -> String {
        // The length before each part keeps ("ab", "c") and ("a", "bc") apart.
        let parts = [key.name, key.provider.rawValue, key.clientID].map { "\($0.utf8.count):\($0)" }
        let hash = Base64URL.encode(Array(SHA256.hash(data: Array(parts.joined().utf8))).prefix(15))
        let readable = key.name.filter { $0.isASCII && ($0.isLetter || $0.isNumber) }.prefix(32)
        return "\(directory)/\(readable)-\(hash).\(suffix)"
    }
}
