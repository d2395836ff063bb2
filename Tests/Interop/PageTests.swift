import AuthFlowJSON
import Foundation
import Testing

@testable import AuthFlowHeadless

/// The file with pages and what a browser reads in them; nil without one.
private let pages = ProcessInfo.processInfo.environment["AUTHFLOW_PAGES"]

/// Random pages, and their forms according to html5lib, which parses as browsers do (`html_pages.py`).
@Suite(.enabled(if: pages != nil, "Run through make interop.")) struct PageTests {
    @Test func noFormIsReadThatABrowserDoesNotShow() throws {
        let all = try #require(try JSON(parsing: Array(try Data(contentsOf: URL(fileURLWithPath: pages ?? "")))).array)
        var differences = 0
        for sample in all {
            let text = try #require(sample["page"]?.string)
            let page = HTMLReader.page(Array(text.utf8))
            let expected = sample["forms"]?.array ?? []
            let isSame: Bool
            if sample["kind"] == "strict" {
                isSame = page.base == sample["base"]?.string && page.forms.map(Self.json) == expected
            } else {
                isSame = page.forms.allSatisfy { form in expected.contains { Self.json(form).isPart(of: $0) } }
            }
            guard !isSame else { continue }
            differences += 1
            guard differences <= 10 else { break }
            Issue.record("\(text.debugDescription)\nread \(JSON.array(page.forms.map(Self.json)))\nbrowser \(expected)")
        }
    }

    private static func json(_ form: HTMLForm) -> JSON {
        [
            "action": .string(form.action), "method": .string(form.method),
            "fields": .array(form.fields.map { .array([.string($0.name), .string($0.value), .string($0.type)]) }),
        ]
    }
}

extension JSON {
    /// Whether a form is a browser's form with fewer fields.
    fileprivate func isPart(of other: JSON) -> Bool {
        let (own, all) = (self["fields"]?.array ?? [], other["fields"]?.array ?? [])
        return self["action"] == other["action"] && self["method"] == other["method"] && own.allSatisfy(all.contains)
    }
}
