#if canImport(WebKit)
public import AuthFlow
public import WebKit

/// Lets a page in an embedded web view pass the callbacks of a tree to the app, which answers them.
///
/// RFC 8252 section 8.12: "native apps MUST NOT use embedded user-agents to perform authorization requests"; the app
/// can read the user's input, and the user cannot verify which site is shown. This bridge is only for first-party apps,
/// where the page and the app belong to the same party. AuthFlow does not use it by default.
///
/// This code is type-checked on Linux against hand-written interfaces, but not run there.
@MainActor public final class EmbeddedPageBridgeAtRisk: NSObject, WKScriptMessageHandlerWithReply {
    /// The name of the message handler. The page calls `await webkit.messageHandlers.callback.postMessage(text)`, which
    /// returns the answer.
    public static let name = "callback"

    private let responder: PageCallbackResponder
    private let origin: Endpoint

    /// Creates a bridge.
    /// - Parameters:
    ///   - responder: Answers the callbacks that the page passes.
    ///   - origin: The only origin whose messages are answered.
    public init(responder: PageCallbackResponder, origin: Endpoint) {
        self.responder = responder
        self.origin = origin
    }

    /// Answers a message. Add the bridge to the web view's `userContentController` with
    /// `addScriptMessageHandler(_:contentWorld:name:)`, under ``name``.
    public func userContentController(
        _ controller: WKUserContentController,
        didReceive message: WKScriptMessage
    ) async -> (Any?, String?) {
        let site = message.frameInfo.securityOrigin
        // WebKit reports the default port of a scheme as 0.
        let place = "\(site.`protocol`)://\(site.host)\(site.port == 0 ? "" : ":\(site.port)")"
        // A frame from another site, or another page, receives no answer.
        guard message.frameInfo.isMainFrame, place == origin.origin,
            let text = message.body as? String,
            let answer = try? await responder.answer(text)
        else { return (nil, "No answer.") }
        // The reply resolves a promise in the requesting page. A page that is loaded in the meantime does not receive the reply.
        return (answer, nil)
    }
}
#endif
