extension Sequence {
    /// Runs an operation for every element, even after one of them has failed, because each element must be processed: for
    /// example, every token must be revoked, or every record removed.
    /// - Parameter isFinal: Whether the operation would fail in the same way for the remaining elements; default: never.
    /// - Throws: The first error, after the last attempt.
    nonisolated(nonsending) package func attemptEach(
        until isFinal: (any Error) -> Bool = { _ in false },
        _ body: nonisolated(nonsending) (Element) async throws -> Void
    ) async throws {
        var failure: (any Error)?
        for element in self {
            do {
                try await body(element)
            } catch {
                failure = failure ?? error
                if isFinal(error) { break }
            }
        }
        if let failure { throw failure }
    }
}
