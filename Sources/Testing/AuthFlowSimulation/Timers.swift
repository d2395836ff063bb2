/// The timers that a simulation's tasks wait for. They are stored in a binary heap, because there may be hundreds
/// of thousands of them.
struct Timers {
    @safe struct Timer {
        let time: Duration
        let number: UInt64
        let process: Int
        let continuation: UnsafeContinuation<Void, any Error>

        func comes(before other: Timer) -> Bool { (time, number) < (other.time, other.number) }
    }

    private var heap: [Timer] = []
    /// The numbers of the cancelled timers in the heap.
    private var removed: Set<UInt64> = []
    /// The timers of paused processes, removed from the heap.
    private var held: [Timer] = []
    private var waiting: [UInt64: Timer] = [:]
    private var last: UInt64 = 0

    mutating func add(at time: Duration, of process: Int, _ continuation: UnsafeContinuation<Void, any Error>) -> UInt64
    {
        last += 1
        let timer = unsafe Timer(time: time, number: last, process: process, continuation: continuation)
        waiting[last] = timer
        insert(timer)
        return last
    }

    /// - Returns: The timer; nil if it has already fired or been removed.
    mutating func remove(_ number: UInt64) -> Timer? {
        guard let timer = waiting.removeValue(forKey: number) else { return nil }
        if let index = held.firstIndex(where: { $0.number == number }) {
            held.remove(at: index)
        } else {
            removed.insert(number)
        }
        return timer
    }

    mutating func removeAll(of process: Int) {
        waiting = waiting.filter { $0.value.process != process }
        held.removeAll { $0.process == process }
        removed = []
        heap = heap.filter { waiting[$0.number] != nil }.sorted { $0.comes(before: $1) }
    }

    func count(of process: Int) -> Int { waiting.values.count { $0.process == process } }

    /// The time of the first timer whose process is running. Earlier timers of paused processes are deferred.
    mutating func next(where isRunning: (Int) -> Bool) -> Duration? {
        while let first = heap.first {
            if removed.remove(first.number) != nil {
                removeFirst()
            } else if !isRunning(first.process) {
                held.append(first)
                removeFirst()
            } else {
                break
            }
        }
        return heap.first?.time
    }

    /// Removes and returns the due timers whose processes are running, in order.
    mutating func takeDue(at now: Duration, where isRunning: (Int) -> Bool) -> [Timer] {
        for timer in held where isRunning(timer.process) { insert(timer) }
        held.removeAll { isRunning($0.process) }
        var due: [Timer] = []
        while let time = next(where: isRunning), time <= now {
            due.append(heap[0])
            waiting[heap[0].number] = nil
            removeFirst()
        }
        return due
    }

    // MARK: Heap

    private mutating func insert(_ timer: Timer) {
        var index = heap.count
        heap.append(timer)
        while index > 0, timer.comes(before: heap[(index - 1) / 2]) {
            heap[index] = heap[(index - 1) / 2]
            index = (index - 1) / 2
        }
        heap[index] = timer
    }

    private mutating func removeFirst() {
        guard let last = heap.popLast(), !heap.isEmpty else { return }
        var index = 0
        while true {
            var child = 2 * index + 1
            guard child < heap.count else { break }
            if child + 1 < heap.count, heap[child + 1].comes(before: heap[child]) { child += 1 }
            guard heap[child].comes(before: last) else { break }
            heap[index] = heap[child]
            index = child
        }
        heap[index] = last
    }
}
