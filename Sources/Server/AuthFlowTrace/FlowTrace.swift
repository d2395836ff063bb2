public import AuthFlow
import AuthFlowEssentials
import Synchronization

/// Records a sign-in as it happens: the messages between the parties, their times, and the checks that passed.
///
/// ```swift
/// let trace = FlowTrace()
/// let client = try AuthClient(
///     profile: profile,
///     providers: [.oidc],
///     userAgents: [.loopback],
///     transport: trace.transport(SystemTransport()),
///     observer: trace.observer
/// )
/// _ = try await client.signIn()
/// try Data(trace.html().utf8).write(to: file)
/// ```
///
/// No secrets are recorded: the value of a parameter is recorded only if the parameter is never secret; otherwise, only
/// the length of the value is recorded.
public final class FlowTrace: Sendable {
    /// A party to a sign-in.
    enum Party: Int, Sendable, CaseIterable {
        /// The user.
        case user
        /// The program that signs the user in.
        case app
        /// The user agent that displays the provider's pages.
        case browser
        /// The provider.
        case provider
    }

    /// An entry of the trace.
    enum Entry: Sendable {
        /// A message.
        case message(from: Party, to: Party, RedactedMessage)
        /// A description of an interaction between two parties.
        case words(from: Party, to: Party, String)
        /// A completed or failed step of the app.
        case step(String, isGood: Bool)
        /// A check that passed.
        case check(String, clause: String)
    }

    struct Record: Sendable {
        let time: Date
        let entry: Entry
    }

    private let now: @Sendable () -> Date
    private let written = Mutex<[Record]>([])
    private let visit = Mutex<RedactedMessage?>(nil)

    /// Creates an empty trace.
    /// - Parameter host: Provides the time.
    public init(host: HostServices = .system) {
        self.now = host.now
    }

    var records: [Record] { written.withLock { $0 } }

    func write(_ entry: Entry) {
        let record = Record(time: now(), entry: entry)
        written.withLock { $0.append(record) }
    }

    /// The observer to pass to the client, or to call from the client's observer.
    public var observer: @Sendable (FlowEvent) -> Void { { [self] in observe($0) } }

    /// Returns a transport that records the messages of another transport.
    public func transport(_ base: any HTTPTransport) -> any HTTPTransport {
        TracingTransport(base: base, trace: self)
    }

    private func observe(_ event: FlowEvent) {
        switch (event.step, event.progress) {
        case (let step, .note) where event.details["check"] != nil:
            write(.check("\(step): \(event.details["check"] ?? "")", clause: event.details["clause"] ?? ""))
        case (.userAgentChoice, .note):
            let because = event.details["because"].map { ", because \($0)" } ?? ""
            write(.words(from: .app, to: .browser, "user agent: \(event.details["name"] ?? "")\(because)"))
        case (.userAgentVisit, .note):
            observeVisit(event)
        case (.authorizationResponse, .note):
            write(.words(from: .browser, to: .app, "redirect with \(event.details["parameters"] ?? "nothing")"))
        case (.flowChoice, .note):
            write(.step("\(event.details["passed_over"] ?? ""): \(event.details["reason"] ?? "")", isGood: false))
        case (let step, .succeeded): end(step, step.rawValue, isGood: true)
        case (let step, .failed(let code)): end(step, "\(step): \(code?.rawValue ?? "unknown error")", isGood: false)
        case (let step, .cancelled): end(step, "\(step): cancelled", isGood: false)
        default: break
        }
    }

    private func end(_ step: FlowEvent.Step, _ text: String, isGood: Bool) {
        if step == .userAgentVisit { writeVisit() }
        write(.step(text, isGood: isGood))
    }

    private func observeVisit(_ event: FlowEvent) {
        if let url = event.url {
            write(.words(from: .app, to: .user, "displays the sign-in URL"))
            visit.withLock { $0 = RedactedMessage(visit: url) }
        } else if let browser = event.details["browser"] {
            write(.words(from: .app, to: .browser, "opens \(browser)"))
            writeVisit()
        }
    }

    /// The app cannot observe the user's interaction with the provider, which takes place after the browser is opened
    /// and before the redirect.
    private func writeVisit() {
        guard let message = visit.withLock({ $0.take() }) else { return }
        write(.message(from: .browser, to: .provider, message))
        write(.words(from: .user, to: .provider, "signs in on the provider's pages"))
    }
}

/// Records the messages of another transport.
private struct TracingTransport: HTTPTransport {
    let base: any HTTPTransport
    let trace: FlowTrace

    func send(_ call: TransportRequest) async throws -> TransportResponse {
        trace.write(.message(from: .app, to: .provider, RedactedMessage(call)))
        do {
            let response = try await base.send(call)
            trace.write(.message(from: .provider, to: .app, RedactedMessage(response)))
            return response
        } catch {
            trace.write(.words(from: .provider, to: .app, (error as? AuthError)?.code.rawValue ?? "no response"))
            throw error
        }
    }
}
