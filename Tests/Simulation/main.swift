import AuthFlowSimulation
import Foundation
import SimulatedHistories

// Runs simulated histories of credentials, of sessions and of protected resources.
//
//   simulate COUNT [SEED]     COUNT histories, with seeds from SEED upward (default: a random seed), in one process per
//                             core; then the seeds in failed-seeds.txt. Prints the trace of the first history that
//                             violates an invariant, and exits with status 1
//   simulate replay SEED      one history, with its trace
//   simulate load EVENT PROCESSES SESSIONS MINUTES
//                             many sessions, from seed 1: prints the load on the provider and the database per minute.
//                             EVENT: steady, restart, provider, database
//   simulate twice COUNT      COUNT histories, each twice: prints a fingerprint, which is the same on every machine
let arguments = Array(CommandLine.arguments.dropFirst())

guard ProcessInfo.processInfo.environment["SWIFT_DETERMINISTIC_HASHING"] != nil else {
    // The variable fixes the iteration order of sets and dictionaries, and is read when a process starts.
    exit(try runSelf(arguments))
}

switch (arguments.first, arguments.dropFirst().compactMap { UInt64($0) }) {
case ("batch", let values) where values.count == 2: batch(values[0], values[1])
case ("replay", let values) where values.count == 1: replay(values[0])
case ("load", let values) where values.count == 3:
    guard let event = arguments.dropFirst().first.flatMap(LoadHistory.Event.init), !values.contains(0) else { usage() }
    try load(event, processes: Int(values[0]), sessions: Int(values[1]), minutes: Int(values[2]))
case ("twice", let values) where values.count == 1 && values[0] > 0: twice(values[0])
case (let count?, let seeds):
    guard let count = UInt64(count), count > 0, seeds.count <= 1 else { usage() }
    try await explore(count, from: seeds.first ?? UInt64.random(in: 1..<(1 << 40)))
default: usage()
}

func usage() -> Never {
    let usage = "COUNT [SEED] | replay SEED | twice COUNT | load EVENT PROCESSES SESSIONS MINUTES"
    FileHandle.standardError.write(Data("usage: simulate \(usage)\n".utf8))
    exit(2)
}

/// Runs this program with other arguments.
func runSelf(_ arguments: [String]) throws -> Int32 {
    let process = try start(arguments, output: nil)
    process.waitUntilExit()
    return process.terminationStatus
}

func start(_ arguments: [String], output: Pipe?) throws -> Process {
    let process = Process()
    process.executableURL = Bundle.main.executableURL ?? URL(fileURLWithPath: CommandLine.arguments[0])
    process.arguments = arguments
    process.environment = ProcessInfo.processInfo.environment.merging(["SWIFT_DETERMINISTIC_HASHING": "1"]) { $1 }
    if let output { process.standardOutput = output }
    try process.run()
    return process
}

/// Runs the histories of one process. The memory of a killed simulated process is never freed, so each process runs
/// at most 1000 histories.
func batch(_ first: UInt64, _ count: UInt64) {
    var (steps, calls) = (0, 0)
    for seed in first..<(first + count) {
        let history = history(of: seed)
        if let violation = history.run() { print("failed \(seed) \(history.setting.kind): \(violation)") }
        steps += history.simulation.steps
        calls += history.calls
    }
    print("total \(steps) \(calls)")
}

func replay(_ seed: UInt64) {
    let history = history(of: seed, recordsTrace: true)
    let violation = history.run()
    for line in history.simulation.trace { print(line) }
    print("seed \(seed), \(history.setting.kind): \(violation ?? "every rule held")")
    exit(violation == nil ? 0 : 1)
}

func twice(_ count: UInt64) {
    var fingerprint: UInt64 = 0
    for seed in 1...count {
        let fingerprints = (0..<2).map { run in
            // The second run records a trace, which must not change the result.
            let history = history(of: seed, recordsTrace: run == 1)
            _ = history.run()
            return history.simulation.fingerprint
        }
        guard fingerprints[0] == fingerprints[1] else {
            print("seed \(seed) has two different histories")
            exit(1)
        }
        fingerprint = (fingerprint &* 31) ^ fingerprints[0]
    }
    print("\(count) histories, twice: \(String(fingerprint, radix: 16))")
}

func load(_ event: LoadHistory.Event, processes: Int, sessions: Int, minutes: Int) throws {
    let history = try LoadHistory(seed: 1, event, LoadHistory.Size(processes: processes, sessions: sessions))
    let columns = ["user requests", "of them failed", "token requests", "refreshes", "database calls"].map { "\($0)/s" }
    print((["minute"] + columns + ["sessions lost", "p50 ms", "p99 ms"]).joined(separator: ","))
    var minute = 0
    history.run(minutes: minutes) { figures in
        let rates = [
            figures.requests, figures.failures, figures.tokenRequests, figures.refreshes, figures.storeCalls,
        ].map { String(format: "%.1f", Double($0) / 60) }
        let waits = [0.5, 0.99].map { String(format: "%.0f", figures.wait(of: $0)) }
        print(([String(minute)] + rates + [String(figures.lost)] + waits).joined(separator: ","))
        minute += 1
    }
    if let violation = history.violation {
        print(violation)
        exit(1)
    }
}

/// The seeds of earlier failures.
func failedSeeds() -> [UInt64] {
    let file = URL(fileURLWithPath: #filePath).deletingLastPathComponent().appendingPathComponent("failed-seeds.txt")
    let text = (try? String(contentsOf: file, encoding: .utf8)) ?? ""
    return text.split(separator: "\n").compactMap { UInt64($0.prefix { $0 != " " }) }
}

/// Prints a line without buffering, because a campaign can take hours and may be stopped early.
func tell(_ line: String) { FileHandle.standardOutput.write(Data("\(line)\n".utf8)) }

func explore(_ count: UInt64, from seed: UInt64) async throws {
    let size: UInt64 = 1000
    var batches = stride(from: seed, to: seed + count, by: Int(size)).map { ($0, min(size, seed + count - $0)) }
    batches += failedSeeds().map { ($0, 1) }
    let began = ContinuousClock.now
    var (steps, calls, failures) = (0, 0, [(seed: UInt64, text: String)]())
    try await withThrowingTaskGroup(of: String.self) { group in
        var next = batches.makeIterator()
        func add() {
            guard let (first, count) = next.next() else { return }
            group.addTask {
                let pipe = Pipe()
                let process = try start(["batch", "\(first)", "\(count)"], output: pipe)
                let output = pipe.fileHandleForReading.readDataToEndOfFile()
                process.waitUntilExit()
                guard process.terminationStatus == 0 else {
                    return
                        "failed \(first) a history of this and the next \(count - 1) seeds terminates the process (status \(process.terminationStatus))"
                }
                return String(decoding: output, as: UTF8.self)
            }
        }
        for _ in 0..<ProcessInfo.processInfo.activeProcessorCount { add() }
        var finished = 0
        while let output = try await group.next() {
            for line in output.split(separator: "\n") {
                let words = line.split(separator: " ", maxSplits: 2)
                if words.first == "failed" {
                    failures.append((UInt64(words[1]) ?? 0, String(words[2])))
                    tell("seed \(words[1]), \(words[2])")
                } else {
                    steps += Int(words[1]) ?? 0
                    calls += Int(words[2]) ?? 0
                }
            }
            finished += 1
            if finished % 50 == 0 { tell("\(finished) of \(batches.count) batches") }
            add()
        }
    }
    let time = Int((ContinuousClock.now - began) / .seconds(1))
    print("\(count) histories from seed \(seed) in \(time) s: \(steps) steps, \(calls) calls, \(failures.count) failed")
    if let first = failures.min(by: { $0.seed < $1.seed }) {
        _ = try runSelf(["replay", "\(first.seed)"])
        exit(1)
    }
}
