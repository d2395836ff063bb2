import AuthFlow
import Synchronization
import Testing

@testable import AuthFlowCommand

/// The warning about a credential that could not be stored.
@Suite struct StorageWarningTests {
    /// The event of a failed write.
    private func failure(_ error: AuthError) throws -> FlowEvent {
        let events = Mutex<[FlowEvent]>([])
        FlowReporter(observer: { event in events.withLock { $0.append(event) } }).report(.storing, failedWith: error)
        return try #require(events.withLock { $0.first })
    }

    @Test func theWarningStatesTheCauseOnceAndIsCorrected() throws {
        let full = try failure(AuthError(.storageFailed, "/store/a.json cannot be written: No space left on device."))
        #expect(StorageWarning.text(for: full)?.contains("/store/a.json cannot be written: No space") == true)
        #expect(StorageWarning.text(for: full) == nil)
        let other = try failure(AuthError(.storageFailed, "/store/a.json cannot be written: Input/output error."))
        #expect(StorageWarning.text(for: other)?.contains("Input/output error") == true)
        #expect(StorageWarning.correction() == "The credential has now been stored.")
        #expect(StorageWarning.correction() == nil)
        // A later failure for the same reason concerns another credential.
        #expect(StorageWarning.text(for: other) != nil)
        StorageWarning.clear()
        #expect(StorageWarning.correction() == nil)
        // The credential of a rejected sign-in is never stored.
        #expect(StorageWarning.text(for: try failure(AuthError(.accountMismatch, "Another user."))) != nil)
        #expect(StorageWarning.correction() == nil)
    }
}
