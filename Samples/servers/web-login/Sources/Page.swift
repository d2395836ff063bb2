import AuthFlow
import AuthFlowServer
import Foundation
import HTTPTypes
import Hummingbird

/// The only page of the application: the signed-in user, the user's sessions by browser, and a button for each action.
struct Page: ResponseGenerator {
    let session: Session?
    let sessions: [SessionSummary]
    let token: String
    let notes: [String]
    var payments: String?

    func response(from request: Request, context: some RequestContext) throws -> Response {
        Response(
            status: .ok,
            headers: [
                .contentType: "text/html; charset=utf-8", .cacheControl: "no-store",
                .contentSecurityPolicy:
                    "default-src 'none'; style-src 'unsafe-inline'; connect-src 'self'; base-uri 'none'; form-action *; frame-ancestors 'none'",
            ],
            body: ResponseBody(byteBuffer: ByteBuffer(string: html))
        )
    }

    private var html: String { Self.html(session.map(signedIn) ?? Self.signedOut) }

    static func html(_ body: String) -> String {
        """
        <!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>web-login</title>
        <meta name="viewport" content="width=device-width, initial-scale=1"><meta name="color-scheme" content="light dark"><style>
        :root { color-scheme: light dark; font: 1.0625rem/1.5 system-ui, sans-serif }
        body { max-width: 44rem; margin: 2rem auto; padding: 0 1rem; background: Canvas; color: CanvasText }
        div { overflow-x: auto } table { border-collapse: collapse; width: 100% }
        td, th { text-align: left; padding: .4rem; border-bottom: 1px solid GrayText; white-space: nowrap }
        button, input, a.button { font: inherit; padding: .4rem 1rem; margin: .15rem 0; border: 1px solid GrayText; border-radius: .3rem; \
        display: inline-block; text-decoration: none; background: ButtonFace; color: ButtonText } form { display: inline }
        </style></head><body><h1>web-login</h1>\(body)</body></html>
        """
    }

    private static let signedOut = """
        <p>No user is signed in.</p><p><a class="button" href="/login?return_to=/">Sign in</a></p>
        """

    /// The page that requires a recent sign-in with a second factor.
    static func payments(_ session: Session) -> Page {
        var page = Page(session: session, sessions: [], token: "", notes: [])
        page.payments = "Payments, signed in with \(session.authentication?.contextClass ?? "nothing in particular")."
        return page
    }

    private func signedIn(_ session: Session) -> String {
        if let payments {
            return "<p>\(DisplayText.escapedForHTML(payments))</p><p><a class=\"button\" href=\"/\">Back</a></p>"
        }
        let rows = sessions.map { summary in
            let name = summary.isCurrent ? "this browser" : "another browser"
            let end = button("End", to: "/sessions/end?name=\(summary.name)")
            return """
                <tr><td>\(name)</td><td>\(Self.time(summary.signedInAt))</td><td>\(Self.time(summary.lastUse))</td>\
                <td>\(summary.isCurrent ? "" : end)</td></tr>
                """
        }.joined()
        let items = notes.map { "<li>\(DisplayText.escapedForHTML($0))</li>" }.joined()
        let user = DisplayText.escapedForHTML(session.identity?.displayName ?? "an unknown user")
        let provider = session.provider.isEmpty ? "" : " at \(DisplayText.escapedForHTML(session.provider))"
        return """
            <p>Signed in as <strong>\(user)</strong>\(provider).</p>
            <p>\(DisplayText.escapedForHTML(token))</p>
            <h2>Notes</h2><ul>\(items)</ul>
            <form method="post" action="/notes"><input name="note" aria-label="Note" maxlength="200"> <button>Add</button></form>
            <h2>Sessions</h2><div><table><tr><th></th><th>signed in</th><th>last used</th><th></th></tr>\(rows)</table></div>
            <p>\(button("Sign out", to: "/logout")) \(button("Sign out everywhere", to: "/logout?everywhere=1")) \
            <a class="button" href="/login?return_to=/">Sign in again</a> <a class="button" href="/payments">Payments</a></p>
            """
    }

    private func button(_ text: String, to path: String) -> String {
        "<form method=\"post\" action=\"\(DisplayText.escapedForHTML(path))\"><button>\(text)</button></form>"
    }

    private static func time(_ date: Date) -> String { date.formatted(.iso8601) }
}
