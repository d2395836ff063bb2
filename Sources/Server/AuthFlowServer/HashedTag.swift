import AuthFlow

/// The HMACs of a tag under each of the application's keys, so that keys can be rotated without ending sessions.
struct HashedTag {
    /// The tag to write.
    let written: RecordTag

    /// The tags to search for.
    let all: [RecordTag]

    /// - Parameter keys: The HMAC keys. The first key is used for writing; without keys, the tag is a SHA-256 hash.
    init(_ values: [String], keys: [Secret]) {
        written = RecordTag(values, key: keys.first)
        // With a duplicate key, each session would be found twice.
        all = keys.dropFirst().map { RecordTag(values, key: $0) }.reduce(into: [written]) { all, tag in
            if !all.contains(tag) { all.append(tag) }
        }
    }
}
