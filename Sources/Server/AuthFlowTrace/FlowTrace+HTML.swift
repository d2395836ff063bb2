import AuthFlow
import AuthFlowEssentials

extension FlowTrace {
    /// The maximum number of parameters displayed per message.
    private static let maximumParameters = 12

    /// Returns the trace as a self-contained HTML page: a sequence diagram for a desktop screen, a phone or paper.
    /// - Parameter title: The title of the page.
    public func html(title: String = "A login") -> String {
        let records = records
        let start = records.first?.time ?? Date(timeIntervalSince1970: 0)
        let rows = records.map { row($0, start: start) }.joined(separator: "\n")
        let length = records.last.map { Self.milliseconds($0.time.timeIntervalSince(start)) } ?? "0 ms"
        let heads = Party.allCases.map { "<div class=\"head\">\($0)</div>" }.joined()
        return """
            <!doctype html>
            <html lang="en">
            <meta charset="utf-8">
            <meta name="viewport" content="width=device-width, initial-scale=1">
            <meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
            <meta name="color-scheme" content="light dark">
            <title>\(Self.escaped(title))</title>
            <style>
            \(Self.style)
            </style>
            <main>
            <h1>\(Self.escaped(title))</h1>
            <p>\(start.formatted(.iso8601)), \(length). Values that could be secret are replaced by their lengths.</p>
            <div class="heads">\(heads)</div>
            <ol>
            \(rows)
            </ol>
            </main>
            </html>

            """
    }

    private func row(_ record: Record, start: Date) -> String {
        let time = "<time>\(Self.milliseconds(record.time.timeIntervalSince(start)))</time>"
        switch record.entry {
        case .message(let from, let to, let message):
            return Self.arrow(from, to, time, Self.escaped(message.title), message.parameters)
        case .words(let from, let to, let words):
            return Self.arrow(from, to, time, Self.escaped(words), [])
        case .step(let name, let isGood):
            return "<li class=\"\(isGood ? "good" : "bad")\">\(time) \(isGood ? "✓" : "✗") \(Self.escaped(name))</li>"
        case .check(let check, let clause):
            return "<li class=\"check\">✓ \(Self.escaped(check)) <cite>\(Self.escaped(clause))</cite></li>"
        }
    }

    /// An arrow across the lanes, from the middle of one lane to the middle of another.
    private static func arrow(
        _ from: Party,
        _ to: Party,
        _ time: String,
        _ title: String,
        _ parameters: [RedactedMessage.Parameter]
    ) -> String {
        let (left, right) = (min(from.rawValue, to.rawValue), max(from.rawValue, to.rawValue))
        let direction = from.rawValue < to.rawValue ? "right" : "left"
        let shown = parameters.prefix(maximumParameters).map {
            "<dt>\(escaped($0.name))</dt><dd>\(escaped($0.value))</dd>"
        }
        let more = parameters.count - shown.count
        let list = shown.isEmpty ? "" : "<dl>\(shown.joined())</dl>"
        let rest = more > 0 ? "<p class=\"more\">and \(more) more</p>" : ""
        return """
            <li class="message"><div class="line \(direction) from\(left) to\(right)"></div>\
            <div class="what">\(time) <b>\(from) → \(to)</b> \(title)\(list)\(rest)</div></li>
            """
    }

    private static func milliseconds(_ interval: TimeInterval) -> String {
        interval < 10 ? "\(Int((interval * 1000).rounded())) ms" : "\(Int(interval.rounded())) s"
    }

    private static func escaped(_ text: String) -> String {
        DisplayText.escapedForHTML(DisplayText.sanitized(text, limit: 500))
    }

    /// The style sheet, for four lanes of equal width: a line from the middle of lane n to the middle of lane m starts
    /// at (2n + 1) eighths of the width.
    private static var style: String {
        let lines = (0..<4).flatMap { left in
            (left + 1..<4).map { right in
                ".from\(left).to\(right) { margin-left: \(Double(2 * left + 1) * 12.5)%; width: \(Double(right - left) * 25)%; }"
            }
        }
        return """
            :root { color-scheme: light dark; font: 1rem/1.45 system-ui, sans-serif; --line: light-dark(#c9ced6, #454b55);
              --good: light-dark(#0a6b2d, #6fd08c); --bad: light-dark(#b3261e, #ff9a90); --quiet: light-dark(#59616e, #a3abb8); }
            body { margin: 0; background: Canvas; color: CanvasText; }
            main { max-width: 56rem; margin: 0 auto; padding: 1.5rem 1rem 3rem; }
            h1 { font-size: 1.5rem; margin: 0 0 0.25rem; }
            p { color: var(--quiet); margin: 0 0 1rem; }
            ol { list-style: none; margin: 0; padding: 0.5rem 0;
              background: repeating-linear-gradient(to right, transparent 0 calc(12.5% - 0.5px),
                var(--line) calc(12.5% - 0.5px) calc(12.5% + 0.5px), transparent calc(12.5% + 0.5px) 25%); }
            .heads { display: grid; grid-template-columns: repeat(4, 1fr); position: sticky; top: 0; background: Canvas;
              border-bottom: 1px solid var(--line); text-align: center; font-weight: 600; padding: 0.4rem 0; }
            li { break-inside: avoid; margin: 0.3rem 0; }
            .message { margin-top: 0.5rem; padding-top: 0.4rem; }
            .line { position: relative; box-sizing: border-box; border-top: 2px solid CanvasText; height: 0; }
            .line::after { content: ""; position: absolute; top: -6px; border: 5px solid transparent; }
            .right::after { right: -2px; border-left-color: CanvasText; border-right-width: 0; }
            .left::after { left: -2px; border-right-color: CanvasText; border-left-width: 0; }
            \(lines.joined(separator: "\n"))
            .what, .good, .bad, .check { width: fit-content; max-width: 100%; box-sizing: border-box; margin: 0.25rem auto 0;
              padding: 0.15rem 0.5rem; background: Canvas; overflow-wrap: anywhere; }
            .good { color: var(--good); } .bad { color: var(--bad); font-weight: 600; }
            .check { font-size: 0.85rem; margin-top: 0; }
            cite { font-style: normal; color: var(--quiet); }
            time { color: var(--quiet); font-variant-numeric: tabular-nums; font-size: 0.85rem; }
            dl { display: grid; grid-template-columns: minmax(6rem, max-content) 1fr; gap: 0 0.75rem; margin: 0.2rem 0 0;
              font: 0.8rem/1.5 ui-monospace, monospace; }
            dt { color: var(--quiet); } dd { margin: 0; }
            .more { margin: 0; font-size: 0.8rem; }
            @media (max-width: 36rem) { dl { grid-template-columns: 1fr; } dd { padding-left: 1rem; } }
            @media print { .heads { position: static; } main { max-width: none; padding: 0; } :root { font-size: 0.8rem; } }
            """
    }
}
