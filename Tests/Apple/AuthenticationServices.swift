// swift-format-ignore-file
// The part of Apple's AuthenticationServices that AuthFlow uses, from Apple's documentation. The declarations have
// no implementation.

@_exported import Foundation

open class ASPresentationWindow: NSObject {}
public typealias ASPresentationAnchor = ASPresentationWindow

@MainActor public protocol ASWebAuthenticationPresentationContextProviding: NSObjectProtocol {
    func presentationAnchor(for session: ASWebAuthenticationSession) -> ASPresentationAnchor
}

public struct ASWebAuthenticationSessionError: CustomNSError {
    public enum Code: Int { case canceledLogin = 1, presentationContextNotProvided, presentationContextInvalid }
    public let code: Code
}

open class ASWebAuthenticationSession: NSObject {
    open class Callback: NSObject {
        public class func customScheme(_ customScheme: String) -> Self { fatalError() }
        public class func https(host: String, path: String) -> Self { fatalError() }
    }
    public typealias CompletionHandler = (URL?, (any Error)?) -> Void
    public init(url: URL, callback: Callback, completionHandler: @escaping CompletionHandler) {}
    public weak var presentationContextProvider: (any ASWebAuthenticationPresentationContextProviding)?
    public var prefersEphemeralWebBrowserSession = false
    @discardableResult public func start() -> Bool { false }
    public func cancel() {}
}
