public import AuthFlowJSON

/// An authentication tree of an emulated ForgeRock server: nodes in sequence, some of which can end the tree early.
public struct EmulatorTree: Sendable {
    /// A node.
    public enum Node: Sendable {
        /// Completes the tree when the browser sends a valid persistent cookie.
        case persistentCookieDecision
        /// A page of callbacks, with a closure that evaluates the values that the client submits.
        case page(stage: String, [Callback], @Sendable (_ answers: [JSON]) -> Verdict)
        /// Asks for the user name and the password of a user who can sign in.
        case userNameAndPassword
        /// Asks the client to wait this many times, for this many milliseconds each time.
        case polling(times: Int, milliseconds: Int)
        /// Sets a persistent cookie when the tree succeeds; it expires after this many seconds.
        case setPersistentCookie(seconds: Int)
        /// Fails with a message.
        case failure(String)
    }

    /// The result of evaluating the values submitted for a page.
    public enum Verdict: Sendable, Hashable {
        /// Continues with the next node.
        case proceed
        /// Shows the same page again.
        case repeatNode
        /// Fails the tree with a message.
        case fail(String)
    }

    /// A callback: a request for input from the user or the client.
    public struct Callback: Sendable {
        let type: String
        let output: [(String, JSON)]
        let inputs: [JSON]

        /// Creates a callback.
        /// - Parameters:
        ///   - type: The type, such as `NameCallback`.
        ///   - output: The output values, such as the prompt.
        ///   - inputs: The initial values of the inputs.
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

    /// A user name and a password, skipped if the browser sends a persistent cookie. Otherwise, sets a persistent
    /// cookie.
    public static func persistentCookie(seconds: Int = 3600) -> EmulatorTree {
        EmulatorTree([.persistentCookieDecision, .userNameAndPassword, .setPersistentCookie(seconds: seconds)])
    }
}
