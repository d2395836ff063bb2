public import AuthFlow
import AuthFlowEssentials

/// Completes a device authorization headlessly: opens the verification URI and completes its pages in place of the
/// user.
///
/// For tests and for service accounts, like ``HeadlessUserAgent``.
public struct HeadlessDevicePresenter: Sendable {
    /// The maximum number of pages that are passed to a driver.
    private static let maximumPages = 15

    private let driver: any LoginDriver
    private let transport: any HTTPTransport
    private let host: HostServices
    private let observer: @Sendable (DeviceAuthorization) -> Void

    /// Creates a presenter.
    /// - Parameters:
    ///   - driver: Completes the provider's pages on the user's behalf; the presenter enters the user code.
    ///   - transport: The HTTP transport.
    ///   - host: Provides the clocks, for the expiry of cookies and of the code.
    ///   - observer: Receives the device authorization response, which contains the user code.
    public init(
        driver: any LoginDriver,
        transport: any HTTPTransport = SystemTransport(),
        host: HostServices = .system,
        observer: @escaping @Sendable (DeviceAuthorization) -> Void = { _ in }
    ) {
        self.driver = driver
        self.transport = transport
        self.host = host
        self.observer = observer
    }
}

extension HeadlessDevicePresenter: DevicePresenter {
    public func present<Return: Sendable>(
        _ authorization: DeviceAuthorization,
        while body: nonisolated(nonsending) () async throws -> Return
    ) async throws -> Return {
        observer(authorization)
        // The timeout for the pages is the lifetime of the code; afterward, `body` polls with its own timeout.
        try await withDeadline(authorization.lifetime, clock: host.clock) {
            AuthError(.timedOut, "The code expired before the provider's pages were completed.")
        } _: {
            try await enter(authorization)
        }
        return try await body()
    }

    /// Enters the user code, and completes the provider's pages.
    private func enter(_ authorization: DeviceAuthorization) async throws {
        let browser = HeadlessBrowser(transport: transport, now: host.now, reporter: FlowReporter(host: host))
        let link = authorization.verificationURIComplete ?? authorization.verificationURI
        var navigation = HeadlessNavigation.visit(link)
        // The names of the fields in which the code was entered.
        var codeFields: [String] = []
        for number in 0..<Self.maximumPages {
            // The device grant has no redirect URI.
            guard case .page(let page) = try await browser.navigate(navigation, until: nil) else { break }
            let html = try HTMLPage.read(page)
            // A page without a form after a submission is the final page.
            if page.response.status == 200, html.forms.isEmpty, !html.requiresDOM, number > 0 { return }
            if let codeForm = try Self.codeForm(in: html.forms, page, authorization, at: link.origin, &codeFields) {
                navigation = codeForm
            } else {
                navigation = try await driver.next(after: page, in: browser)
            }
        }
        throw AuthError(
            .userAgentFailed,
            "\(link) had still not accepted the code after \(Self.maximumPages) pages."
        )
    }

    /// Enters the code if the page asks for it.
    /// - Parameter entered: The names of the fields in which the code was entered.
    private static func codeForm(
        in forms: [HTMLForm],
        _ page: HeadlessPage,
        _ authorization: DeviceAuthorization,
        at origin: String,
        _ entered: inout [String]
    ) throws -> HeadlessNavigation? {
        // The code is entered only at the origin that the provider specified.
        guard page.endpoint.origin == origin else { return nil }
        for form in forms where form.passwordField == nil {
            let fields = form.fields.filter { ["text", "email", "tel"].contains($0.type) && !$0.isFixed }
            guard let field = fields.last, asksForUserCode(field, on: page, authorization, entered) else { continue }
            let button = form.continueButton
            let target = try form.target(on: page, pressing: button)
            guard target.origin == origin else { continue }
            let parameters = form.parameters(filling: [field.name: authorization.userCode], pressing: button)
            entered.append(field.name)
            return try form.navigation(parameters, to: target, pressing: button)
        }
        return nil
    }

    /// Whether a field asks for the user code. Once the provider has the user code, a further code field may be for a one-time code, and providers
    /// lock accounts after a few wrong codes.
    private static func asksForUserCode(
        _ field: HTMLForm.Field,
        on page: HeadlessPage,
        _ authorization: DeviceAuthorization,
        _ entered: [String]
    ) -> Bool {
        let name = field.name.lowercased()
        guard name.contains("code") else { return false }
        let isNamed = name.contains("user") || name.contains("device")
        guard !isNamed, field.value != authorization.userCode else { return true }
        // The complete URI contains the user code. After the sign-in, the page only asks the user to confirm it.
        let isInURI = authorization.verificationURIComplete != nil && page.hasTypedCredentials
        // Some providers ask for the user code again after the sign-in. If they ask once more, the field may be for a one-time code.
        let times = entered.count { $0 == field.name }
        guard !field.isOneTimeCode, times < 2 || !page.hasTypedCredentials else { return false }
        return times > 0 || entered.isEmpty && !isInURI
    }
}
