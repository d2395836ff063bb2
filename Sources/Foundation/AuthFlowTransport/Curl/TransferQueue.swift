import AuthFlowHTTP

#if os(Linux)

/// The transfers that wait for a connection, first come, first served at each host, and the places that the others take.
///
/// A request that waited inside libcurl would be sent at the end of its time, and its response not be awaited: a refresh token in it
/// would be lost.
struct TransferQueue {
    /// One host in one pool, in which no transfer waits for another host's.
    private struct Line {
        var places = 0
        var waiting: [CurlTransfer] = []
    }

    private var lines: [CurlTransfer.Destination: Line] = [:]
    /// The number of transfers in progress in each pool, over all hosts.
    private var places: [ConnectionPool: Int] = [:]

    var isEmpty: Bool { lines.isEmpty }

    /// The transfers without a place.
    var waiting: [CurlTransfer] { lines.values.flatMap(\.waiting) }

    /// How many transfers of each pool have a place, and how many wait for one.
    var load: [ConnectionPool: (running: Int, waiting: Int)] {
        lines.reduce(into: [:]) { load, line in
            let known = load[line.key.pool] ?? (0, 0)
            load[line.key.pool] = (known.running + line.value.places, known.waiting + line.value.waiting.count)
        }
    }

    /// Adds a transfer at the end of its line.
    /// - Returns: The transfer, when it has a place at once.
    mutating func add(_ transfer: CurlTransfer) -> CurlTransfer? {
        lines[transfer.destination, default: Line()].waiting.append(transfer)
        return next(in: transfer.destination)
    }

    /// Removes a transfer that waits.
    /// - Returns: Whether it was here.
    mutating func remove(_ transfer: CurlTransfer) -> Bool {
        guard let index = lines[transfer.destination]?.waiting.firstIndex(where: { $0 === transfer }) else {
            return false
        }
        lines[transfer.destination]?.waiting.remove(at: index)
        removeIfEmpty(transfer.destination)
        return true
    }

    /// Gives up the place of a transfer.
    /// - Returns: Those that have places now.
    mutating func leave(_ transfer: CurlTransfer) -> [CurlTransfer] {
        let destination = transfer.destination
        lines[destination]?.places -= 1
        places[destination.pool, default: 0] -= 1
        defer { removeIfEmpty(destination) }
        var begun: [CurlTransfer] = []
        // Another host's may have waited for a place in the pool alone: the one that has waited longest is the next, whichever host it is
        // for, so that hosts with many cannot keep the others out.
        while let longest = longestWaiting(in: destination.pool), let transfer = next(in: longest) {
            begun.append(transfer)
        }
        return begun
    }

    /// The destination of the longest-waiting transfer whose host is below its limit.
    private func longestWaiting(in pool: ConnectionPool) -> CurlTransfer.Destination? {
        lines.filter { destination, line in
            destination.pool == pool
                && line.waiting.first.map { line.places < $0.settings.connectionsPerHost } == true
        }
        .min { ($0.value.waiting.first?.added ?? .now) < ($1.value.waiting.first?.added ?? .now) }?.key
    }

    private mutating func next(in destination: CurlTransfer.Destination) -> CurlTransfer? {
        guard let line = lines[destination], let first = line.waiting.first,
            line.places < first.settings.connectionsPerHost,
            places[destination.pool, default: 0] < first.settings.maximumConnections
        else { return nil }
        lines[destination]?.waiting.removeFirst()
        lines[destination]?.places += 1
        places[destination.pool, default: 0] += 1
        return first
    }

    private mutating func removeIfEmpty(_ destination: CurlTransfer.Destination) {
        guard let line = lines[destination], line.places == 0, line.waiting.isEmpty else { return }
        lines[destination] = nil
    }
}
#endif
