#if Observability
import AuthFlow
import Synchronization

/// The steps that have begun and not ended, with what is kept of each: the outermost first in every flow.
final class OpenSteps<Value: Sendable>: Sendable {
    /// A bound for steps whose end never comes, such as one that another module's adapter forgets to report.
    private static var limit: Int { 10_000 }

    private let flows = Mutex<[String: [(step: FlowEvent.Step, value: Value)]]>([:])

    /// Keeps what a step began with. It is made from what the innermost open step of the flow has.
    func begin(_ event: FlowEvent, _ make: (_ outer: Value?) -> Value) {
        flows.withLock { flows in
            guard flows[event.flowID] != nil || flows.count < Self.limit else { return }
            let value = make(flows[event.flowID]?.last?.value)
            flows[event.flowID, default: []].append((event.step, value))
        }
    }

    /// Takes out what a step began with.
    func end(_ event: FlowEvent) -> Value? {
        flows.withLock { flows in
            guard let index = flows[event.flowID]?.lastIndex(where: { $0.step == event.step }) else { return nil }
            let value = flows[event.flowID]?.remove(at: index).value
            if flows[event.flowID]?.isEmpty == true { flows[event.flowID] = nil }
            return value
        }
    }

    /// What the innermost open step of a flow has.
    func innermost(of flowID: String) -> Value? { flows.withLock { $0[flowID]?.last?.value } }
}

extension FlowEvent {
    /// How a step has ended, for a label; nil when it has not.
    var outcome: (name: String, code: String)? {
        switch progress {
        case .succeeded: ("succeeded", "none")
        case .failed(let code): ("failed", code?.rawValue ?? "unknown")
        case .cancelled: ("cancelled", "none")
        case .began, .note: nil
        }
    }
}
#endif
