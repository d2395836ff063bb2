// swift-format-ignore-file
// The part of Apple's UIKit that AuthFlow uses, written from Apple's documentation. Declarations only.

@_exported import Foundation

@MainActor open class UIApplication: NSObject {
    public class var shared: UIApplication { UIApplication() }
    public func open(_ url: URL) async -> Bool { false }
}
