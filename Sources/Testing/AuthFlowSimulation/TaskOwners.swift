/// The process of each task. Nothing tells when a task has ended, so those that have not taken a step for long are forgotten by generations.
struct TaskOwners {
    private static let limit = 1 << 20

    private var recent: [UInt64: Int] = [:]
    private var earlier: [UInt64: Int] = [:]

    /// - Parameter new: The process of a task that is not known yet.
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
