#if os(Linux)
import CCurl

/// A libcurl handle for one transfer at a time (libcurl-easy(3)).
@safe final class CurlEasy {
    private let pointer: OpaquePointer

    /// The address of the handle, which identifies it in libcurl.
    var identifier: UInt { unsafe UInt(bitPattern: pointer) }

    /// Passes the handle to another libcurl function.
    func withPointer<Value>(_ body: (OpaquePointer) -> Value) -> Value { unsafe body(pointer) }

    /// Whether libcurl has accepted every option.
    private(set) var hasAcceptedAll = true

    private var lists: [OpaquePointer] = unsafe []

    /// - Returns: nil when memory allocation fails.
    init?() {
        guard let pointer = unsafe authflow_curl_easy_new() else { return nil }
        unsafe self.pointer = pointer
    }

    deinit {
        unsafe authflow_curl_easy_free(pointer)
        for index in unsafe lists.indices { unsafe authflow_curl_list_free(lists[index]) }
    }

    func set(_ option: authflow_curl_option, _ value: Int) {
        note(unsafe authflow_curl_set_number(pointer, option, Int64(value)))
    }

    /// Sets an option that not every version of libcurl supports.
    func trySet(_ option: authflow_curl_option, _ value: Int) {
        _ = unsafe authflow_curl_set_number(pointer, option, Int64(value))
    }

    func set(_ option: authflow_curl_option, _ value: String) {
        note(unsafe authflow_curl_set_text(pointer, option, value))
    }

    /// Sets an option to bytes, which libcurl copies.
    func set(_ option: authflow_curl_option, bytes: [UInt8]) {
        // An empty array has no base address, and a null pointer would mean that there is no body.
        let bytes = bytes.isEmpty ? [0] : bytes
        unsafe bytes.withUnsafeBytes { buffer in
            note(
                unsafe authflow_curl_set_pointer(pointer, option, UnsafeMutableRawPointer(mutating: buffer.baseAddress))
            )
        }
    }

    /// Sets an option to a list, which is retained for as long as the handle exists.
    func set(_ option: authflow_curl_option, list lines: [String]) {
        var list: OpaquePointer?
        for line in lines {
            guard let longer = unsafe authflow_curl_list_append(list, line) else {
                hasAcceptedAll = false
                break
            }
            unsafe list = longer
        }
        guard let list = unsafe list else { return }
        unsafe lists.append(list)
        note(unsafe authflow_curl_set_list(pointer, option, list))
    }

    /// Sets the header, body and pre-request callbacks. `context` must outlive the transfer.
    func setReceivers(
        _ context: CurlTransfer,
        header: authflow_curl_receive,
        body: authflow_curl_receive,
        beforeRequest: authflow_curl_before_request
    ) {
        let address = unsafe Unmanaged.passUnretained(context).toOpaque()
        note(unsafe authflow_curl_set_receivers(pointer, header, body, beforeRequest, address))
    }

    /// Sets the function that supplies the bytes of the request body. `context` must outlive the transfer.
    func setSender(_ context: CurlTransfer, _ send: authflow_curl_receive) {
        let address = unsafe Unmanaged.passUnretained(context).toOpaque()
        note(unsafe authflow_curl_set_sender(pointer, send, address))
    }

    /// Sets the function that opens sockets. `context` must outlive the transfer.
    func setOpenSocket(_ context: CurlTransfer, _ openSocket: authflow_curl_open_socket) {
        let address = unsafe Unmanaged.passUnretained(context).toOpaque()
        note(unsafe authflow_curl_set_open_socket(pointer, openSocket, address))
    }

    /// Resumes a paused transfer. The result is ignored, because an error in a callback also ends the transfer with that error.
    func resume() { _ = unsafe authflow_curl_resume(pointer) }

    /// The server's certificate, in PEM, if this transfer opened its connection.
    var certificate: String? {
        unsafe authflow_curl_certificate(pointer).map { unsafe String(cString: $0) }
    }

    func info(_ information: authflow_curl_information) -> Int {
        Int(unsafe authflow_curl_info(pointer, information))
    }

    private func note(_ result: authflow_curl_result) {
        if result != AUTHFLOW_CURL_OK { hasAcceptedAll = false }
    }
}
#endif
