import AuthFlowEssentials
import Synchronization

/// A cache with one value for each token. The keys are the digests of the tokens.
///
/// It has two generations: when the newer generation is full, the older generation is dropped, which bounds memory use
/// and retains recently used values.
final class TokenCache<Value: Sendable>: Sendable {
    private struct Entry {
        let value: Value
        /// The validity period of the value, in seconds since 1970.
        let from: Double
        let until: Double
    }

    private struct Generations {
        var recent: [TokenDigest: Entry] = [:]
        var earlier: [TokenDigest: Entry] = [:]
    }

    private let generations = Mutex(Generations())
    private let limit: Int

    /// - Parameter limit: The maximum number of tokens; 0 disables the cache.
    init(limit: Int) { self.limit = limit }

    /// Returns the value if it is valid at `now`. A value that is not valid, for example because the clock was set back to
    /// a time before its start, is removed.
    func value(_ digest: TokenDigest, at now: Date) -> Value? {
        let time = now.timeIntervalSince1970
        return generations.withLock { generations in
            guard let entry = generations.recent[digest] ?? generations.earlier[digest] else { return nil }
            guard entry.from <= time, time < entry.until else {
                generations.recent[digest] = nil
                generations.earlier[digest] = nil
                return nil
            }
            if generations.recent[digest] == nil { insert(entry, digest, &generations) }
            return entry.value
        }
    }

    /// - Parameters:
    ///   - start: The start of the value's validity, in seconds since 1970.
    ///   - end: The end of the value's validity, in seconds since 1970.
    func store(_ value: Value, _ digest: TokenDigest, from start: Double, until end: Double) {
        guard limit > 0, start < end else { return }
        generations.withLock { insert(Entry(value: value, from: start, until: end), digest, &$0) }
    }

    private func insert(_ entry: Entry, _ digest: TokenDigest, _ generations: inout Generations) {
        generations.recent[digest] = entry
        if generations.recent.count > limit / 2 { generations = Generations(earlier: generations.recent) }
    }
}
