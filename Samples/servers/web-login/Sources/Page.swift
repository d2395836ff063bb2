import AuthFlow
import AuthFlowServer
import Foundation
import HTTPTypes
import Hummingbird

/// The one page of the application: who is signed in, in which browsers, and a button for each thing.
struct Page: ResponseGenerator {
    let session: Session?
    let sessions: [SessionSummary]
    let token: String

    func response(from request: Request, context: some RequestContext) throws -> Response {
        Response(
            status: .ok,
            headers: [
                .contentType: "text/html; charset=utf-8", .cacheControl: "no-store",
                .contentSecurityPolicy:
                    "default-src 'none'; style-src 'unsafe-inline'; form-action *; frame-ancestors 'none'",
            ],
            body: ResponseBody(byteBuffer: ByteBuffer(string: html))
        )
    }

    private var html: String {
        """
        <!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>web-login</title><style>
        body { font: 16px system-ui, sans-serif; max-width: 44em; margin: 3em auto; color: #222 }
        table { border-collapse: collapse; width: 100% } td, th { text-align: left; padding: .4em; border-bottom: 1px solid #ddd }
        button, a.button { font: inherit; padding: .4em 1em; border: 1px solid #888; border-radius: .3em; background: #f4f4f4; \
        text-decoration: none; color: inherit } form { display: inline }
        </style></head><body><h1>web-login</h1>\(session.map(signedIn) ?? Self.signedOut)</body></html>
        """
    }

    private static let signedOut = """
        <p>No user is signed in.</p><p><a class="button" href="/login?return_to=/">Sign in</a></p>
        """

    private func signedIn(_ session: Session) -> String {
        let rows = sessions.map { summary in
            let name = summary.isCurrent ? "this browser" : "another browser"
            let end = button("End", to: "/sessions/end?name=\(summary.name)")
            return """
                <tr><td>\(name)</td><td>\(Self.time(summary.signedInAt))</td><td>\(Self.time(summary.lastUse))</td>\
                <td>\(summary.isCurrent ? "" : end)</td></tr>
                """
        }.joined()
        return """
            <p>Signed in as <strong>\(DisplayText.escapedForHTML(session.identity?.displayName ?? "an unknown user"))</strong>.</p>
            <p>\(DisplayText.escapedForHTML(token))</p>
            <h2>Sessions</h2><table><tr><th></th><th>signed in</th><th>last used</th><th></th></tr>\(rows)</table>
            <p>\(button("Sign out", to: "/logout")) \(button("Sign out everywhere", to: "/logout?everywhere=1")) \
            <a class="button" href="/login?return_to=/">Sign in again</a></p>
            """
    }

    private func button(_ text: String, to path: String) -> String {
        "<form method=\"post\" action=\"\(DisplayText.escapedForHTML(path))\"><button>\(text)</button></form>"
    }

    private static func time(_ date: Date) -> String { date.formatted(.iso8601) }
}
