public import AuthFlowEssentials
import AuthFlowHTTP
public import AuthFlowStorage
import Crypto
import Synchronization

/// Keeps each credential in a file of its own that only its owner can read.
///
/// The tokens stand in the file as they are: a process that reads the disk as this user, or a backup of it, has them.
///
/// A lease is a kernel lock on a file beside the credential, which ends with the process. A holder that is paused does not
/// renew it, and loses it after 30 seconds: the next one replaces the lock file, and the old holder writes no more.
public struct FileTokenStore: TokenStore {
    /// How long a lease lasts that its holder does not renew.
    static let leaseDuration = Duration.seconds(30)

    /// The largest file that is written or read, in bytes: a document of accounts, also when it is encrypted.
    private static let maximumSize = 2 * RecordKey.maximumRecordSize

    private let directory: String
    private let clock: any Clock<Duration>
    private let renewal: any Clock<Duration>
    private let patience: Duration
    private let held = HeldLocks()

    /// Creates a store.
    /// - Parameters:
    ///   - directory: An absolute path. Created with mode 0700 when it is missing.
    ///   - clock: The clock for the waits for other processes.
    ///   - patience: How long to wait for another process that has the lease: longer than a refresh with a slow provider takes.
    public init(directory: String, clock: any Clock<Duration> = ContinuousClock(), patience: Duration = .seconds(90)) {
        self.init(directory: directory, clock: clock, patience: patience, renewal: ContinuousClock())
    }

    /// Creates a store in the user's data directory.
    /// - Parameter application: The name of the application's directory, such as `my-app`: one path component.
    public init(application: String) {
        self.init(directory: Self.defaultDirectory(for: application))
    }

    /// - Parameter renewal: The clock that leases are renewed on.
    init(directory: String, clock: any Clock<Duration>, patience: Duration, renewal: any Clock<Duration>) {
        self.directory = directory
        self.clock = clock
        self.patience = patience
        self.renewal = renewal
    }

    /// Creates a store in the user's data directory.
    init(host: HostServices) {
        self.init(directory: Self.defaultDirectory(for: "authflow", environment: host.environment), clock: host.clock)
    }

    /// The directory of an application's credentials on this system: `$XDG_DATA_HOME/NAME`, `~/.local/share/NAME`, or on Apple's
    /// systems `~/Library/Application Support/NAME`.
    /// - Parameters:
    ///   - application: The name of the application's directory: one path component.
    ///   - environment: The process environment.
    public static func defaultDirectory(
        for application: String,
        environment: [String: String] = ProcessInfo.processInfo.environment
    ) -> String {
        precondition(
            !application.isEmpty && !application.hasPrefix(".") && !application.utf8.contains(UInt8(ascii: "/")),
            "The name of an application is one path component."
        )
        // XDG Base Directory Specification: a relative path is invalid and ignored.
        if let data = environment["XDG_DATA_HOME"], data.hasPrefix("/") { return "\(data)/\(application)" }
        let home = HomeDirectory.path(environment: environment)
        #if canImport(Darwin)
        return "\(home)/Library/Application Support/\(application)"
        #else
        return "\(home)/.local/share/\(application)"
        #endif
    }

    // swift-format-ignore: AllPublicDeclarationsHaveDocumentation
    public func bytes(for key: RecordKey) async throws -> [UInt8]? {
        try PrivateFile(path(for: key, "json")).contents(maximumSize: Self.maximumSize)
    }

    // swift-format-ignore: AllPublicDeclarationsHaveDocumentation
    public func write(_ bytes: [UInt8]?, under lease: Lease) async throws {
        if let bytes, bytes.count > Self.maximumSize {
            // What could not be read again is not written.
            throw AuthError(
                .storageFailed,
                "A credential of \(bytes.count) bytes is larger than what is kept, \(Self.maximumSize) bytes."
            )
        }
        try await withHeldLock(of: lease) {
            let file = PrivateFile(path(for: lease.key, "json"))
            if let bytes { try file.replace(with: bytes) } else { try file.remove() }
        }
    }

    /// Runs `body` while the lease is held and cannot be lost: losing it takes the same lock on the directory.
    /// - Throws: ``AuthError`` with `lease_lost` when it has been lost already.
    func withHeldLock(of lease: Lease, _ body: () async throws -> Void) async throws {
        guard let lock = held[lease] else { throw Lease.lost }
        try await withDirectoryLock {
            guard lock.isNamed else { throw Lease.lost }
            try await body()
        }
    }

    // swift-format-ignore: AllPublicDeclarationsHaveDocumentation
    public func withLease<Return: Sendable>(
        on key: RecordKey,
        _ body: (Lease) async throws -> Return
    ) async throws -> Return {
        try PrivateFile.createDirectory(directory)
        let lock = try await lock(key)
        let lease = held.add(lock, key)
        let renewing = Task { [renewal] in
            while true {
                try await renewal.sleep(for: Self.leaseDuration / 3)
                lock.renew()
            }
        }
        defer {
            renewing.cancel()
            held.remove(lease)
            release(lock)
        }
        return try await body(lease)
    }

    /// Takes the lock of a key, or the place of a holder that has not renewed it for a whole lease.
    private func lock(_ key: RecordKey) async throws -> FileLock {
        // The lock is a file of its own: the credential's is replaced, and a lock on the old one would guard nothing.
        let place = PrivateFile(path(for: key, "lock"))
        var lock = try place.openLock()
        var waited = Duration.zero
        var pause = Duration.milliseconds(5)
        var lastRenewal = lock.renewedAt
        // The waits are counted, not the time: a machine that slept has not waited.
        var unrenewed = Duration.zero
        do {
            while true {
                // Taken and marked as in use at once: a waiter that has seen no renewal must not take it for a dead one.
                var attempt = FileLock.Attempt.busy
                try await withDirectoryLock { attempt = try lock.acquire() }
                switch attempt {
                case .taken: return lock
                case .outdated:
                    // Opened before the old one is closed: what is closed when opening fails is then closed once.
                    let next = try place.openLock()
                    lock.release()
                    lock = next
                    (lastRenewal, unrenewed) = (lock.renewedAt, .zero)
                case .busy:
                    guard waited < patience else {
                        let holder = lock.holder.map { "Process \($0)" } ?? "Another process"
                        throw AuthError(
                            .leaseBusy,
                            "\(holder) has held \(place.path) for \(Int(patience.seconds)) seconds. Wait for it, or end it."
                        )
                    }
                    if unrenewed >= Self.leaseDuration {
                        try await withDirectoryLock {
                            if lock.isNamed, lock.renewedAt == lastRenewal { lock.remove() }
                        }
                        unrenewed = .zero
                        continue
                    }
                    try await clock.sleep(for: pause)
                    waited += pause
                    unrenewed = lock.renewedAt == lastRenewal ? unrenewed + pause : .zero
                    lastRenewal = lock.renewedAt
                    pause = min(pause * 2, .milliseconds(250))
                }
            }
        } catch {
            lock.release()
            throw error
        }
    }

    /// Gives a lock up, and leaves no file behind.
    private func release(_ lock: FileLock) {
        // When the directory is busy the file stays, which does no harm.
        if let guarded = try? PrivateFile.lockDirectory(directory) {
            if lock.isNamed { lock.remove() }
            guarded.release()
        }
        lock.release()
    }

    /// Runs `body` while no other process changes which lock is a key's, or writes under one. It is held for a moment only.
    private func withDirectoryLock(_ body: () async throws -> Void) async throws {
        var waited = Duration.zero
        while true {
            if let lock = try PrivateFile.lockDirectory(directory) {
                defer { lock.release() }
                return try await body()
            }
            guard waited < patience else {
                throw AuthError(.storageFailed, "Another process writes to \(directory), and does not finish.")
            }
            try await clock.sleep(for: .milliseconds(2))
            waited += .milliseconds(2)
        }
    }

    private func path(for key: RecordKey, _ suffix: String) -> String {
        let hash = Base64URL.encode(Array(SHA256.hash(data: Array(key.uniqueName.utf8))).prefix(15))
        let readable = key.name.filter { $0.isASCII && ($0.isLetter || $0.isNumber) }.prefix(32)
        return "\(directory)/\(readable)-\(hash).\(suffix)"
    }
}

/// The locks that this store holds, by the leases that it gave for them.
private final class HeldLocks: Sendable {
    private static let lastFence = Atomic<UInt64>(0)
    private let locks = Mutex<[Lease: FileLock]>([:])

    subscript(lease: Lease) -> FileLock? { locks.withLock { $0[lease] } }

    func add(_ lock: FileLock, _ key: RecordKey) -> Lease {
        let lease = Lease(key: key, fence: Self.lastFence.add(1, ordering: .relaxed).newValue) {
            // Another process takes over the lock of one that was paused.
            lock.isNamed
        }
        locks.withLock { $0[lease] = lock }
        return lease
    }

    func remove(_ lease: Lease) { locks.withLock { $0[lease] = nil } }
}
