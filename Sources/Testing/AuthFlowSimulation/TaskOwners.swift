/// The process of each task. The runtime does not report when a task ends, so tasks that have not run recently are
/// dropped by generation.
struct TaskOwners {
    private static let limit = 1 << 20

    private var recent: [UInt64: Int] = [:]
    private var earlier: [UInt64: Int] = [:]

    /// - Parameter new: The process to which a new task is assigned.
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
