import AuthFlowEssentials
import AuthFlowOAuth

/// The sign-in pages that requests in any process have opened for one resource within the last hour, and the last sign-in failure.
/// Both determine whether a sign-in may begin, and which failures are shared with other processes. This type performs no I/O: the
/// holder of the lease reads the history, and writes the returned history.
///
/// | event | cause: a request | cause: the user |
/// |---|---|---|
/// | begins, and a sign-in has failed since the request arrived, or has failed after a page within the cooldown | that error | begins |
/// | begins, or opens a page, after the hourly page limit was reached | `login_required` | begins |
/// | opens a page otherwise | the page is counted | unchanged |
/// | succeeded | the failure is removed | the history is empty |
/// | failed | the failure is shared | the failure is shared |
/// | cancelled | unchanged | unchanged |
/// | signed in, but the resource rejects the token | a failure after a page | a failure after a page |
struct SignInHistory: Sendable {
    /// The cause of a sign-in.
    enum Cause: Sendable {
        /// The user requested the page.
        case user
        /// A request needs a token. All waiting requests share one page and its outcome.
        /// - Parameter rejected: The credential whose access token was rejected; nil for none.
        case request(rejected: Credential?)

        var isRequest: Bool { if case .request = self { true } else { false } }
    }

    /// The limits on sign-ins triggered by requests.
    struct Limits: Sendable {
        /// The maximum number of pages in one hour; nil for methods that show no page.
        let pagesPerHour: Int?
        /// The period after a failure during which no further page is opened.
        let cooldown: Duration
    }

    struct Failure: Sendable {
        let code: AuthError.Code
        let message: String
        let time: Double
        /// Whether the user was shown a page.
        let wasShown: Bool

        fileprivate init(_ error: any Error, at now: Date, wasShown: Bool) {
            let error = error as? AuthError ?? AuthError(.userAgentFailed, "The sign-in failed.")
            (self.code, self.message) = (error.code, error.description)
            (self.time, self.wasShown) = (now.timeIntervalSince1970, wasShown)
        }

        fileprivate init?(_ json: JSON?) {
            guard let json, let code = json["code"]?.string, let message = json["message"]?.string,
                let time = json["time"]?.number, let wasShown = json["shown"]?.bool
            else { return nil }
            (self.code, self.message) = (AuthError.Code(rawValue: code), message)
            (self.time, self.wasShown) = (time, wasShown)
        }

        fileprivate var json: JSON {
            [
                "code": .string(code.rawValue), "message": .string(message), "time": .double(time),
                "shown": .bool(wasShown),
            ]
        }
    }

    /// The times at which pages were opened, in seconds since the Unix epoch.
    private(set) var pages: [Double]
    private(set) var failure: Failure?

    /// The maximum difference between the clocks of two machines, in seconds.
    private static let allowedClockSkew = 10.0

    /// Decodes the output of ``bytes``. Times later than `now` are dropped, unless they are within the allowed clock skew, so
    /// that a clock that was set back does not block requests forever.
    init(_ bytes: [UInt8]?, at now: Date) {
        let json = bytes.flatMap { try? JSON(parsing: $0) }
        let end = now.timeIntervalSince1970 + Self.allowedClockSkew
        self.pages = (json?["pages"]?.array ?? []).compactMap(\.number).filter { end - 3600 < $0 && $0 <= end }
        self.failure = Failure(json?["failure"]).flatMap { $0.time <= end ? $0 : nil }
    }

    /// Decides whether a sign-in may begin.
    /// - Parameters:
    ///   - began: The time at which the request arrived.
    ///   - address: The resource, for the message.
    /// - Throws: ``AuthError``: the failure of an earlier sign-in, or `login_required`.
    func requireStart(for cause: Cause, since began: Date, _ limits: Limits, address: Endpoint) throws(AuthError) {
        guard cause.isRequest else { return }
        if let error = error(since: began, cooldown: limits.cooldown) { throw error }
        try requireQuota(limits, address: address)
    }

    /// Decides whether a sign-in may open a page. A sign-in opens a second page if the authorization server does not recognize the client.
    /// - Returns: The history to write before the page is opened, so that the page counts even if the process is killed or cannot reach the
    ///   store afterwards; nil to write nothing. Without the count, a resource that requires different scopes each time could show the user an
    ///   endless series of pages.
    /// - Throws: ``AuthError`` with `login_required`.
    func recordingPage(for cause: Cause, at now: Date, _ limits: Limits, address: Endpoint) throws(AuthError)
        -> SignInHistory?
    {
        guard cause.isRequest, limits.pagesPerHour != nil else { return nil }
        try requireQuota(limits, address: address)
        var history = self
        history.pages.append(now.timeIntervalSince1970)
        return history
    }

    private func requireQuota(_ limits: Limits, address: Endpoint) throws(AuthError) {
        guard let pagesPerHour = limits.pagesPerHour, pages.count >= pagesPerHour else { return }
        throw AuthError(
            .loginRequired,
            "Requests to \(address) have opened \(pages.count) sign-in pages within an hour. No further page is opened until the oldest of them is an hour old, or you sign in to the resource yourself."
        )
    }

    /// The history after a sign-in.
    /// - Parameters:
    ///   - error: The failure; nil for success.
    ///   - wasShown: Whether the user was shown a page.
    /// - Returns: The history to write; nil to remove the record.
    func recordingOutcome(for cause: Cause, _ error: (any Error)?, wasShown: Bool, at now: Date) -> SignInHistory? {
        guard cause.isRequest || error != nil else { return nil }
        var history = self
        switch error {
        case nil: history.failure = nil
        // The cancellation of one request does not affect the other requests.
        case is CancellationError: break
        case let error?: history.failure = Failure(error, at: now, wasShown: wasShown)
        }
        return history
    }

    /// The history after the resource has rejected the token of a sign-in that had succeeded.
    func rejected(with error: AuthError, at now: Date) -> SignInHistory {
        var history = self
        history.failure = Failure(error, at: now, wasShown: true)
        return history
    }

    /// The error of a sign-in that failed while a request waited for it or, if a page was shown, within the preceding cooldown.
    private func error(since began: Date, cooldown: Duration) -> AuthError? {
        guard let failure,
            failure.time >= began.timeIntervalSince1970 - (failure.wasShown ? cooldown.seconds : 0)
        else { return nil }
        let text = DisplayText.sanitized(failure.message, limit: 500)
        return AuthError(
            failure.code,
            failure.wasShown
                ? "A sign-in failed recently, so no other sign-in page is opened yet. \(text)"
                : text
        )
    }

    /// The history as a store record.
    var bytes: [UInt8] {
        get throws {
            var json: [String: JSON] = ["pages": .array(pages.map(JSON.double))]
            json["failure"] = failure?.json
            return try JSON.object(json).serialized()
        }
    }
}
