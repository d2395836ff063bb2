public import AuthFlow
public import AuthFlowEssentials
import CSimulation

/// Runs tasks on one thread, in an order determined by a seed, and in virtual time.
///
/// It simulates several processes: each can be paused or killed between any two steps of its tasks. To replay a failure, run the
/// simulation with the same seed. A task belongs to the process of the task that started it.
///
/// Simulated code waits on ``clock``, and gets its time and randomness from ``host(of:skew:)``. It must not block, wait for other
/// threads, or call `Task.yield()`, from which it would never resume.
///
/// To get the same order in every run, set `SWIFT_DETERMINISTIC_HASHING` in the environment, because
/// otherwise the iteration order of sets and dictionaries differs between operating system processes.
public final class Simulation: @unchecked Sendable {  // All of its jobs run on the thread that called run(until:).
    /// A simulated process.
    public struct Process: Hashable, Sendable {
        package let index: Int

        /// The environment of the simulated processes: networks, databases, providers, users. It cannot be killed.
        public static let world = Process(index: 0)
    }

    @safe private struct Job {
        let pointer: UnsafeMutableRawPointer
        let process: Int
    }

    private enum ProcessState {
        case running
        case paused(until: Duration)
        case killed
    }

    /// The simulation's clock.
    public var clock: SimulatedClock { SimulatedClock(simulation: self) }

    /// The random number generator for all decisions.
    public var random: SeededGenerator

    /// The time since the start of the simulation.
    public private(set) var now = Duration.zero

    /// The number of steps so far.
    public private(set) var steps = 0

    /// A hash of the sequence of processes that took the steps so far: if it differs, two runs with the same seed
    /// have diverged.
    public private(set) var fingerprint: UInt64 = 0xCBF2_9CE4_8422_2325

    private var jobs: [Job] = []
    private var timers = Timers()
    private var states: [ProcessState] = [.running]
    private var owners = TaskOwners()
    private var current = Process.world.index
    private let recordsTrace: Bool

    /// The events so far, as lines of text; empty unless the trace is recorded.
    public private(set) var trace: [String] = []

    /// Creates a simulation.
    /// - Parameters:
    ///   - seed: The seed, which determines the whole simulation.
    ///   - recordsTrace: Whether ``trace`` is recorded; default: false.
    public init(seed: UInt64, recordsTrace: Bool = false) {
        random = SeededGenerator(seed: seed)
        self.recordsTrace = recordsTrace
    }

    /// The process whose task is running.
    public var runningProcess: Process { Process(index: current) }

    /// Adds an event to the trace.
    public func note(_ event: @autoclosure () -> String) {
        guard recordsTrace else { return }
        let milliseconds = Int64(now / .milliseconds(1))
        let process = current == 0 ? "  " : "P\(current)"
        trace.append("\(milliseconds / 1000).\(String(1000 + milliseconds % 1000).dropFirst()) \(process) \(event())")
    }

    // MARK: Processes

    /// Starts a process.
    public func startProcess() -> Process {
        states.append(.running)
        return Process(index: states.count - 1)
    }

    /// Kills a process: none of its tasks takes another step, even if work that they await in ``Process/world`` completes.
    public func kill(_ process: Process) {
        precondition(process != .world)
        note("P\(process.index) is killed")
        states[process.index] = .killed
        jobs.removeAll { $0.process == process.index }
        timers.removeAll(of: process.index)
    }

    /// Pauses a process for a duration; its clocks continue to run.
    public func pause(_ process: Process, for duration: Duration) {
        guard case .running = states[process.index] else { return }
        note("P\(process.index) is paused for \(duration)")
        states[process.index] = .paused(until: now + duration)
    }

    /// Whether a process has been killed.
    public func isKilled(_ process: Process) -> Bool {
        if case .killed = states[process.index] { true } else { false }
    }

    /// Starts a task in a process.
    public func begin(in process: Process, _ work: @escaping @Sendable () async -> Void) {
        let previous = current
        current = process.index
        defer { current = previous }
        capturingJobs { _ = Task { await work() } }
    }

    /// Whether this thread's jobs are captured.
    private var capturesJobs = false

    private func capturingJobs<Return>(_ body: () -> Return) -> Return {
        guard !capturesJobs else { return body() }
        capturesJobs = true
        unsafe authflow_simulation_begin(
            { context, job, task in
                unsafe Unmanaged<Simulation>.fromOpaque(context).takeUnretainedValue().enqueue(job, task)
            },
            Unmanaged.passUnretained(self).toOpaque()
        )
        defer {
            authflow_simulation_end()
            capturesJobs = false
        }
        return body()
    }

    /// Runs work in ``Process/world`` while a process waits for it: the work continues even if the process is killed.
    public func inWorld<Value: Sendable>(_ work: @escaping @Sendable () async throws -> Value) async throws -> Value {
        try await unsafe withUnsafeThrowingContinuation { continuation in
            begin(in: .world) {
                let result: Result<Value, any Error>
                do { result = .success(try await work()) } catch { result = .failure(error) }
                unsafe continuation.resume(with: result)
            }
        }
    }

    /// The clock and random number generator of a process.
    /// - Parameters:
    ///   - process: The process.
    ///   - skew: The offset of its wall clock; negative when the clock is behind.
    public func host(of process: Process, skew: Duration = .zero) -> HostServices {
        HostServices(
            now: { [self] in Self.epoch + (now + skew) / .seconds(1) },
            randomBytes: { [self] count in (0..<count).map { _ in UInt8(truncatingIfNeeded: random.next()) } },
            clock: clock,
            environment: [:]
        )
    }

    /// The wall-clock time at the start of the simulation.
    public static let epoch = Date(timeIntervalSince1970: 1_800_000_000)

    // MARK: Steps

    /// Runs tasks until the given time, or until no task can take another step.
    /// - Parameters:
    ///   - end: The time.
    ///   - check: Called after each step; returns whether to continue.
    /// - Returns: Whether no remaining task can ever take another step.
    @discardableResult
    public func run(until end: Duration, check: () -> Bool = { true }) -> Bool {
        capturingJobs { takeSteps(until: end, check) }
    }

    private func takeSteps(until end: Duration, _ check: () -> Bool) -> Bool {
        while true {
            if let job = nextJob() {
                steps += 1
                fingerprint = (fingerprint ^ UInt64(job.process)) &* 0x100_0000_01B3
                current = job.process
                unsafe authflow_simulation_run(job.pointer)
                current = Process.world.index
                guard check() else { return false }
            } else if let time = nextTime() {
                guard time <= end else {
                    now = end
                    return false
                }
                now = max(now, time)
                resumePaused()
                for timer in timers.takeDue(at: now, where: isRunning) { unsafe timer.continuation.resume() }
            } else {
                now = max(now, end)
                return true
            }
        }
    }

    private func enqueue(_ pointer: UnsafeMutableRawPointer, _ task: UInt64) {
        let owner = owners.owner(of: task, elseNew: current)
        if case .killed = states[owner] { return }
        unsafe jobs.append(Job(pointer: pointer, process: owner))
    }

    /// Removes and returns one of the jobs that can run now.
    private func nextJob() -> Job? {
        var count = 0
        for job in jobs where isRunning(job.process) { count += 1 }
        guard count > 0 else { return nil }
        var chosen = count == 1 ? 0 : Int(random.next() % UInt64(count))
        for index in jobs.indices where isRunning(jobs[index].process) {
            if chosen == 0 { return jobs.remove(at: index) }
            chosen -= 1
        }
        return nil
    }

    private func isRunning(_ process: Int) -> Bool {
        if case .running = states[process] { true } else { false }
    }

    /// The time at which the next timer fires or the next process resumes.
    private func nextTime() -> Duration? {
        var next = timers.next(where: isRunning)
        for case .paused(let end) in states { next = min(next ?? end, end) }
        return next
    }

    private func resumePaused() {
        for index in states.indices {
            if case .paused(let end) = states[index], end <= now { states[index] = .running }
        }
    }

    // MARK: Waiting

    func addTimer(at time: Duration, _ continuation: UnsafeContinuation<Void, any Error>) -> UInt64 {
        unsafe timers.add(at: time, of: current, continuation)
    }

    func cancelTimer(_ number: UInt64) {
        unsafe timers.remove(number)?.continuation.resume(throwing: CancellationError())
    }

    /// The number of pending waits of a process.
    public func waits(of process: Process) -> Int { timers.count(of: process.index) }
}
