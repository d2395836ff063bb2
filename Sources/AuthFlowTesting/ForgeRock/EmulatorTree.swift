public import AuthFlowJSON

/// An authentication tree of an emulated ForgeRock: nodes in a row, some of which can end it early.
public struct EmulatorTree: Sendable {
    /// A node.
    public enum Node: Sendable {
        /// Goes straight to the end when the browser brings a persistent cookie that is good.
        case persistentCookieDecision
        /// A page of questions: the callbacks without their inputs, and what becomes of the answers.
        case page(stage: String, [Callback], @Sendable (_ answers: [JSON]) -> Verdict)
        /// Asks for the user name and the password of somebody who can sign in.
        case userNameAndPassword
        /// Asks to wait, this many times, for so many milliseconds.
        case polling(times: Int, milliseconds: Int)
        /// Sets a persistent cookie when the tree succeeds, which lasts for so many seconds.
        case setPersistentCookie(seconds: Int)
        /// Fails with a message.
        case failure(String)
    }

    /// What becomes of a page's answers.
    public enum Verdict: Sendable, Hashable {
        /// On to the next node.
        case goOn
        /// The same page again.
        case again
        /// The tree fails.
        case fail(String)
    }

    /// A question.
    public struct Callback: Sendable {
        let type: String
        let output: [(String, JSON)]
        let inputs: [JSON]

        /// Creates a question.
        /// - Parameters:
        ///   - type: Its type.
        ///   - output: What it says.
        ///   - inputs: The answers it comes with.
        public init(_ type: String, _ output: [(String, JSON)], inputs: [JSON] = [""]) {
            self.type = type
            self.output = output
            self.inputs = inputs
        }
    }

    let nodes: [Node]

    /// Creates a tree.
    public init(_ nodes: [Node]) { self.nodes = nodes }

    /// A user name and a password.
    public static let login = EmulatorTree([.userNameAndPassword])

    /// The same, unless there is a persistent cookie, and then one is set.
    public static func persistentCookie(seconds: Int = 3600) -> EmulatorTree {
        EmulatorTree([.persistentCookieDecision, .userNameAndPassword, .setPersistentCookie(seconds: seconds)])
    }
}
