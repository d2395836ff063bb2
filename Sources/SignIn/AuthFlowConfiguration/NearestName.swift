/// Finds the name that the user probably meant.
package enum NearestName {
    /// The nearest of `names` by edit distance (insertion, deletion, substitution, transposition), if the difference is small enough to be a typo.
    package static func of(_ name: String, among names: [String]) -> String? {
        // The cost grows with the product of the lengths, and a longer name is unlikely to be a typo.
        let names = names.filter { $0.utf8.count <= longest }
        guard name.utf8.count <= longest else { return nil }
        let limit = max(1, name.count / 3)
        let ranked = names.map { (name: $0, distance: distance(Array(name.lowercased()), Array($0.lowercased()))) }
        return ranked.filter { $0.distance <= limit }.min { $0.distance < $1.distance }?.name
    }

    /// The maximum length of a name to compare, in bytes.
    private static let longest = 64

    /// The hint for an unknown name: the most similar name, if any, and all names if there are few or none is similar.
    package static func advice(_ name: String, among names: [String]) -> String {
        advice(near: of(name, among: names), among: names)
    }

    static func advice(near: String?, among names: [String]) -> String {
        let near = near.map { "Did you mean \"\($0)\"?" }
        let known = near == nil || names.count <= 12 ? "Known: \(names.joined(separator: ", "))" : nil
        return [near, known].compactMap(\.self).joined(separator: " ")
    }

    private static func distance(_ left: [Character], _ right: [Character]) -> Int {
        var beforePrevious: [Int] = []
        var previous = Array(0...right.count)
        for (i, leftCharacter) in left.enumerated() {
            var current = [i + 1]
            for (j, rightCharacter) in right.enumerated() {
                var best = min(
                    previous[j + 1] + 1,
                    current[j] + 1,
                    previous[j] + (leftCharacter == rightCharacter ? 0 : 1)
                )
                if i > 0, j > 0, leftCharacter == right[j - 1], left[i - 1] == rightCharacter {
                    best = min(best, beforePrevious[j - 1] + 1)
                }
                current.append(best)
            }
            (beforePrevious, previous) = (previous, current)
        }
        return previous[right.count]
    }
}
