#if canImport(WebKit)
public import AuthFlow
import AuthFlowJSON
public import WebKit

/// Lets a page in an embedded web view pass its questions to the app, which answers them.
///
/// RFC 8252 section 8.12: "native apps MUST NOT use embedded user-agents to perform authorization requests": the app
/// can read the user's input, and the user cannot verify which site is shown. This bridge is only for first-party apps,
/// where the page and the app belong to the same party. AuthFlow never uses it by default.
///
/// Type-checked on Linux against hand-written interfaces, and not run there.
@MainActor public final class EmbeddedPageBridgeAtRisk: NSObject, WKScriptMessageHandler {
    /// The name of the message handler: the page calls `webkit.messageHandlers.callback.postMessage(text)`.
    public static let name = "callback"

    private let questions: PageQuestions
    private let origin: Endpoint
    private weak var webView: WKWebView?

    /// Creates a bridge.
    /// - Parameters:
    ///   - questions: Answers the questions of the page.
    ///   - origin: The only origin whose questions are answered.
    ///   - webView: The web view that shows the page. Add the bridge to its `userContentController` under ``name``.
    public init(questions: PageQuestions, origin: Endpoint, webView: WKWebView) {
        self.questions = questions
        self.origin = origin
        self.webView = webView
    }

    // swift-format-ignore: AllPublicDeclarationsHaveDocumentation
    public func userContentController(_ controller: WKUserContentController, didReceive message: WKScriptMessage) {
        let site = message.frameInfo.securityOrigin
        let port = site.port == 0 ? nil : site.port
        // A frame from another site, or another page, receives no answer.
        guard message.frameInfo.isMainFrame, site.`protocol` == origin.scheme, site.host == origin.host,
            port == origin.port,
            let text = message.body as? String
        else { return }
        Task { [questions, weak webView] in
            guard let answer = try? await questions.answer(text),
                let literal = try? JSON.array([.string(answer)]).serialized()
            else { return }
            // A JSON array of one string is a valid JavaScript literal, whatever the string contains.
            let script = "window.authFlowAnswer(...\(String(decoding: literal, as: UTF8.self)))"
            _ = try? await webView?.evaluateJavaScript(script)
        }
    }
}
#endif
