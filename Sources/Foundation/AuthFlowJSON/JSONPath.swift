/// The path from the root of a document to a value in it, such as `profiles.work.scopes[1]`.
package struct JSONPath: Sendable, Hashable {
    /// One step of the path.
    package enum Step: Sendable, Hashable {
        /// A step to the member of an object with this name.
        case member(String)
        /// A step to the element of an array at this zero-based index.
        case element(Int)
    }

    /// The steps, from the root.
    package let steps: [Step]

    /// Creates a path. A path without steps identifies the root.
    package init(_ steps: [Step] = []) {
        self.steps = steps
    }

    /// The path to a member of the object at this path.
    package func member(_ name: String) -> JSONPath { JSONPath(steps + [.member(name)]) }

    /// The path to an element of the array at this path.
    package func element(_ index: Int) -> JSONPath { JSONPath(steps + [.element(index)]) }
}

extension JSONPath: CustomStringConvertible {
    package var description: String {
        var text = ""
        for step in steps {
            switch step {
            case .member(let name): text += text.isEmpty ? name : ".\(name)"
            case .element(let index): text += "[\(index)]"
            }
        }
        return text
    }
}
