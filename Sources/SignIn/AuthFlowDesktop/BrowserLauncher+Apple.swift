import AuthFlow

// This file is type-checked on Linux against hand-written interfaces, but is not run there.

#if canImport(UIKit)
import UIKit

extension BrowserLauncher {
    /// The user's browser, opened by an app. The redirect arrives through `AuthClient.resume(with:)`.
    public static var application: BrowserLauncher {
        BrowserLauncher { url in
            guard let address = URL(string: url) else { throw AuthError(.userAgentFailed, "The URL is not valid.") }
            Task { @MainActor in _ = await UIApplication.shared.open(address) }
            return "the system's browser"
        }
    }
}
#endif

#if canImport(AppKit)
import AppKit

extension BrowserLauncher {
    /// The user's browser, opened by an app. The redirect arrives through `AuthClient.resume(with:)`.
    public static var workspace: BrowserLauncher {
        BrowserLauncher { url in
            guard let address = URL(string: url) else { throw AuthError(.userAgentFailed, "The URL is not valid.") }
            Task { @MainActor in NSWorkspace.shared.open(address) }
            return "the system's browser"
        }
    }
}
#endif
