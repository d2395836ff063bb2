import AuthFlowEssentials
import Synchronization

/// The tokens that were verified a moment ago, by their digests.
///
/// Two generations: when the newer one is full the older one is dropped, so that the memory is bounded and what is used stays.
final class AccessTokenCache: Sendable {
    private struct Entry {
        let token: AccessToken
        /// When it was verified, and when it has to be verified again, in seconds since 1970.
        let from: Double
        let until: Double
    }

    private let generations = Mutex<(recent: [TokenDigest: Entry], earlier: [TokenDigest: Entry])>(([:], [:]))
    private let limit: Int

    init(limit: Int) { self.limit = limit }

    /// A token that is still good: its own times are looked at, and a clock that was set back makes nothing last longer.
    func token(_ digest: TokenDigest, at now: Date) -> AccessToken? {
        guard limit > 0 else { return nil }
        let time = now.timeIntervalSince1970
        return generations.withLock { generations in
            guard let entry = generations.recent[digest] ?? generations.earlier[digest] else { return nil }
            guard entry.from <= time, time < entry.until else {
                generations.recent[digest] = nil
                generations.earlier[digest] = nil
                return nil
            }
            if generations.recent[digest] == nil { insert(entry, digest, &generations) }
            return entry.token
        }
    }

    /// - Parameter age: How long the token is accepted without being verified again, in seconds.
    func keep(_ token: AccessToken, _ digest: TokenDigest, at now: Date, for age: Double) {
        guard limit > 0, let end = token.end else { return }
        let time = now.timeIntervalSince1970
        // Never beyond its end. The leeway is for tokens that are verified anew.
        let entry = Entry(token: token, from: max(time, token.start), until: min(time + age, end))
        guard entry.from < entry.until else { return }
        generations.withLock { insert(entry, digest, &$0) }
    }

    private func insert(
        _ entry: Entry,
        _ digest: TokenDigest,
        _ generations: inout (recent: [TokenDigest: Entry], earlier: [TokenDigest: Entry])
    ) {
        generations.recent[digest] = entry
        if generations.recent.count > limit / 2 { generations = ([:], generations.recent) }
    }
}
