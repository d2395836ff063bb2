import AuthFlowEssentials
import AuthFlowHTTP
import AuthFlowJSON

/// The sign-in pages that requests have opened for one resource within the last hour, in every process, and the failure of the last sign-in.
struct SignInHistory: Sendable {
    struct Failure: Sendable {
        let code: AuthError.Code
        let message: String
        let time: Double
        /// Whether the user was shown a page.
        let wasShown: Bool

        init(_ error: any Error, at now: Date, wasShown: Bool) {
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

    /// The times of the pages, in seconds since 1970.
    private(set) var pages: [Double]
    var failure: Failure?

    /// Decodes the output of ``bytes``. Times after `now` are dropped, so that a clock that was set back does not block
    /// requests forever.
    init(_ bytes: [UInt8]?, at now: Date) {
        let json = bytes.flatMap { try? JSON(parsing: $0) }
        let end = now.timeIntervalSince1970
        self.pages = (json?["pages"]?.array ?? []).compactMap(\.number).filter { end - 3600 < $0 && $0 <= end }
        self.failure = Failure(json?["failure"]).flatMap { $0.time <= end ? $0 : nil }
    }

    mutating func addPages(_ count: Int, at now: Date) {
        pages += Array(repeating: now.timeIntervalSince1970, count: count)
    }

    /// The error of a sign-in that failed while a request waited for it or, if a page was shown, within the preceding cooldown.
    func error(since began: Date, cooldown: Duration) -> AuthError? {
        guard let failure,
            failure.time >= began.timeIntervalSince1970 - (failure.wasShown ? cooldown.seconds : 0)
        else { return nil }
        let text = DisplayText.sanitized(failure.message, limit: 500)
        return AuthError(
            failure.code,
            failure.wasShown
                ? "A sign-in failed a moment ago, so no other sign-in page is opened yet. \(text)"
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
