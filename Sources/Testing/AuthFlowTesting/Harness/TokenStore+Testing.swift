public import AuthFlow

extension TokenStore {
    /// Writes bytes for a key under a separate lease.
    public func set(_ bytes: [UInt8]?, for key: RecordKey) async throws {
        try await withLease(on: key) { lease in try await write(bytes, under: lease) }
    }
}
