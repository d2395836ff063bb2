// swift-format-ignore-file
// The part of Apple's AppKit that AuthFlow uses, written from Apple's documentation. Declarations only.

@_exported import Foundation

open class NSWorkspace: NSObject, @unchecked Sendable {  // a stand-in for a class that Apple documents as thread-safe
    public class var shared: NSWorkspace { NSWorkspace() }
    @discardableResult public func open(_ url: URL) -> Bool { false }
}
