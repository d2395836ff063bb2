import AuthFlow

#if canImport(Darwin)
import Darwin
#else
import Glibc
#endif

/// The connections and requests of a ``DatabaseLoop``. It belongs to the loop's thread.
struct DatabaseWork<Link: DatabaseLink> {
    private typealias Job = DatabaseLoop<Link>.Job
    private typealias Instant = ContinuousClock.Instant

    private struct Slot {
        let link: Link
        var job: Job?
        /// Whether the descriptor was ready when it was waited for.
        var isReady = true
        var lastUse = Instant.now
    }

    /// Whether messages are wanted.
    var isListening = false

    private let limits: DatabaseLoop<Link>.Limits
    private let wakeUp: WakeUpPipe
    private var waiting: ArraySlice<DatabaseLoop<Link>.Job> = []
    private var slots: [Slot] = []
    private var listener: Link?
    /// The connections that are being opened, and since when.
    private var opening: [(use: DatabaseLinkUse, since: Instant)] = []
    private var lastUse = Instant.now
    /// The failure to connect, since when, how often, and when the next attempt is made.
    private var outage: (failure: DatabaseFailure, since: Instant, count: Int, nextAttempt: Instant)?
    private var finished = 0

    /// How long opening a connection may take before another is opened.
    private static var longestOpening: Duration { .seconds(10) }

    init(limits: DatabaseLoop<Link>.Limits, wakeUp: WakeUpPipe) {
        self.limits = limits
        self.wakeUp = wakeUp
    }

    /// Whether there has been nothing to do for so long that the connections can be closed.
    var isIdle: Bool {
        waiting.isEmpty && slots.allSatisfy { $0.job == nil } && opening.isEmpty && !isListening
            && lastUse.duration(to: .now) >= limits.idle
    }

    mutating func add(_ jobs: [DatabaseLoop<Link>.Job]) {
        waiting.append(contentsOf: jobs)
        if !jobs.isEmpty { lastUse = .now }
    }

    /// Adds a connection that was opened, or learns that it could not be.
    mutating func add(
        _ result: Result<Link, DatabaseFailure>,
        for use: DatabaseLinkUse,
        report: (DatabaseMessage) -> Void
    ) {
        if let index = opening.firstIndex(where: { $0.use == use }) { opening.remove(at: index) }
        switch (result, use) {
        case (.success(let link), .requests):
            outage = nil
            slots.append(Slot(link: link))
        case (.success(let link), .messages):
            outage = nil
            listener?.close()
            listener = link
            report(.connected)
        case (.failure(let failure), _):
            fail(failure)
        }
    }

    /// Remembers that no connection could be made. What waits goes on waiting for a while: a database that is started again is
    /// away for a moment.
    private mutating func fail(_ failure: DatabaseFailure) {
        let now = Instant.now
        let (since, count) = outage.map { ($0.since, $0.count + 1) } ?? (now, 1)
        let pause = min(Duration.milliseconds(50) * (1 << min(count, 6)), .seconds(2))
        outage = (failure, since, count, now + pause)
    }

    /// Gives requests to free connections, and sends and reads what is possible without waiting.
    /// - Returns: How many requests have come to their end.
    mutating func advance(_ report: (DatabaseMessage) -> Void) -> Int {
        finished = 0
        if let listener {
            do throws(DatabaseFailure) {
                _ = try listener.advance()
                for message in listener.takeMessages() { report(.message(message)) }
            } catch {
                listener.close()
                self.listener = nil
                fail(error)
            }
        }
        for index in slots.indices.reversed() where index < slots.count { advance(index) }
        let now = Instant.now
        // A server, or something between, forgets connections that are silent for long, and may say nothing.
        for index in slots.indices.reversed()
        where slots[index].job == nil && slots[index].lastUse.duration(to: now) >= limits.idle {
            slots.remove(at: index).link.close()
        }
        let isStuck = opening.contains { $0.since.duration(to: now) >= Self.longestOpening }
        if isStuck {
            opening.removeAll { $0.since.duration(to: now) >= Self.longestOpening }
            fail(DatabaseFailure(.unreachable, "The database accepts connections and does not respond."))
        }
        while let job = waiting.first {
            if job.result.isFinished || now >= job.deadline {
                waiting.removeFirst()
                let reason = outage?.failure.message ?? "The database has no free connection."
                finish(job, .failure(DatabaseFailure(.unreachable, reason)))
                continue
            }
            if let index = slots.firstIndex(where: { $0.job == nil }) {
                waiting.removeFirst()
                slots[index].job = job
                slots[index].isReady = true
                do throws(DatabaseFailure) {
                    try slots[index].link.begin(job.request)
                } catch {
                    drop(index, error)
                    continue
                }
                advance(index)
            } else if let outage, slots.isEmpty, !opening.contains(where: { $0.use == .requests }),
                outage.failure.kind == .unusable || outage.since.duration(to: now) >= limits.outage,
                now < outage.nextAttempt
            {
                waiting.removeFirst()
                finish(job, .failure(outage.failure))
            } else {
                break
            }
        }
        return finished
    }

    private mutating func advance(_ index: Int) {
        guard slots[index].isReady || slots[index].link.mustWrite else { return expire(index) }
        do throws(DatabaseFailure) {
            if let result = try slots[index].link.advance(), let job = slots[index].job {
                (slots[index].job, slots[index].lastUse) = (nil, .now)
                finish(job, result.mapError { $0 })
                return
            }
        } catch {
            return drop(index, error)
        }
        expire(index)
    }

    /// Ends a connection whose request takes too long: what it answers later must not be taken for the next one's response.
    private mutating func expire(_ index: Int) {
        guard let job = slots[index].job, Instant.now >= job.deadline else { return }
        drop(index, DatabaseFailure(.unknownOutcome, "The database did not respond in time."))
        // Connections that nothing was asked on are no better.
        for index in slots.indices.reversed() where slots[index].job == nil { slots.remove(at: index).link.close() }
    }

    private mutating func drop(_ index: Int, _ failure: DatabaseFailure) {
        let slot = slots.remove(at: index)
        slot.link.close()
        if let job = slot.job { finish(job, .failure(DatabaseFailure(.unknownOutcome, failure.message))) }
    }

    private mutating func finish(_ job: DatabaseLoop<Link>.Job, _ result: Result<Link.Response, any Error>) {
        job.result.finish(result)
        finished += 1
        lastUse = .now
    }

    /// The connections to open now.
    mutating func wantedLinks() -> [DatabaseLinkUse] {
        var wanted: [DatabaseLinkUse] = []
        if let outage, Instant.now < outage.nextAttempt { return [] }
        let underWay = opening.count { $0.use == .requests }
        let room = limits.connections - slots.count - underWay
        // While the database is away one attempt is enough.
        let most = outage == nil ? room : min(room, 1 - underWay)
        let missing = waiting.count - underWay
        for _ in 0..<max(0, min(most, missing)) { wanted.append(.requests) }
        if isListening, listener == nil, !opening.contains(where: { $0.use == .messages }) { wanted.append(.messages) }
        opening += wanted.map { ($0, .now) }
        return wanted
    }

    /// Waits until a connection is ready, another thread wakes this one, or time is up.
    mutating func wait() {
        var entries = [pollfd(fd: wakeUp.readEnd, events: Int16(POLLIN), revents: 0)]
        for slot in slots {
            let events = slot.link.mustWrite ? POLLIN | POLLOUT : POLLIN
            entries.append(pollfd(fd: slot.link.descriptor, events: Int16(events), revents: 0))
        }
        if let listener { entries.append(pollfd(fd: listener.descriptor, events: Int16(POLLIN), revents: 0)) }
        let now = Instant.now
        var next = now + limits.idle
        for slot in slots { if let job = slot.job { next = min(next, job.deadline) } }
        if let job = waiting.first { next = min(next, job.deadline) }
        for link in opening { next = min(next, link.since + Self.longestOpening) }
        if let outage, !waiting.isEmpty || isListening, outage.nextAttempt > now {
            next = min(next, outage.nextAttempt)
        }
        // Rounded up: a wait that ends too early would be repeated many times.
        let milliseconds = Int32(max(0, min((now.duration(to: next) / .milliseconds(1)).rounded(.up), 60_000)))
        _ = unsafe poll(&entries, nfds_t(entries.count), milliseconds)
        for index in slots.indices { slots[index].isReady = entries[index + 1].revents != 0 }
    }

    /// Ends everything.
    mutating func end() {
        for slot in slots {
            slot.link.close()
            slot.job?.result.finish(.failure(DatabaseFailure(.unknownOutcome, "The store was closed.")))
        }
        for job in waiting { job.result.finish(.failure(DatabaseFailure(.unreachable, "The store was closed."))) }
        listener?.close()
    }
}
