import AuthFlow
import AuthFlowSystem

/// The connections and requests of a ``DatabaseLoop``. Only the loop's thread uses it.
struct DatabaseWork<Link: DatabaseLink> {
    private typealias Job = DatabaseLoop<Link>.Job
    private typealias Instant = ContinuousClock.Instant

    private struct Slot {
        let link: Link
        var job: Job?
        /// Whether the last poll reported the descriptor as ready, or the request is new.
        var isReady = true
        var lastUse = Instant.now
    }

    /// Whether to receive messages.
    var isListening = false

    private let limits: DatabaseLoop<Link>.Limits
    private let wakeUp: WakeUpPipe
    private var waiting: ArraySlice<DatabaseLoop<Link>.Job> = []
    private var slots: [Slot] = []
    private var listener: Link?
    /// The connections being opened, each with its start time.
    private var opening: [(use: DatabaseLinkUse, since: Instant)] = []
    private var lastUse = Instant.now
    /// The latest connection failure, the start of the outage, the number of failures, and the time of the next attempt.
    private var outage: (failure: DatabaseFailure, since: Instant, count: Int, nextAttempt: Instant)?
    private var finished = 0

    /// The timeout for opening a connection, after which another connection may be opened.
    private static var openTimeout: Duration { .seconds(10) }

    init(limits: DatabaseLoop<Link>.Limits, wakeUp: WakeUpPipe) {
        self.limits = limits
        self.wakeUp = wakeUp
    }

    /// Whether the pool has reached the idle timeout, so that its connections can be closed.
    var isIdle: Bool {
        waiting.isEmpty && slots.allSatisfy { $0.job == nil } && opening.isEmpty && !isListening
            && lastUse.duration(to: .now) >= limits.idle
    }

    mutating func add(_ jobs: [DatabaseLoop<Link>.Job]) {
        waiting.append(contentsOf: jobs)
        if !jobs.isEmpty { lastUse = .now }
    }

    /// Adds an opened connection, or records that it could not be opened.
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

    /// Records that no connection could be established. Pending requests keep waiting for a while, because a restarting database
    /// is unavailable only briefly.
    private mutating func fail(_ failure: DatabaseFailure) {
        let now = Instant.now
        let (since, count) = outage.map { ($0.since, $0.count + 1) } ?? (now, 1)
        let pause = min(Duration.milliseconds(50) * (1 << min(count, 6)), .seconds(2))
        outage = (failure, since, count, now + pause)
    }

    /// Assigns requests to free connections, and sends and receives as much as possible without blocking.
    /// - Returns: The number of requests that completed.
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
        // A server or middlebox may silently drop connections that have been idle for a long time.
        for index in slots.indices.reversed()
        where slots[index].job == nil && slots[index].lastUse.duration(to: now) >= limits.idle {
            slots.remove(at: index).link.close()
        }
        let isStuck = opening.contains { $0.since.duration(to: now) >= Self.openTimeout }
        if isStuck {
            opening.removeAll { $0.since.duration(to: now) >= Self.openTimeout }
            fail(DatabaseFailure(.unreachable, "The database accepts connections but does not respond."))
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
        guard slots[index].isReady || slots[index].link.hasPendingOutput else { return expire(index) }
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

    /// Closes a connection whose request has timed out: a late response must not be mistaken for the response to the
    /// next request.
    private mutating func expire(_ index: Int) {
        guard let job = slots[index].job, Instant.now >= job.deadline else { return }
        drop(index, DatabaseFailure(.unknownOutcome, "The database did not respond in time."))
        // The idle connections are probably broken, too.
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
    mutating func connectionsToOpen() -> [DatabaseLinkUse] {
        var wanted: [DatabaseLinkUse] = []
        if let outage, Instant.now < outage.nextAttempt { return [] }
        let openingCount = opening.count { $0.use == .requests }
        let room = limits.connections - slots.count - openingCount
        // While the database is unavailable, one attempt at a time is enough.
        let most = outage == nil ? room : min(room, 1 - openingCount)
        let missing = waiting.count - openingCount
        for _ in 0..<max(0, min(most, missing)) { wanted.append(.requests) }
        if isListening, listener == nil, !opening.contains(where: { $0.use == .messages }) { wanted.append(.messages) }
        opening += wanted.map { ($0, .now) }
        return wanted
    }

    /// Waits until a connection is ready, another thread wakes this one, or the next deadline is reached.
    mutating func wait() {
        var entries = [pollfd(fd: wakeUp.readEnd, events: Int16(POLLIN), revents: 0)]
        for slot in slots {
            let events = slot.link.hasPendingOutput ? POLLIN | POLLOUT : POLLIN
            entries.append(pollfd(fd: slot.link.descriptor, events: Int16(events), revents: 0))
        }
        if let listener { entries.append(pollfd(fd: listener.descriptor, events: Int16(POLLIN), revents: 0)) }
        let now = Instant.now
        var next = now + limits.idle
        for slot in slots { if let job = slot.job { next = min(next, job.deadline) } }
        if let job = waiting.first { next = min(next, job.deadline) }
        for link in opening { next = min(next, link.since + Self.openTimeout) }
        if let outage, !waiting.isEmpty || isListening, outage.nextAttempt > now {
            next = min(next, outage.nextAttempt)
        }
        // The timeout is rounded up, because a poll that returns slightly too early would be repeated many times.
        let milliseconds = Int32(max(0, min((now.duration(to: next) / .milliseconds(1)).rounded(.up), 60_000)))
        _ = unsafe poll(&entries, nfds_t(entries.count), milliseconds)
        for index in slots.indices { slots[index].isReady = entries[index + 1].revents != 0 }
    }

    /// Closes all connections and fails all requests.
    mutating func end() {
        for slot in slots {
            slot.link.close()
            slot.job?.result.finish(.failure(DatabaseFailure(.unknownOutcome, "The store was closed.")))
        }
        for job in waiting { job.result.finish(.failure(DatabaseFailure(.unreachable, "The store was closed."))) }
        listener?.close()
    }
}
