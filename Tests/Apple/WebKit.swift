// swift-format-ignore-file
// The part of Apple's WebKit that AuthFlow uses, written from Apple's documentation. Declarations only.

@_exported import Foundation

@MainActor public protocol WKScriptMessageHandlerWithReply: AnyObject {
    func userContentController(
        _ userContentController: WKUserContentController,
        didReceive message: WKScriptMessage
    ) async -> (Any?, String?)
}
@MainActor open class WKUserContentController: NSObject {}
@MainActor open class WKSecurityOrigin: NSObject {
    public var `protocol`: String { "" }
    public var host: String { "" }
    public var port: Int { 0 }
}
@MainActor open class WKFrameInfo: NSObject {
    public var isMainFrame: Bool { true }
    public var securityOrigin: WKSecurityOrigin { WKSecurityOrigin() }
}
@MainActor open class WKScriptMessage: NSObject {
    public var body: Any { "" }
    public var frameInfo: WKFrameInfo { WKFrameInfo() }
}
