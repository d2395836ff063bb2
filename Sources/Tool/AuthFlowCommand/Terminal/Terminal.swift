import AuthFlow
import AuthFlowEssentials
import AuthFlowSystem
import Synchronization

/// The two output streams: results on standard output, messages on standard error.
///
/// Text from a provider cannot control the terminal: control and format characters are replaced or escaped.
enum Terminal {
    /// Whether a result could not be written, for example because the disk is full.
    static var hasFailed: Bool { failure.load(ordering: .relaxed) }

    private static let failure = Atomic(false)

    /// Whether the reader of the results has closed the pipe, as `head` does. This requires no error message.
    static var isBrokenPipe: Bool { brokenPipe.load(ordering: .relaxed) }

    private static let brokenPipe = Atomic(false)

    /// Records that a result could not be written.
    /// - Parameter number: The error number.
    static func note(failure number: Int32) {
        failure.store(true, ordering: .relaxed)
        if number == EPIPE { brokenPipe.store(true, ordering: .relaxed) }
    }

    /// Whether a text or JSON result was printed, in whole or in part; bytes for other programs do not count.
    static var hasResult: Bool { wroteResult.load(ordering: .relaxed) }

    private static let wroteResult = Atomic(false)

    private static func write(_ text: String) {
        wroteResult.store(true, ordering: .relaxed)
        if !SystemCall.write(Array(text.utf8), to: STDOUT_FILENO) { note(failure: errno) }
    }

    /// Prints a result.
    static func result(_ text: String) { write("\(visible(text))\n") }

    /// Prints bytes unchanged for other programs; on a terminal, characters that could control it are replaced.
    static func result(bytes: [UInt8]) {
        guard isatty(STDOUT_FILENO) == 0 else { return result(String(decoding: bytes, as: UTF8.self)) }
        if !SystemCall.write(bytes, to: STDOUT_FILENO) { note(failure: errno) }
    }

    /// Prints a result as JSON, with control and format characters escaped (RFC 8259 section 7).
    static func result(_ json: JSON) throws {
        let text = String(decoding: try json.serialized(indented: true), as: UTF8.self)
        write("\(escaped(text))\n")
    }

    /// Prints a message for the user.
    static func printMessage(_ text: String) {
        _ = SystemCall.write(Array("\(visible(text))\n".utf8), to: STDERR_FILENO)
    }

    /// Pads text with spaces to `width`, so that columns line up.
    static func column(_ text: String, width: Int) -> String {
        text + String(repeating: " ", count: max(0, width - text.count))
    }

    /// Prints a row of a result: a name and its value.
    static func row(_ name: String, _ value: String) { result("  \(column(name, width: 14))\(value)") }

    static func visible(_ text: String) -> String {
        var result = String.UnicodeScalarView()
        for scalar in text.unicodeScalars {
            result.append(scalar != "\n" && DisplayText.isInvisible(scalar) ? " " : scalar)
        }
        return String(result)
    }

    private static func escaped(_ json: String) -> String {
        var result = ""
        for scalar in json.unicodeScalars {
            guard scalar != "\n", DisplayText.isInvisible(scalar) else {
                result.unicodeScalars.append(scalar)
                continue
            }
            for unit in UTF16.encode(scalar).map({ Array($0) }) ?? [] {
                let digits = String(unit, radix: 16)
                result += "\\u" + String(repeating: "0", count: 4 - digits.count) + digits
            }
        }
        return result
    }
}

/// Prints the progress of a flow.
struct Progress: Sendable {
    /// Whether every event is printed in full, for troubleshooting.
    let isVerbose: Bool
    var launchEnvironment = LaunchEnvironment.current()
    /// Whether steps and choices are printed; false with `--quiet`, and for an MCP bridge, because hosts display its messages as warnings.
    var showsSteps = true

    /// Prints the chosen user agent or a skipped flow, with the reason.
    private func printChoice(_ event: FlowEvent) {
        guard event.step == .userAgentChoice else {
            let (what, why) = (event.details["passed_over"] ?? "", event.details["reason"] ?? "")
            return Terminal.printMessage("Not using \(what): \(DisplayText.sanitized(why))")
        }
        let because = event.details["because"].map { ", because \(DisplayText.sanitized($0))" } ?? ""
        Terminal.printMessage("User agent: \(event.details["name"] ?? "")\(because)")
        if let others = event.details["passed_over"] { Terminal.printMessage("  not \(DisplayText.sanitized(others))") }
    }

    func callAsFunction(_ event: FlowEvent) {
        if isVerbose { Terminal.printMessage("\(event)") }
        switch (event.step, event.progress) {
        case (.userAgentChoice, .note), (.flowChoice, .note):
            guard showsSteps else { break }
            printChoice(event)
        case (.authorizationRequest, .note):
            guard showsSteps, let issuer = event.details["issuer"], let resource = event.details["resource"] else {
                break
            }
            let scopes = event.details["scopes"] ?? ""
            Terminal.printMessage(
                "Signing in at \(DisplayText.sanitized(issuer)) for \(DisplayText.sanitized(resource))"
                    + (scopes.isEmpty ? "." : ", scopes: \(DisplayText.sanitized(scopes)).")
            )
        case (.userAgentVisit, .note):
            if let url = event.url {
                let isSignOut = event.details["purpose"] == "signOut"
                let what = isSignOut ? "Sign out" : "Sign in"
                let opens = event.details["opens"] == "yes" ? " It opens automatically if a browser is available:" : ""
                // On a separate line, so that the complete URL can be copied, however long it is.
                Terminal.printMessage("\(what) at this URL.\(opens)\n\n\(url)\n")
                if let port = event.details["port"].flatMap({ Int($0) }),
                    let command = launchEnvironment.forwardingCommand(
                        port: port,
                        host: event.details["host"] ?? "127.0.0.1"
                    )
                {
                    Terminal.printMessage(
                        "To use a browser on your own machine, first run this command there:  \(command)"
                    )
                }
                // The command shows the redirect URIs of sign-ins only.
                let doctor = isSignOut ? nil : SignInAdvice.doctor
                let advice = doctor.map { " If the page shows an error, see what to register: \($0)" }
                Terminal.printMessage("Waiting for you to finish (Ctrl-C to stop).\(advice ?? "")")
            } else if event.details["ignored"] != nil, let user = event.details["user"] {
                Terminal.printMessage(
                    "A request from a program of another user (user ID \(user)) was rejected. If the request came from your browser, this command is not running as the same user as the browser, for example because of sudo: press Ctrl-C, and run the command as the browser's user."
                )
            } else if event.details["ignored"] != nil {
                Terminal.printMessage(
                    "A redirect without the expected state was ignored. If the page in the browser shows an error, press Ctrl-C to stop."
                )
            } else if showsSteps, let browser = event.details["browser"] {
                Terminal.printMessage("Browser: \(DisplayText.sanitized(browser))")
            }
        case (.storing, .failed):
            if let warning = StorageWarning.text(for: event) { Terminal.printMessage(warning) }
        case (.sessionEnd, _), (.refresh, .began):
            StorageWarning.clear()
        case (.sharing, .failed):
            Terminal.printMessage("Warning: the sign-in could not be shared with the other apps in the group.")
        case (let step, .succeeded) where showsSteps:
            Terminal.printMessage("  ok  \(step)")
        default:
            break
        }
    }
}
