// swift-format-ignore-file
// The part of Apple's WebKit that AuthFlow uses, written from Apple's documentation. Declarations only.

@_exported import Foundation

@MainActor public protocol WKScriptMessageHandler: AnyObject {
    func userContentController(_ userContentController: WKUserContentController, didReceive message: WKScriptMessage)
}
@MainActor open class WKUserContentController: NSObject {}
@MainActor open class WKWebView: NSObject {
    public func evaluateJavaScript(_ javaScriptString: String) async throws -> Any? { nil }
}
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
