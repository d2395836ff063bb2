import AuthFlow
import Synchronization

/// The warning about a credential that could not be stored.
enum StorageWarning {
    private static let last = Mutex<String?>(nil)

    /// The warning for a failed write; nil if it repeats the last warning, because several attempts failed for the same reason.
    static func text(for event: FlowEvent) -> String? {
        let cause = event.details["message"].map { " \(DisplayText.sanitized($0, limit: 1000))" }
        let advice = SignInAdvice.doctor.map { " For a diagnosis, run: \($0)" }
        let text =
            "Warning: the credential could not be stored. It will be lost when this command exits, unless a further attempt succeeds.\(cause ?? "")\(advice ?? "")"
        // The credential of a sign-in that the account policy rejects is not stored later.
        let isRejected = event.progress == .failed(.accountMismatch)
        return last.withLock { last in
            guard last != text else { return nil }
            last = isRejected ? nil : text
            return text
        }
    }

    /// Forgets the warning, because its credential is no longer in use.
    static func clear() { last.withLock { $0 = nil } }

    /// The message after every credential has been stored; nil without a warning.
    static func correction() -> String? {
        last.withLock { $0.take() }.map { _ in "The credential has now been stored." }
    }
}

extension UnfinishedClients {
    /// Waits like ``drain()`` after the command has succeeded, and reports a credential that was stored after a warning.
    static func drainBeforeExit() async {
        if await drain(), let correction = StorageWarning.correction() { Terminal.printMessage(correction) }
    }
}
