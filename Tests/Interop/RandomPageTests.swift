import Foundation
import Testing

@testable import AuthFlowHeadless

/// The file that contains pages and the forms that a browser finds in them; nil if there is no file.
private let pages = ProcessInfo.processInfo.environment["AUTHFLOW_PAGES"]

/// Random pages, and their forms according to html5lib, which parses as browsers do (`html_pages.py`).
@Suite(.enabled(if: pages != nil, "Run through make interop.")) struct RandomPageTests {
    private struct Sample: Decodable {
        struct Form: Decodable, Equatable {
            let action: String
            let method: String
            /// The name, the value and the type of each field.
            let fields: [[String]]
        }

        let page: String
        let base: String?
        let forms: [Form]
        /// The forms if the form element pointer alone determines the form owner of a field; nil if the forms are the same.
        let pointerForms: [Form]?
        /// Whether browsers deviate from the HTML Standard on this page.
        let disputed: Bool?
        /// The kind of page: `strict` if all forms must be found; otherwise, the reader may find fewer forms than a browser.
        let kind: String
    }

    @Test func findsOnlyFormsThatABrowserAlsoFinds() throws {
        let data = try Data(contentsOf: URL(fileURLWithPath: pages ?? ""))
        let decoder = JSONDecoder()
        decoder.keyDecodingStrategy = .convertFromSnakeCase
        let samples = try decoder.decode([Sample].self, from: data)
        #expect(samples.count > 100)
        var (differences, found, all) = (0, 0, 0)
        for sample in samples where sample.disputed != true {
            let page = HTMLReader.page(Array(sample.page.utf8))
            let forms = page.forms.map { form in
                let fields = form.fields.map { [$0.name, $0.value, $0.type] }
                return Sample.Form(action: form.action, method: form.method, fields: fields)
            }
            found += forms.reduce(0) { $0 + $1.fields.count }
            all += sample.forms.reduce(0) { $0 + $1.fields.count }
            let isSafe = forms.allSatisfy { form in
                (sample.forms + (sample.pointerForms ?? [])).contains {
                    $0.action == form.action && $0.method == form.method && form.fields.allSatisfy($0.fields.contains)
                }
            }
            let isComplete = page.base == sample.base && forms.map(\.action) == sample.forms.map(\.action)
            guard !isSafe || sample.kind == "strict" && !isComplete else { continue }
            differences += 1
            guard differences <= 10 else { continue }
            Issue.record("\(sample.kind) \(sample.page.debugDescription)\nread: \(forms)\nbrowser: \(sample.forms)")
        }
        // The reader finds fewer fields than a browser only in malformed pages, and all of these pages are malformed.
        #expect(Double(found) > 0.5 * Double(all), "\(found) of \(all)")
        print("\(found) of \(all) fields read")
        #expect(differences == 0)
    }
}
