import AuthFlow
import AuthFlowJSON
import Foundation

/// The two streams: results on standard output, talk on standard error.
enum Terminal {
    /// Prints a result.
    static func result(_ text: String) {
        try? FileHandle.standardOutput.write(contentsOf: Data("\(text)\n".utf8))
    }

    /// Prints a result as JSON.
    static func result(_ json: JSON) throws {
        result(String(decoding: try json.serialized(indented: true), as: UTF8.self))
    }

    /// Says something to the person.
    static func talk(_ text: String) {
        try? FileHandle.standardError.write(contentsOf: Data("\(text)\n".utf8))
    }
}

/// Says what a flow is doing.
struct Progress: Sendable {
    /// Whether every event is shown as it is, for finding out what went wrong.
    let isVerbose: Bool
    var surroundings = Surroundings.current()

    func callAsFunction(_ event: FlowEvent) {
        if isVerbose { Terminal.talk("\(event)") }
        switch (event.step, event.progress) {
        case (.userAgentChoice, .note):
            let because = event.details["because"].map { ", because \(DisplayText.sanitized($0))" } ?? ""
            Terminal.talk("User agent: \(event.details["name"] ?? "")\(because)")
            if let others = event.details["passed_over"] { Terminal.talk("  not \(DisplayText.sanitized(others))") }
        case (.flowChoice, .note):
            let (what, why) = (event.details["passed_over"] ?? "", event.details["reason"] ?? "")
            Terminal.talk("Not by \(what): \(DisplayText.sanitized(why))")
        case (.userAgentVisit, .note):
            if let url = event.url {
                // On a line of its own, so that it can be copied whole however long it is.
                Terminal.talk("Sign in at this address. It opens by itself if there is a browser here:\n\n\(url)\n")
                if let port = event.details["port"].flatMap({ Int($0) }),
                    let command = surroundings.forwardingCommand(port: port)
                {
                    Terminal.talk("For a browser on your own machine, run there first:  \(command)")
                }
                Terminal.talk("Waiting for you to finish. Ctrl-C stops.")
            } else if let browser = event.details["browser"] {
                Terminal.talk("Browser: \(DisplayText.sanitized(browser))")
            }
        case (.storing, .failed):
            Terminal.talk("Warning: the credential could not be stored. It is good, and only this program knows of it.")
        case (let step, .succeeded):
            Terminal.talk("  ok  \(step)")
        default:
            break
        }
    }
}
