import AuthFlowEssentials
package import AuthFlowHTTP
public import AuthFlowStorage
import Crypto
import Synchronization

/// Stores each credential in a separate file that only its owner can read.
///
/// The file contains the tokens in plaintext: any process of this user, and anyone with a backup of the disk, can read them.
///
/// A lease is a lock (`flock`) on a separate file in the same directory; the kernel releases it when the process exits. A holder
/// that is paused does not renew its lease, and loses it after 30 seconds: the next holder replaces the lock file, and
/// the old holder can no longer write.
public struct FileTokenStore: TokenStore {
    /// The lease duration: a lease expires if its holder does not renew it for this time.
    static let leaseDuration = Duration.seconds(30)

    /// The maximum size of a credential file, in bytes. A file contains all accounts of a record, and may be encrypted.
    private static let maximumSize = 2 * RecordKey.maximumRecordSize

    private let directory: String
    private let clock: any Clock<Duration>
    private let renewal: any Clock<Duration>
    private let waitTimeout: Duration
    private let held = HeldLocks()

    /// Creates a store.
    /// - Parameters:
    ///   - directory: An absolute path. Created with mode 0700 if it does not exist.
    ///   - clock: The clock for timing the wait for other processes.
    ///   - waitTimeout: The maximum wait for a lease that another process holds. It must exceed the duration of a
    ///     refresh with a slow provider.
    public init(directory: String, clock: any Clock<Duration> = ContinuousClock(), waitTimeout: Duration = .seconds(90))
    {
        self.init(directory: directory, clock: clock, waitTimeout: waitTimeout, renewal: ContinuousClock())
    }

    /// Creates a store in the user's data directory.
    /// - Parameter application: The name of the application's directory, such as `my-app`: one path component.
    public init(application: String) {
        self.init(directory: Self.defaultDirectory(for: application))
    }

    /// - Parameter renewal: The clock for lease renewal.
    init(directory: String, clock: any Clock<Duration>, waitTimeout: Duration, renewal: any Clock<Duration>) {
        self.directory = directory
        self.clock = clock
        self.waitTimeout = waitTimeout
        self.renewal = renewal
    }

    /// Creates a store in the user's data directory.
    init(host: HostServices) {
        self.init(directory: Self.defaultDirectory(for: "authflow", environment: host.environment), clock: host.clock)
    }

    /// The directory of an application's credentials on this system: `$XDG_DATA_HOME/NAME` if that path is absolute, or else `~/.local/share/NAME`,
    /// or on Apple platforms `~/Library/Application Support/NAME`.
    /// - Parameters:
    ///   - application: The name of the application's directory: one path component.
    ///   - environment: The process environment.
    package static func defaultDirectory(
        for application: String,
        environment: [String: String] = HostServices.system.environment
    ) -> String {
        precondition(
            !application.isEmpty && !application.hasPrefix(".") && !application.utf8.contains(UInt8(ascii: "/")),
            "The name of an application must be one path component."
        )
        #if canImport(Darwin)
        let usual = "Library/Application Support"
        #else
        let usual = ".local/share"
        #endif
        return "\(HomeDirectory.base("XDG_DATA_HOME", usual, environment))/\(application)"
    }

    public func bytes(for key: RecordKey) async throws -> [UInt8]? {
        try PrivateFile(path(for: key, "json")).contents(maximumSize: Self.maximumSize)
    }

    public func bytes(under lease: Lease) async throws -> [UInt8]? {
        let bytes = try await bytes(for: lease.key)
        try requireHeld(lease)
        return bytes
    }

    public func write(_ bytes: [UInt8]?, under lease: Lease) async throws {
        if let bytes, bytes.count > Self.maximumSize {
            // A record that would be too large to read must not be written.
            throw AuthError(
                .storageFailed,
                "A credential of \(bytes.count) bytes exceeds the maximum size of \(Self.maximumSize) bytes."
            )
        }
        try await withHeldLock(of: lease) {
            let file = PrivateFile(path(for: lease.key, "json"))
            guard let bytes else {
                releaseReserved(for: lease)
                // Temporary files from a process that was killed may contain tokens.
                let leftovers = Result { () throws(AuthError) in try file.removeLeftovers(isLocked: true) }
                try file.remove()
                return try leftovers.get()
            }
            try file.replace(with: bytes, in: held.takeReserved(for: lease) ?? TemporaryFile(for: file))
        }
    }

    public func reserve(_ size: Int, under lease: Lease) async throws {
        guard held[lease] != nil else { throw Lease.lost }
        releaseReserved(for: lease)
        held.reserve(try PrivateFile(path(for: lease.key, "json")).reserve(size), for: lease)
    }

    /// Releases reserved space, for a store that writes elsewhere on the same disk.
    func releaseReserved(for lease: Lease) { _ = held.takeReserved(for: lease) }

    /// Checks that no other process has taken over the lease.
    func requireHeld(_ lease: Lease) throws(AuthError) {
        guard held[lease]?.isNamed == true else { throw Lease.lost }
    }

    /// Runs `body` while the lease is held and cannot be lost, because another process needs the same directory lock to
    /// take over the lease.
    /// - Throws: ``AuthError`` with `lease_lost` when it has already been lost.
    func withHeldLock(of lease: Lease, _ body: () async throws -> Void) async throws {
        guard let lock = held[lease] else { throw Lease.lost }
        try await withDirectoryLock {
            guard lock.isNamed else { throw Lease.lost }
            try await body()
        }
    }

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

    /// Acquires the lock of a key, or takes it over from a holder that has not renewed it for the duration of a lease.
    private func lock(_ key: RecordKey) async throws -> FileLock {
        // The lock is a separate file, because a lock on the credential's file is useless once that file is replaced.
        let lockFile = PrivateFile(path(for: key, "lock"))
        var lock = try lockFile.openLock()
        var (holder, waited, total) = (lock.holder, Duration.zero, Duration.zero)
        var pause = Duration.milliseconds(5)
        var (replacement, replaced) = (Duration.zero, Duration.zero)
        var lastRenewal = lock.renewedAt
        // The sum of the pauses, not the elapsed time, which would include the time during which the machine was suspended.
        var timeSinceRenewal = Duration.zero
        do {
            while true {
                // The lock is acquired and marked as in use atomically, so that a waiter that has not seen a renewal
                // does not treat it as abandoned.
                var attempt = FileLock.Attempt.busy
                try await withDirectoryLock {
                    attempt = try lock.acquire()
                    if attempt == .taken { try? PrivateFile(path(for: key, "json")).removeLeftovers(isLocked: true) }
                }
                switch attempt {
                case .taken: return lock
                case .outdated:
                    guard replaced <= waitTimeout else {
                        throw AuthError(
                            .storageFailed,
                            "\(lockFile.path) cannot be locked: it is replaced each time, or its file system does not report file IDs."
                        )
                    }
                    // Usually, the previous holder has just removed the file.
                    try await clock.sleep(for: replacement)
                    replaced += replacement
                    replacement = min(max(.milliseconds(1), replacement * 2), .milliseconds(250))
                    // The new lock is opened before the old one is released: if opening fails, the old one is released
                    // below.
                    let next = try lockFile.openLock()
                    lock.release()
                    lock = next
                    // The previous holder has released the lock, even if the next holder is a task in the same process.
                    (lastRenewal, timeSinceRenewal, waited) = (lock.renewedAt, .zero, .zero)
                case .busy:
                    // Another holder has locked the file, so this file system supports the lock.
                    (replacement, replaced) = (.zero, .zero)
                    // The timeout restarts for each holder.
                    let present = lock.holder
                    if present != holder { (holder, waited) = (present, .zero) }
                    guard waited < waitTimeout, total < waitTimeout * 10 else {
                        let name = holder.map { "Process \($0)" } ?? "Another process"
                        throw AuthError(
                            .leaseBusy,
                            waited < waitTimeout
                                ? "Other processes have held \(lockFile.path) in turn for \(total.formattedSeconds). Try again."
                                : "\(name) has held \(lockFile.path) for \(waitTimeout.formattedSeconds). Wait for it, or terminate it."
                        )
                    }
                    if timeSinceRenewal >= Self.leaseDuration {
                        try await withDirectoryLock {
                            if lock.isNamed, lock.renewedAt == lastRenewal { lock.remove() }
                        }
                        timeSinceRenewal = .zero
                        continue
                    }
                    try await clock.sleep(for: pause)
                    waited += pause
                    total += pause
                    timeSinceRenewal = lock.renewedAt == lastRenewal ? timeSinceRenewal + pause : .zero
                    lastRenewal = lock.renewedAt
                    pause = min(pause * 2, .milliseconds(250))
                }
            }
        } catch {
            lock.release()
            throw error
        }
    }

    /// Releases a lock, and removes its file.
    private func release(_ lock: FileLock) {
        // If the directory is locked, the file remains, which is harmless.
        if let directoryLock = try? PrivateFile.lockDirectory(directory) {
            if lock.isNamed { lock.remove() }
            directoryLock.release()
        }
        lock.release()
    }

    /// Runs `body` while no other process can replace a key's lock file or write under its lock. The directory lock
    /// is held only briefly.
    private func withDirectoryLock(_ body: () async throws -> Void) async throws {
        var (waited, pause) = (Duration.zero, Duration.milliseconds(2))
        while true {
            if let lock = try PrivateFile.lockDirectory(directory) {
                defer { lock.release() }
                return try await body()
            }
            guard waited < waitTimeout else {
                throw AuthError(
                    .storageFailed,
                    "Another process has locked \(directory) for \(waitTimeout.formattedSeconds). If it is suspended, resume it or terminate it."
                )
            }
            try await clock.sleep(for: pause)
            waited += pause
            // Usually, another process is writing a file; rarely, a process that holds the lock is suspended.
            if waited > .seconds(1) { pause = .milliseconds(50) }
        }
    }

    private func path(for key: RecordKey, _ suffix: String) -> String {
        let hash = Base64URL.encode(Array(SHA256.hash(data: Array(key.uniqueName.utf8))).prefix(15))
        let readable = key.name.filter { $0.isASCII && ($0.isLetter || $0.isNumber) }.prefix(32)
        return "\(directory)/\(readable)-\(hash).\(suffix)"
    }
}

/// The locks that this store holds, and the files with reserved space, keyed by lease.
private final class HeldLocks: Sendable {
    private static let lastFence = Atomic<UInt64>(0)
    private let locks = Mutex<[Lease: (lock: FileLock, reserved: TemporaryFile?)]>([:])

    subscript(lease: Lease) -> FileLock? { locks.withLock { $0[lease]?.lock } }

    func reserve(_ file: TemporaryFile, for lease: Lease) { locks.withLock { $0[lease]?.reserved = file } }

    /// The file with reserved space, which can be used only once.
    func takeReserved(for lease: Lease) -> TemporaryFile? { locks.withLock { $0[lease]?.reserved.take() } }

    func add(_ lock: FileLock, _ key: RecordKey) -> Lease {
        let lease = Lease(key: key, fence: Self.lastFence.add(1, ordering: .relaxed).newValue) {
            // The lease is lost when another process has replaced the lock file. After a pause, another process may be
            // about to replace the lock file: the renewal either prevents the replacement, or is too late.
            lock.renew()
            return lock.isNamed
        }
        locks.withLock { $0[lease] = (lock, nil) }
        return lease
    }

    func remove(_ lease: Lease) { locks.withLock { $0[lease] = nil } }
}
