public import AuthFlow
public import AuthFlowEssentials

/// A request as an emulator received it.
public struct ReceivedRequest: Sendable {
    /// The method, target and header fields. They contain secrets.
    public let request: HTTPRequest
    /// The path, without the query.
    public let path: String
    /// The query parameters.
    public let query: FormParameters
    /// The parameters of the body, if it is a form.
    public let form: FormParameters
    /// The time at which the request was received, according to the emulator's clock.
    public let time: Date

    init(_ request: HTTPRequest, body: [UInt8], time: Date) {
        let target = request.path ?? "/"
        let isForm = request.headerFields[.contentType]?.hasPrefix("application/x-www-form-urlencoded") == true
        self.request = request
        self.path = String(target.prefix { $0 != "?" })
        self.query = FormURLEncoding.decode(target.dropFirst(path.count + 1)) ?? [:]
        self.form = isForm ? body.form : [:]
        self.time = time
    }
}
