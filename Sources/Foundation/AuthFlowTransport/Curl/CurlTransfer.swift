import AuthFlowHTTP

#if os(Linux)
import CCurl
import HTTPTypes

/// One HTTP request in progress. Everything except its result is accessed only by the loop's thread.
final class CurlTransfer: @unchecked Sendable {  // Mutable state is accessed only by the loop's thread.
    /// The result that the caller awaits.
    let result = FirstResult<TransportResponse>()

    /// A host in a connection pool. The limit on concurrent transfers applies to each host separately.
    struct Destination: Hashable {
        let pool: ConnectionPool
        let host: String
    }

    let destination: Destination
    let settings: NetworkSettings

    let added = ContinuousClock.now
    /// The remaining connect timeout at the time when libcurl started the transfer.
    private var connectTimeout = Duration.zero
    /// The time at which the request was sent; nil until then.
    private var sent: ContinuousClock.Instant?

    private let call: TransportRequest
    private let proxy: NetworkSettings.ProxyServer?
    private var easy: CurlEasy?
    private var head = ResponseHead()
    private var body: [UInt8] = []
    /// The receiver of the body as it arrives; nil when the body is returned as a whole. Weak, because releasing the body ends the transfer.
    private weak var stream: ResponseBody?
    private let isStream: Bool
    /// The streamed body of the request; nil when the body is part of the request.
    private let upload: CurlUpload?
    private var attempts = 0
    private var fault: (any Error)?
    /// The network reach of the peer's address; nil until a connection exists, or if a proxy is used.
    private var reach: NetworkReach?
    private var hasRejectedAddress = false

    init(
        _ call: TransportRequest,
        settings: NetworkSettings,
        proxy: NetworkSettings.ProxyServer?,
        body stream: ResponseBody? = nil,
        upload: CurlUpload? = nil
    ) {
        self.upload = upload
        self.stream = stream
        self.isStream = stream != nil
        self.destination = Destination(pool: call.pool, host: "\(call.head.scheme ?? "") \(call.head.authority ?? "")")
        self.call = call
        self.settings = settings
        self.proxy = proxy
    }

    /// Sets up a libcurl handle for the request.
    /// - Throws: ``AuthError`` with `network_failed` when libcurl rejects an option.
    func prepare(_ easy: CurlEasy) throws(AuthError) {
        self.easy = easy
        easy.set(AUTHFLOW_CURL_URL, call.url)
        unsafe easy.setReceivers(
            self,
            header: Self.receiveHeader,
            body: Self.receiveBody,
            beforeRequest: Self.beforeRequest
        )
        if let upload { prepareUpload(upload, easy) }
        if limitsAddresses { unsafe easy.setOpenSocket(self, Self.openSocket) }
        prepareRequest(easy)
        // A paused transfer would block other transfers on its HTTP/2 connection, or libcurl would buffer its body.
        if !isSafe || call.appliesBackpressure || upload != nil { easy.set(AUTHFLOW_CURL_HTTP_VERSION, 2) }  // HTTP/1.1
        easy.set(AUTHFLOW_CURL_PROTOCOLS, 0b11)  // http and https
        easy.set(AUTHFLOW_CURL_PATH_AS_IS, 1)
        easy.set(AUTHFLOW_CURL_NO_USERNAME_IN_URL, 1)
        easy.set(AUTHFLOW_CURL_NO_SIGNAL, 1)
        // Without probes, an idle stream would never end after the network has changed. By default, libcurl sends a probe every 60 seconds.
        easy.set(AUTHFLOW_CURL_TCP_KEEPALIVE, 1)
        // A caller that sends this field itself receives the body as the server encoded it.
        if call.head.headerFields[.acceptEncoding] == nil { easy.set(AUTHFLOW_CURL_ACCEPT_ENCODING, "gzip, deflate") }
        // The timeout starts when the request is sent, unlike libcurl's own timeout: see ``deadline``.
        connectTimeout = min(settings.connectTimeout, ContinuousClock.now.duration(to: added + call.timeout))
        easy.set(AUTHFLOW_CURL_CONNECT_TIMEOUT_MS, connectTimeout.wholeMilliseconds)
        // Without this option, the end of a transfer would wait for the thread that resolves its host name. It requires libcurl 7.87.
        easy.trySet(AUTHFLOW_CURL_QUICK_EXIT, 1)
        prepareTLS(easy)
        prepareProxy(easy)
        if !settings.addresses.isEmpty {
            easy.set(AUTHFLOW_CURL_RESOLVE, list: settings.addresses.map { "\($0.key):\($0.value)" }.sorted())
        }
        guard easy.hasAcceptedAll else {
            throw AuthError(.networkFailed, "The installed libcurl rejects a setting that \(call) requires.")
        }
    }

    private func prepareRequest(_ easy: CurlEasy) {
        let method = call.head.method
        var lines: [String] = []
        for field in call.head.headerFields where field.name != .cookie {
            // libcurl sends a field without a value only if it is written with a semicolon instead of a colon.
            lines.append(field.value.isEmpty ? "\(field.name.rawName);" : "\(field.name.rawName): \(field.value)")
        }
        // HTTP/2 permits separate cookie fields (RFC 9113 section 8.2.3); HTTP/1.1 requires a single field (RFC 6265 section 5.4).
        let cookies = call.head.headerFields[values: .cookie]
        if !cookies.isEmpty { lines.append("Cookie: \(cookies.joined(separator: "; "))") }
        if call.head.headerFields[.userAgent] == nil {
            let printable = settings.productName.unicodeScalars.filter { (" "..."~").contains($0) }
            lines.append("User-Agent: \(String.UnicodeScalarView(printable))")
        }
        let hasBody = !call.body.isEmpty || [.post, .put, .patch].contains(method)
        if hasBody || upload != nil {
            if call.head.headerFields[.contentType] == nil { lines.append("Content-Type:") }
            // Not every server responds to `Expect`, and libcurl would wait a second for a response.
            lines.append("Expect:")
        }
        if hasBody, upload == nil {
            easy.set(AUTHFLOW_CURL_POST_FIELD_SIZE, call.body.count)
            easy.set(AUTHFLOW_CURL_COPY_POST_FIELDS, bytes: call.body)
        }
        if call.isLastOnConnection || upload != nil {
            lines.append("Connection: close")
            easy.set(AUTHFLOW_CURL_FORBID_REUSE, 1)
        }
        // Several servers close a connection that has been idle for 5 s. A request that is sent at that moment is lost, and only safe
        // requests are retried. libcurl compares whole seconds, so this limits the idle time to less than 4 s.
        if !isSafe { easy.set(AUTHFLOW_CURL_MAX_IDLE_TIME, 3) }
        if method == .head { easy.set(AUTHFLOW_CURL_NO_BODY, 1) }
        // Otherwise, libcurl would use POST or PUT for a request with a body.
        if !isSafe || !call.body.isEmpty || upload != nil { easy.set(AUTHFLOW_CURL_CUSTOM_REQUEST, method.rawValue) }
        easy.set(AUTHFLOW_CURL_HTTP_HEADER, list: lines)
    }

    private func prepareUpload(_ upload: CurlUpload, _ easy: CurlEasy) {
        unsafe easy.setSender(self, Self.sendBody)
        easy.set(AUTHFLOW_CURL_UPLOAD, 1)
        easy.set(AUTHFLOW_CURL_UPLOAD_SIZE, upload.length ?? -1)
        // Otherwise, libcurl would retry the request when a reused connection turns out to be dead.
        easy.set(AUTHFLOW_CURL_FRESH_CONNECT, 1)
    }

    private func prepareTLS(_ easy: CurlEasy) {
        easy.set(AUTHFLOW_CURL_SSL_VERIFY_PEER, 1)
        easy.set(AUTHFLOW_CURL_SSL_VERIFY_HOST, 2)
        easy.set(AUTHFLOW_CURL_CERT_INFO, 1)
        // RFC 9325 section 3.1.1: "Implementations MUST NOT negotiate TLS version 1.1".
        easy.set(AUTHFLOW_CURL_SSL_VERSION, 6)  // TLS 1.2 or later
        // If libcurl is built with a certificate directory, it also trusts the CA certificates in that directory.
        if let file = settings.certificateAuthorities {
            easy.set(AUTHFLOW_CURL_CA_INFO, file)
            if proxy != nil { easy.set(AUTHFLOW_CURL_PROXY_CA_INFO, file) }
        }
        if let certificate = settings.clientCertificate {
            easy.set(AUTHFLOW_CURL_SSL_CERT, certificate.file)
            easy.set(AUTHFLOW_CURL_SSL_KEY, certificate.keyFile)
            // Without this, OpenSSL would prompt for the passphrase of an encrypted key on the terminal.
            easy.set(AUTHFLOW_CURL_KEY_PASSWORD, "")
        }
    }

    private func prepareProxy(_ easy: CurlEasy) {
        // An empty string prevents libcurl from reading the environment itself.
        easy.set(AUTHFLOW_CURL_PROXY, proxy?.url ?? "")
        easy.set(AUTHFLOW_CURL_NO_PROXY, "")
        guard let proxy else { return }
        // The request is tunneled through the proxy, so that only the server can read it.
        easy.set(AUTHFLOW_CURL_HTTP_PROXY_TUNNEL, 1)
        easy.set(AUTHFLOW_CURL_SUPPRESS_CONNECT_HEADERS, 1)
        easy.set(AUTHFLOW_CURL_PROXY_SSL_VERSION, 6)  // TLS 1.2 or later
        if let username = proxy.username { easy.set(AUTHFLOW_CURL_PROXY_USERNAME, username) }
        if let password = proxy.password { easy.set(AUTHFLOW_CURL_PROXY_PASSWORD, password.exposed) }
    }

    /// Passes libcurl's final result to the caller.
    func end(_ code: authflow_curl_result) {
        defer { easy = nil }
        if let fault { return fail(fault) }
        // If one address is rejected, libcurl tries the host name's other addresses.
        if hasRejectedAddress, attempts == 0, code != AUTHFLOW_CURL_OK { return fail(addressError) }
        guard code == AUTHFLOW_CURL_OK, let response = head.response else {
            let waited = attempts == 0 ? connectTimeout : call.timeout
            return fail(
                CurlFailure(
                    code,
                    of: call,
                    through: proxy,
                    waited: waited,
                    isConnected: attempts > 0,
                    presentsCertificate: settings.clientCertificate != nil,
                    hasResponse: !head.isEmpty,
                    easy: easy
                ).error
            )
        }
        upload?.stop()
        result.finish(.success(transportResponse(response)))
        stream?.finish()
    }

    private func transportResponse(_ head: HTTPResponse) -> TransportResponse {
        var response = TransportResponse(head: head, body: body)
        // libcurl has decoded the body. In a response to HEAD, the fields describe the response to GET.
        if call.head.headerFields[.acceptEncoding] == nil, call.head.method != .head,
            response.head.headerFields[.contentEncoding] != nil
        {
            response.head.headerFields[.contentEncoding] = nil
            response.head.headerFields[.contentLength] = nil
        }
        response.reach = reach
        return response
    }

    private func fail(_ error: any Error) {
        upload?.stop()
        result.finish(.failure(error))
        stream?.finish(throwing: error)
    }

    /// Aborts the transfer with an error, before libcurl has completed it.
    func end(_ error: any Error) {
        easy = nil
        fail(error)
    }

    /// The minimum time from any state change to the next ``deadline``.
    var minimumTimeout: Duration { min(call.timeout, settings.firstByteTimeout) }

    /// The time at which the transfer times out unless it makes progress, and the error; nil when no timeout applies.
    var deadline: (ContinuousClock.Instant, AuthError)? {
        guard let wait else { return nil }
        let limit = wait.limit(for: call, isStream: isStream, firstByte: settings.firstByteTimeout)
        return ((sent ?? added) + limit, wait.error(for: call, after: limit))
    }

    /// The current wait; nil while connecting (a separate timeout), and once a stream's headers have arrived and its upload has completed,
    /// because the body of a stream has no time limit.
    private var wait: TransferWait? {
        guard sent != nil else { return easy == nil ? .forConnection : nil }
        if isStream {
            guard head.response == nil || upload?.isUnfinished == true else { return nil }
        } else if !head.isEmpty {
            return .forRest
        }
        return upload?.isAwaited == true ? .forBody : .forResponse
    }

    // MARK: Callbacks of libcurl

    private static let receiveHeader: authflow_curl_receive = { bytes, size, count, context in
        let transfer = unsafe CurlTransfer.at(context)
        let line = unsafe UnsafeRawBufferPointer(start: bytes, count: size * count)
        return transfer.receive(header: unsafe Array(line)) ? line.count : 0
    }

    private static let receiveBody: authflow_curl_receive = { bytes, size, count, context in
        let transfer = unsafe CurlTransfer.at(context)
        let part = unsafe UnsafeRawBufferPointer(start: bytes, count: size * count)
        return unsafe transfer.receive(body: part)
    }

    private static let sendBody: authflow_curl_receive = { bytes, size, count, context in
        let transfer = unsafe CurlTransfer.at(context)
        return unsafe transfer.send(into: UnsafeMutableRawBufferPointer(start: bytes, count: size * count))
    }

    private static let beforeRequest: authflow_curl_before_request = { context, address, _, _, _ in
        unsafe CurlTransfer.at(context).mayBeSent(to: address.map { unsafe String(cString: $0) }) ? 0 : 1
    }

    private static let openSocket: authflow_curl_open_socket = { context, _, peer in
        let transfer = unsafe CurlTransfer.at(context)
        let address = unsafe withUnsafeTemporaryAllocation(of: CChar.self, capacity: Int(AUTHFLOW_CURL_ADDRESS_SIZE)) {
            text in
            guard let start = text.baseAddress, unsafe authflow_curl_peer_address(peer, start) else {
                return nil as String?
            }
            return unsafe String(cString: start)
        }
        guard let address, NetworkReach(address: address) <= transfer.call.allowedReach else {
            transfer.hasRejectedAddress = true
            return -1
        }
        return unsafe authflow_curl_peer_open(peer)
    }

    private static func at(_ context: UnsafeMutableRawPointer?) -> CurlTransfer {
        guard let context = unsafe context else { preconditionFailure("libcurl lost its context") }
        return unsafe Unmanaged<CurlTransfer>.fromOpaque(context).takeUnretainedValue()
    }

    private func receive(header line: [UInt8]) -> Bool {
        do throws(ResponseHead.Fault) {
            try head.read(line)
        } catch {
            switch error {
            case .tooLarge:
                fault = AuthError(
                    .invalidResponse,
                    "The response to \(call) has more than \(ResponseHead.maximumSize / 1024) KiB of header fields."
                )
            case .malformed(let reason):
                fault = AuthError(.invalidResponse, "The response to \(call) is not HTTP: \(reason).")
            }
            return false
        }
        // A server that responds with a redirect or an error may not have read the body, and would parse it as the next request on the
        // connection.
        if let status = head.response?.status.code, status >= 300, !call.body.isEmpty {
            easy?.set(AUTHFLOW_CURL_FORBID_REUSE, 1)
        }
        guard !isStream else {
            // The headers are complete as soon as their last line has arrived.
            if let status = head.response?.status.code, status >= 300 { upload?.reject() }
            if let response = head.response { result.finish(.success(transportResponse(response))) }
            return true
        }
        guard let response = head.response, call.head.method != .head,
            let length = response.headerFields[.contentLength].flatMap({ Int($0) }), length > call.maximumResponseSize
        else { return true }
        return failOversized()
    }

    /// - Returns: The return value for libcurl: the number of bytes accepted.
    private func receive(body part: UnsafeRawBufferPointer) -> Int {
        guard isStream else {
            guard body.count + part.count <= call.maximumResponseSize else { return failOversized() ? part.count : 0 }
            unsafe body.append(contentsOf: part)
            return part.count
        }
        guard let stream else { return 0 }
        guard call.appliesBackpressure else {
            return stream.append(unsafe Array(part)) || failOversized() ? part.count : 0
        }
        return switch stream.offer(unsafe Array(part)) {
        case .accepted: part.count
        case .bufferFull: Int(AUTHFLOW_CURL_PAUSE)
        case .ended: 0
        }
    }

    /// - Returns: The return value for libcurl: the number of bytes to send, or a special value.
    private func send(into buffer: UnsafeMutableRawBufferPointer) -> Int {
        switch unsafe upload?.take(into: buffer) {
        case .bytes(let count):
            // The timeout restarts with every part.
            sent = .now
            return count
        case .none?: return Int(AUTHFLOW_CURL_PAUSE_SENDING)
        case .end, nil: return 0
        case .failure(let error):
            fault = AuthError.bodyEndedEarly(of: call, error)
            return Int(AUTHFLOW_CURL_ABORT_SENDING)
        }
    }

    /// Whether the server has rejected the request before the end of its body. libcurl 7.88 does not end such a transfer by itself while its
    /// upload is paused.
    var isRejected: Bool { upload?.isRejected == true }

    /// Whether the request has a streamed body.
    var isUpload: Bool { upload != nil }

    /// Resumes a paused transfer.
    func resume() { easy?.resume() }

    private func failOversized() -> Bool {
        fault = AuthError(
            .invalidResponse,
            "The response to \(call) is larger than \(call.maximumResponseSize) bytes.",
            status: head.response?.status.code
        )
        return false
    }

    /// Whether the request method is safe (RFC 9110 section 9.2.1).
    private var isSafe: Bool { [.get, .head].contains(call.head.method) }

    /// libcurl automatically retries a request when a reused connection turns out to be dead. An authorization code or
    /// a rotated refresh token is single-use, and a server may have processed a request without responding to it, so a
    /// request that is not safe is not sent again once any part of it has been sent.
    ///
    /// RFC 9110 section 9.2.2 allows retries of safe requests. All other requests use HTTP/1.1,
    /// because an HTTP/2 server ignores requests that arrive after it has sent GOAWAY (RFC 9113 section 6.8), and an ignored request cannot be
    /// detected here.
    private func mayBeSent(to address: String?) -> Bool {
        attempts += 1
        do throws(AuthError) {
            try checkPeer(address)
            if attempts > 1, !isSafe, let easy, easy.info(AUTHFLOW_CURL_INFO_REQUEST_SIZE) > 0 {
                throw AuthError(
                    .networkFailed,
                    "The connection to \(call.place) was lost after the request had been sent, and the request was not retried. Try again."
                )
            }
            try call.willSend()
        } catch {
            fault = error
            return false
        }
        sent = .now
        return true
    }

    /// Whether the server's network address is restricted. It is not restricted if the settings specify an address
    /// for the name, because the user has chosen that address, or if a proxy is used, because the proxy connects to the address.
    private var limitsAddresses: Bool {
        guard call.allowedReach < .loopback, proxy == nil else { return false }
        return settings.addresses["\(call.host):\(call.port)"] == nil
    }

    private var addressError: AuthError {
        AuthError(
            .networkFailed,
            "\(call.place) resolves to a loopback or private address. A public server must not refer to such a host."
        )
    }

    /// Checks the peer of the connection, which another request may have opened.
    private func checkPeer(_ address: String?) throws(AuthError) {
        if proxy == nil, let address { reach = NetworkReach(address: address) }
        if limitsAddresses, (reach ?? .loopback) > call.allowedReach { throw addressError }
        guard let easy, call.head.scheme == "https", easy.info(AUTHFLOW_CURL_INFO_NUM_CONNECTS) > 0 else { return }
        let names = CertificateNames(pem: easy.certificate ?? "")
        let isAddress = NetworkReach.isAddress(call.host)
        // RFC 9110 section 4.3.4: "A reference identity of type CN-ID MUST NOT be used by clients." libcurl uses it when there is no
        // other name.
        guard isAddress ? names.hasAddress : names.hasHostName else {
            // No other request may use the connection.
            easy.set(AUTHFLOW_CURL_FORBID_REUSE, 1)
            throw AuthError(
                .networkFailed,
                "No trusted TLS connection to \(call.place) could be established: its certificate has no subjectAltName for \(isAddress ? "an IP address" : "a host name")."
            )
        }
    }
}
#endif
