#if Observability
import AuthFlow
import Synchronization

/// The steps that have begun but not ended, each with a stored value. In every flow, the outermost step comes first.
final class OpenSteps<Value: Sendable>: Sendable {
    /// The maximum number of flows, in case some steps never end, for example because an adapter in another module
    /// fails to report their end.
    private static var limit: Int { 10_000 }

    private let flows = Mutex<[String: [(step: FlowEvent.Step, value: Value)]]>([:])

    /// Stores the value of a new step, which is created from the value of the flow's innermost open step.
    func begin(_ event: FlowEvent, _ make: (_ outer: Value?) -> Value) {
        flows.withLock { flows in
            guard flows[event.flowID] != nil || flows.count < Self.limit else { return }
            let value = make(flows[event.flowID]?.last?.value)
            flows[event.flowID, default: []].append((event.step, value))
        }
    }

    /// Removes and returns the value of a step.
    func end(_ event: FlowEvent) -> Value? {
        flows.withLock { flows in
            guard let index = flows[event.flowID]?.lastIndex(where: { $0.step == event.step }) else { return nil }
            let value = flows[event.flowID]?.remove(at: index).value
            if flows[event.flowID]?.isEmpty == true { flows[event.flowID] = nil }
            return value
        }
    }

    /// The value of a flow's innermost open step.
    func innermost(of flowID: String) -> Value? { flows.withLock { $0[flowID]?.last?.value } }
}

extension FlowEvent {
    /// The outcome of a step, for use in labels; nil when the step has not ended.
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
