import AuthFlow

// This file is type-checked on Linux against hand-written interfaces, but is not run there.

#if canImport(UIKit)
import UIKit

extension BrowserLauncher {
    /// The user's browser, opened by an app. The redirect arrives through `AuthClient.resume(with:)`. An app extension cannot open the browser, because
    /// it has no `UIApplication`. If the system does not open the URL, the sign-in fails with `user_agent_failed`.
    @available(iOSApplicationExtension, unavailable)
    public static var application: BrowserLauncher {
        BrowserLauncher(
            isOfApp: true,
            opener: { url, onFailure in
                guard let address = URL(string: url) else { throw AuthError(.userAgentFailed, "The URL is not valid.") }
                Task { @MainActor in
                    // The system does not open a URL for an app in the background, or if a restriction disables the browser.
                    if await !UIApplication.shared.open(address) { onFailure("the system did not open the URL") }
                }
                return "the system's browser"
            }
        )
    }
}
#endif

#if canImport(AppKit) && !targetEnvironment(macCatalyst)
import AppKit

extension BrowserLauncher {
    /// The user's browser, opened by an app. The redirect arrives through `AuthClient.resume(with:)`. If the system does not open the URL, the sign-in
    /// fails with `user_agent_failed`.
    public static var workspace: BrowserLauncher {
        BrowserLauncher(
            isOfApp: true,
            opener: { url, onFailure in
                guard let address = URL(string: url) else { throw AuthError(.userAgentFailed, "The URL is not valid.") }
                Task { @MainActor in
                    if !NSWorkspace.shared.open(address) { onFailure("the system did not open the URL") }
                }
                return "the system's browser"
            }
        )
    }
}
#endif
