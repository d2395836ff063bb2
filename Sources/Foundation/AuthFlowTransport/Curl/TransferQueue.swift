import AuthFlowHTTP

#if os(Linux)

/// The queue of the transfers that wait for a connection (first come, first served, for each host), and the slots that
/// other transfers occupy.
///
/// A request that is queued inside libcurl could be sent just before its timeout. Its response would not be awaited, so
/// a refresh token in the response would be lost.
struct TransferQueue {
    /// The slots and the queue of one host in one pool, so that a host at its limit does not block transfers to other
    /// hosts.
    private struct Line {
        var slots = 0
        var waiting: [CurlTransfer] = []
    }

    private var lines: [CurlTransfer.Destination: Line] = [:]
    /// The number of transfers in progress in each pool, across all hosts.
    private var slots: [ConnectionPool: Int] = [:]

    var isEmpty: Bool { lines.isEmpty }

    /// The transfers without a slot.
    var waiting: [CurlTransfer] { lines.values.flatMap(\.waiting) }

    /// The number of transfers with a slot, and the number of transfers waiting for one, for each pool.
    var load: [ConnectionPool: (running: Int, waiting: Int)] {
        lines.reduce(into: [:]) { load, line in
            let known = load[line.key.pool] ?? (0, 0)
            load[line.key.pool] = (known.running + line.value.slots, known.waiting + line.value.waiting.count)
        }
    }

    /// Adds a transfer at the end of its queue.
    /// - Returns: The transfer that can start now, if any.
    mutating func add(_ transfer: CurlTransfer) -> CurlTransfer? {
        lines[transfer.destination, default: Line()].waiting.append(transfer)
        return next(in: transfer.destination)
    }

    /// Removes a waiting transfer.
    /// - Returns: Whether the transfer was waiting.
    mutating func remove(_ transfer: CurlTransfer) -> Bool {
        guard let index = lines[transfer.destination]?.waiting.firstIndex(where: { $0 === transfer }) else {
            return false
        }
        lines[transfer.destination]?.waiting.remove(at: index)
        removeIfEmpty(transfer.destination)
        return true
    }

    /// Releases the slot of a transfer.
    /// - Returns: The transfers that now have slots.
    mutating func releaseSlot(_ transfer: CurlTransfer) -> [CurlTransfer] {
        let destination = transfer.destination
        lines[destination]?.slots -= 1
        slots[destination.pool, default: 0] -= 1
        defer { removeIfEmpty(destination) }
        var begun: [CurlTransfer] = []
        // A transfer to another host may have been waiting only for a slot in the pool. The longest-waiting transfer is next,
        // whatever its host, so that hosts with many transfers cannot starve the others.
        while let longest = longestWaiting(in: destination.pool), let transfer = next(in: longest) {
            begun.append(transfer)
        }
        return begun
    }

    /// The destination of the longest-waiting transfer whose host is below its limit.
    private func longestWaiting(in pool: ConnectionPool) -> CurlTransfer.Destination? {
        lines.filter { destination, line in
            destination.pool == pool
                && line.waiting.first.map { line.slots < $0.settings.connectionsPerHost } == true
        }
        .min { ($0.value.waiting.first?.added ?? .now) < ($1.value.waiting.first?.added ?? .now) }?.key
    }

    private mutating func next(in destination: CurlTransfer.Destination) -> CurlTransfer? {
        guard let line = lines[destination], let first = line.waiting.first,
            line.slots < first.settings.connectionsPerHost,
            slots[destination.pool, default: 0] < first.settings.maximumConnections
        else { return nil }
        lines[destination]?.waiting.removeFirst()
        lines[destination]?.slots += 1
        slots[destination.pool, default: 0] += 1
        return first
    }

    private mutating func removeIfEmpty(_ destination: CurlTransfer.Destination) {
        guard let line = lines[destination], line.slots == 0, line.waiting.isEmpty else { return }
        lines[destination] = nil
    }
}
#endif
