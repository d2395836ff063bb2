/// The process of each task. There is no notification of the end of a task, so tasks that have not run for long are dropped by generation.
struct TaskOwners {
    private static let limit = 1 << 20

    private var recent: [UInt64: Int] = [:]
    private var earlier: [UInt64: Int] = [:]

    /// - Parameter new: The process of a task that was not seen before.
    mutating func owner(of task: UInt64, elseNew new: Int) -> Int {
        if let owner = recent[task] { return owner }
        let owner = earlier.removeValue(forKey: task) ?? new
        recent[task] = owner
        if recent.count > Self.limit {
            earlier = recent
            recent = [:]
        }
        return owner
    }
}
