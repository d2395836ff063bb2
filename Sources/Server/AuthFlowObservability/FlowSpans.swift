#if Observability
public import AuthFlow
public import Tracing

extension FlowEvent {
    /// An observer that uses swift-distributed-tracing to create a span for every step whose start is reported (not `forwarding`).
    ///
    /// The span of a step is a child of the enclosing step's span; the outermost span is a child of the current
    /// task's span, such as the span of a request to a web server. Events within a step become events of its span,
    /// without URLs or secrets. Trace context is not propagated to the provider, because trace IDs must not leak to
    /// third parties.
    ///
    /// ```swift
    /// let server = try SessionServer(client: client, store: store, options: options, observer: FlowEvent.spans())
    /// ```
    /// - Parameter tracer: Creates the spans; default: the tracer with which `InstrumentationSystem` was bootstrapped.
    public static func spans(tracer: (any Tracer)? = nil) -> @Sendable (FlowEvent) -> Void {
        let steps = OpenSteps<any Span>()
        return { event in
            if event.progress == .began {
                let tracer = tracer ?? InstrumentationSystem.tracer
                steps.begin(event) { outer in
                    let context = outer?.context ?? ServiceContext.current ?? .topLevel
                    let span = tracer.startAnySpan("authflow \(event.step.rawValue)", context: context, ofKind: .client)
                    for (name, value) in event.attributes { span.attributes["authflow.\(name)"] = value }
                    return span
                }
            } else if let outcome = event.outcome, let span = steps.end(event) {
                for (name, value) in event.attributes { span.attributes["authflow.\(name)"] = value }
                if outcome.name == "failed" { span.setStatus(SpanStatus(code: .error, message: outcome.code)) }
                if outcome.name == "cancelled" { span.attributes["authflow.cancelled"] = true }
                span.end()
            } else if let span = steps.innermost(of: event.flowID) {
                var attributes = SpanAttributes()
                for (name, value) in event.attributes { attributes["authflow.\(name)"] = value }
                span.addEvent(SpanEvent(name: event.step.rawValue, attributes: attributes))
            }
        }
    }
}

extension FlowEvent {
    /// The details that reveal nothing about the user and contain no text or URL from the provider.
    fileprivate var attributes: [String: String] {
        details.filter { ["check", "clause", "lease", "purpose", "name", "because", "passed_over"].contains($0.key) }
    }
}
#endif
