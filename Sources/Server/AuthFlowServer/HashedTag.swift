import AuthFlow

/// A tag as it is hashed with each of the application's keys, so that a key can be replaced while sessions go on.
struct HashedTag {
    /// The one that is written.
    let written: RecordTag

    /// Those that may have been written.
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
