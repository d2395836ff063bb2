#if canImport(Glibc)
import AuthFlow
import AuthFlowTesting
import Foundation
import Testing

/// The state of the keyring; nil without a keyring.
private let keyring = ProcessInfo.processInfo.environment["AUTHFLOW_KEYRING"]

/// A real GNOME Keyring, started by `keyring.sh`, which sets its state in the environment.
@Suite(.serialized, .timeLimit(.minutes(5)), .enabled(if: keyring != nil, "Run through Tests/Interop/keyring.sh."))
struct KeyringTests {
    private let key = RecordKey(name: "work", issuer: "https://id.example.com", clientID: "client")

    @Test(.enabled(if: keyring == "unlocked")) func secretServiceStoreConforms() async throws {
        try await TokenStoreConformance(store: SecretServiceTokenStore()).run()
    }

    @Test(.enabled(if: keyring == "unlocked")) func storesTheKeyOfEncryptedFiles() async throws {
        let directory = NSTemporaryDirectory() + "authflow-\(UUID().uuidString)"
        defer { try? FileManager.default.removeItem(atPath: directory) }
        let files = FileTokenStore(directory: directory)
        try await TokenStoreConformance(store: EncryptedTokenStore(files, key: .store(SecretServiceTokenStore()))).run()
    }

    @Test(.enabled(if: keyring == "locked" || keyring == "absent"))
    func reportsALockedOrAbsentKeyringPromptly() async throws {
        let store = SecretServiceTokenStore()
        let errors = [
            await #expect(throws: AuthError.self) { try await store.bytes(for: key) },
            await #expect(throws: AuthError.self) { try await store.set([1], for: key) },
        ]
        for error in errors {
            #expect(error?.code == .storageFailed)
            // The service has responded: with a prompt to unlock the keyring, it would not respond in time.
            #expect(
                error?.message.contains(keyring == "locked" ? "is locked" : "cannot be") == true,
                "\(error?.message ?? "")"
            )
        }
    }

    @Test(.enabled(if: keyring == "hanging")) func waitsThreeSecondsForAHangingServiceAndReleasesTheLock()
        async throws
    {
        let store = SecretServiceTokenStore()
        let error = await #expect(throws: AuthError.self) {
            try await store.withLease(on: key) { _ in try await store.bytes(for: key) }
        }
        #expect(error?.code == .storageFailed)
        #expect(error?.message.contains("did not respond within 3 seconds") == true)
        // The lock is free, although the thread may still be waiting for the service.
        try await store.withLease(on: key) { _ in }

        // A user who presses Ctrl-C does not wait for the deadline, whose error is different.
        let (calls, call) = AsyncStream<Void>.makeStream()
        let cancelled = Task {
            call.finish()
            return try await store.bytes(for: key)
        }
        for await _ in calls {}
        cancelled.cancel()
        await #expect(throws: CancellationError.self) { try await cancelled.value }
    }
}
#endif
