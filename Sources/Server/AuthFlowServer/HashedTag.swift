import AuthFlow

/// A tag, hashed with each of the application's keys, so that keys can be rotated without ending sessions.
struct HashedTag {
    /// The tag to write.
    let written: RecordTag

    /// The tags to search for.
    let all: [RecordTag]

    /// - Parameter keys: The first is the one to write with; none for a hash without a key.
    init(_ values: [String], keys: [Secret]) {
        written = RecordTag(values, key: keys.first)
        // A key that is listed twice would find each session twice.
        all = keys.dropFirst().map { RecordTag(values, key: $0) }.reduce(into: [written]) { all, tag in
            if !all.contains(tag) { all.append(tag) }
        }
    }
}
