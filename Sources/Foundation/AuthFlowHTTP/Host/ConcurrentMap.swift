extension Array where Element: Sendable {
    /// Transforms the elements concurrently.
    /// - Returns: The results, in the order of the elements.
    package func concurrentMap<Output: Sendable>(
        _ transform: @escaping @Sendable (Element) async -> Output
    ) async -> [Output] {
        await withTaskGroup(of: (Int, Output).self) { group in
            for (number, element) in enumerated() { group.addTask { (number, await transform(element)) } }
            return await group.reduce(into: [(Int, Output)]()) { $0.append($1) }.sorted { $0.0 < $1.0 }.map { $0.1 }
        }
    }
}
