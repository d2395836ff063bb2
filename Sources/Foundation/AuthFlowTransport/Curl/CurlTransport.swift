public import AuthFlowHTTP

#if os(Linux)
import CCurl
import HTTPTypes

/// The libcurl transport for Linux. Automatic features are disabled: redirects, cookies, credentials from files, and
/// retries of requests other than GET and HEAD.
///
/// Transports without ``NetworkSettings/addresses`` share one thread and, if their settings are the
/// same, its connections. libcurl is loaded on the first request (Debian: `libcurl4`, 7.80 or later).
public struct CurlTransport: HTTPTransport {
    private let settings: NetworkSettings
    private let loop: CurlLoop

    /// Creates a transport.
    /// - Parameter settings: The proxy, certificates and limits for every request; default: no proxy, the system's certificates.
    public init(_ settings: NetworkSettings = NetworkSettings()) {
        self.settings = settings
        // libcurl caches addresses for all transports that share a thread, but addresses set for one transport must not apply to the others.
        self.loop = settings.addresses.isEmpty ? .shared : CurlLoop()
    }

    public func send(_ call: TransportRequest) async throws -> TransportResponse {
        let transfer = CurlTransfer(call, settings: settings, proxy: try settings.proxy(for: call))
        return try await transfer.result.value {
            loop.begin(transfer)
        } onCancel: {
            loop.cancel(transfer)
        }
    }

    public func stream(_ call: TransportRequest) async throws -> ResponseStream {
        let body = ResponseBody(limit: call.maximumResponseSize)
        let transfer = CurlTransfer(call, settings: settings, proxy: try settings.proxy(for: call), body: body)
        return try await response(of: transfer, call, body)
    }

    public func stream(_ call: TransportRequest, body: UploadBody) async throws -> ResponseStream {
        let upload = CurlUpload(body)
        let received = ResponseBody(limit: call.maximumResponseSize)
        let proxy = try settings.proxy(for: call)
        let transfer = CurlTransfer(call, settings: settings, proxy: proxy, body: received, upload: upload)
        return try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { [loop] in await upload.read { loop.resume(transfer) } }
            group.addTask { await upload.waitForEnd() }
            let response = try await response(of: transfer, call, received)
            // If the connection were closed immediately, a peer that is still sending would receive a reset instead of
            // the response. nginx delays closing (lingering_close) for the same reason.
            if upload.isRejected { group.addTask { try? await Task.sleep(for: Self.lingering) } }
            // Waits for the first of these events: the body has been read, the transfer has ended, or the lingering
            // time has elapsed.
            try await group.next()
            let failure = upload.failure
            group.cancelAll()
            if !upload.isRejected, let error = failure {
                received.cancel()
                throw AuthError.bodyEndedEarly(of: call, error)
            }
            return response
        }
    }

    /// The time for which the rest of a body is read and discarded after the server has rejected the request.
    private static let lingering = Duration.seconds(2)

    /// Starts a transfer, and waits for its headers.
    private func response(
        of transfer: CurlTransfer,
        _ call: TransportRequest,
        _ body: ResponseBody
    ) async throws -> ResponseStream {
        body.onCancel { [loop] in loop.cancel(transfer) }
        if call.appliesBackpressure { body.onSpaceAvailable { [loop] in loop.resume(transfer) } }
        let response = try await transfer.result.value {
            loop.begin(transfer)
        } onCancel: {
            loop.cancel(transfer)
        }
        var stream = ResponseStream(head: response.head, body: body)
        stream.reach = response.reach
        return stream
    }
}

extension CurlTransport: GaugeSource {
    /// `authflow_requests_in_progress` and `authflow_requests_waiting` (for a connection), by `pool`. Transports that share a thread report
    /// the same values.
    public var gauges: [FlowGauge] {
        loop.load.merging([.authorizationServers: (0, 0)]) { known, _ in known }.flatMap { pool, load in
            [
                FlowGauge("authflow_requests_in_progress", load.running, labels: ["pool": pool.rawValue]),
                FlowGauge("authflow_requests_waiting", load.waiting, labels: ["pool": pool.rawValue]),
            ]
        }
    }
}
#endif
