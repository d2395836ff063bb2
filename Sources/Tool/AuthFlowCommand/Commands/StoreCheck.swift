import ArgumentParser
import AuthFlow
import Synchronization

extension StoreCommand {
    struct Check: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "check",
            abstract:
                "Check a store that several processes share: connection, lease, write, notifications between processes, and the keys of the records (at most 10000).",
            discussion: """
                It writes and removes one test record, and changes no other record. Exits with 8 when a check fails.
                """
        )

        @OptionGroup var options: ProfileOptions

        func run() async throws {
            let (profile, store) = try StoreCommand.store(options)
            // A second instance, as in another process: it is notified of removals only through the store.
            let secondInstance = try StoreCommand.store(options).store
            guard let sessions = store as? any SessionTokenStore, let others = secondInstance as? any SessionTokenStore,
                !(store is MemoryTokenStore)
            else {
                throw AuthError(
                    .unsupported,
                    "The store of the profile \(profile.name) does not support sessions shared by several processes. Use SQLite, PostgreSQL or Redis."
                )
            }
            let probe = StoreProbe(store: sessions, secondInstance: others, host: ToolEnvironment.host)
            let hasPassed = try await probe.run { line in Terminal.result(line) }
            if !hasPassed { throw StoreCheckFailed() }
        }
    }
}

private struct StoreCheckFailed: CommandFailure {
    let status = ExitStatus.storage
    let message = "The store failed a check."
}

/// Checks the operations of a store, in dependency order.
private struct StoreProbe {
    let store: any SessionTokenStore
    /// A second instance of the store, as in another process.
    let secondInstance: any SessionTokenStore
    let host: HostServices

    private static let name = "store check"

    private var key: RecordKey {
        RecordKey(name: Self.name, issuer: "", clientID: Base64URL.encode(host.randomBytes(16)))
    }

    /// - Returns: Whether every check succeeded.
    /// - Throws: `CancellationError`.
    func run(_ show: (String) -> Void) async throws -> Bool {
        let elapsed = host.clock.stopwatch()
        func step(_ name: String, _ body: () async throws -> String) async throws -> Bool {
            let result: (mark: String, detail: String)
            do {
                result = ("ok", try await body())
            } catch {
                try Task.checkCancellation()
                result = ("!!", ExitStatus.message(for: error))
            }
            show("  \(result.mark)  \(Terminal.column(name, width: 13))\(result.detail)")
            return result.mark == "ok"
        }
        let key = key
        let isConnected = try await step("connection") {
            _ = try await store.bytes(for: key)
            let connected = elapsed()
            _ = try await store.bytes(for: key)
            return "established in \(Self.text(connected)); a read takes \(Self.text(elapsed() - connected))"
        }
        guard isConnected else { return false }
        let messages = RemovalMessages(digest: key.digest)
        secondInstance.observeRemovals { messages.receive($0) }
        guard try await step("write", { try await write(key, since: elapsed) }) else { return false }
        let removal = try await step("removal", { try await remove(key, messages) })
        let records = try await step("records", { try await count() })
        return removal && records
    }

    private func write(_ key: RecordKey, since elapsed: () -> Duration) async throws -> String {
        let began = elapsed()
        let bytes = host.randomBytes(4096)
        let attributes = RecordAttributes(lifetime: .seconds(60), idleTime: .seconds(60))
        try await store.withLease(on: key) { lease in try await store.write(bytes, attributes, under: lease) }
        guard try await store.bytes(for: key) == bytes else {
            throw AuthError(.storageFailed, "The record read does not match the record written.")
        }
        return "written under a lease and read back in \(Self.text(elapsed() - began))"
    }

    /// Removes the record. If no notification arrives, writes and removes the record again, because the connection for
    /// notifications may still be opening.
    private func remove(_ key: RecordKey, _ messages: RemovalMessages) async throws -> String {
        for attempt in 0..<5 {
            if attempt > 0 { try await store.withLease(on: key) { try await store.write([0], under: $0) } }
            guard try await store.remove([key]).map(\.key) == [key], try await store.bytes(for: key) == nil else {
                throw AuthError(.storageFailed, "The record was not removed.")
            }
            for _ in 0..<50 where !messages.hasArrived { try await host.clock.sleep(for: .milliseconds(20)) }
            if messages.hasArrived { return "other processes are notified" }
        }
        throw AuthError(
            .storageFailed,
            "Other processes receive no notifications, so a sign-out may take up to ten seconds to reach them. If the connection goes through a pooler, set the pooler to session mode."
        )
    }

    private func count() async throws -> String {
        var (count, unreadable, read) = (0, 0, 0)
        var last: [UInt8]?
        while case let page = try await store.keys(after: last, limit: 500), !page.isEmpty {
            last = page.last?.digest
            // The test record of another check, which may have been killed, is not counted.
            for key in page where key.kind != .claim && !(key.name == Self.name && key.issuer.isEmpty) {
                count += 1
                guard read < Self.mostRead else { continue }
                read += 1
                do {
                    guard let bytes = try await store.bytes(for: key) else { continue }
                    if key.kind == .credential { _ = try StoredAccounts(serialized: bytes) }
                    // A store without a key returns the records of an encrypted store as they are.
                    if (try? JSON(parsing: bytes))?["encrypted"] != nil { unreadable += 1 }
                } catch let error as AuthError where error.code == .credentialUnusable {
                    unreadable += 1
                }
            }
        }
        guard unreadable == 0 else {
            throw AuthError(
                .storageFailed,
                "\(unreadable) of \(read) records cannot be read: they are damaged, are not encrypted, or are encrypted with a key that is not in \"encryption_keys\"."
            )
        }
        return "\(count) in the store; \(read == count ? "all" : "the first \(read)") can be read"
    }

    /// The maximum number of records that are read, in addition to being counted.
    private static let mostRead = 10_000

    private static func text(_ duration: Duration) -> String {
        "\((duration / .milliseconds(1) * 10).rounded() / 10) ms"
    }
}

/// Records whether the store has sent a notification of a record's removal.
private final class RemovalMessages: Sendable {
    private let digest: [UInt8]
    private let arrived = Atomic(false)

    init(digest: [UInt8]) { self.digest = digest }

    var hasArrived: Bool { arrived.load(ordering: .relaxed) }

    func receive(_ other: [UInt8]?) {
        if other == digest { arrived.store(true, ordering: .relaxed) }
    }
}
