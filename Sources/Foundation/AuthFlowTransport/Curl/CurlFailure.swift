import AuthFlowHTTP

#if os(Linux)
import CCurl
import HTTPTypes

/// The error for a failed request. It has a custom message, because libcurl's message may quote the URL with its
/// query.
struct CurlFailure {
    /// The result codes that may indicate that a server has rejected a client certificate.
    private static let rejections = [
        AUTHFLOW_CURL_CERTIFICATE_REQUIRED, AUTHFLOW_CURL_SEND_ERROR, AUTHFLOW_CURL_RECEIVE_ERROR,
        AUTHFLOW_CURL_TLS_FAILED, AUTHFLOW_CURL_GOT_NOTHING,
    ]

    /// The result codes when an HTTP proxy closes the connection or does not respond to CONNECT with HTTP.
    private static let lostProxies = [
        AUTHFLOW_CURL_SEND_ERROR, AUTHFLOW_CURL_RECEIVE_ERROR, AUTHFLOW_CURL_GOT_NOTHING, AUTHFLOW_CURL_WEIRD_REPLY,
        AUTHFLOW_CURL_UNSUPPORTED_PROTOCOL,
    ]

    let error: AuthError

    init(
        _ result: authflow_curl_result,
        of call: TransportRequest,
        through proxy: NetworkSettings.ProxyServer?,
        waited: Duration,
        isConnected: Bool,
        presentsCertificate: Bool,
        hasResponse: Bool,
        easy: CurlEasy?
    ) {
        let place = call.place
        // With a proxy, only the connection to the proxy can fail, because libcurl opens no other
        // connection.
        let peer = proxy.map { "the proxy \($0.place)" } ?? place
        let connectStatus = easy?.info(AUTHFLOW_CURL_INFO_CONNECT_CODE) ?? 0
        // RFC 9110 section 9.3.6: a connection to the server exists only after the proxy has responded to CONNECT with a 2xx status.
        let isUnconnected = !isConnected && proxy?.url.hasPrefix("http") == true
        let isAtProxy = isUnconnected && connectStatus < 200
        func failure(_ message: String) -> AuthError { AuthError(.networkFailed, message) }
        switch result {
        case AUTHFLOW_CURL_TIMED_OUT:
            error = AuthError(
                .timedOut,
                "\(isConnected ? place : peer) did not respond within \(waited.formattedSeconds)."
            )
        case AUTHFLOW_CURL_NO_HOST_ADDRESS:
            error = failure(
                "The host name \(place) cannot be resolved. Is it spelled correctly, and is the network available?"
            )
        case AUTHFLOW_CURL_NO_PROXY_ADDRESS:
            error = failure("The host name of \(peer) cannot be resolved. Is it spelled correctly?")
        case _ where proxy != nil && [401, 407].contains(connectStatus):
            error = failure(
                "\(peer.capitalizedFirst) requires a user name and a password, or rejected the configured credentials."
            )
        case _ where proxy != nil && connectStatus >= 300:
            error = failure("\(peer.capitalizedFirst) refused to connect to \(place) (status \(connectStatus)).")
        // The SOCKS handshake (RFC 1928) failed. The result of HTTP proxies is a different code.
        case AUTHFLOW_CURL_PROXY_FAILED:
            error = failure(
                "\(peer.capitalizedFirst) could not connect to \(place), or rejected the configured credentials. Is it a SOCKS proxy, and does it allow this server?"
            )
        // After a 2xx status, the rest of the header section may be missing, or too large. A failed TLS handshake with the server has a different code.
        case _ where isUnconnected && Self.lostProxies.contains(result):
            error = failure(
                "\(peer.capitalizedFirst) closed the connection, or sent an invalid response, before it had connected to \(place). Is it an HTTP proxy?"
            )
        case AUTHFLOW_CURL_NO_CONNECTION:
            error = failure("Could not connect to \(peer). Is the address correct, and is the server running?")
        case AUTHFLOW_CURL_CERTIFICATE_REFUSED, AUTHFLOW_CURL_BAD_CA_FILE:
            let isBadFile = result == AUTHFLOW_CURL_BAD_CA_FILE
            // If the proxy has not responded to CONNECT, the rejected certificate is the proxy's, and libcurl's verification result does not describe it.
            let isOfProxy = connectStatus == 0 && proxy?.url.hasPrefix("https:") == true
            let reason =
                isBadFile
                ? ": the CA file could not be read"
                : isOfProxy ? "" : Self.reason(easy?.info(AUTHFLOW_CURL_INFO_VERIFY_RESULT) ?? 0)
            error = failure(
                "No TLS connection to \(isOfProxy ? peer : place) was established, because its certificate could not be verified\(reason)."
            )
        case AUTHFLOW_CURL_CLIENT_CERTIFICATE:
            error = failure(
                "The client certificate for \(place) cannot be used. The certificate and its private key must be in PEM format, and the key must match the certificate and be unencrypted."
            )
        // With TLS 1.3 a server rejects a client certificate after the client has completed the handshake (RFC 8446 section 4.4.2.4).
        case _ where presentsCertificate && !hasResponse && !isAtProxy && Self.rejections.contains(result):
            error = failure(
                "\(place) closed the connection before it responded. It may have rejected the client certificate: is it the registered certificate, was it issued by a CA that the server trusts, and is it still valid?"
            )
        case AUTHFLOW_CURL_CERTIFICATE_REQUIRED:
            error = failure("\(isAtProxy ? peer.capitalizedFirst : place) requires a client certificate.")
        case AUTHFLOW_CURL_TLS_FAILED:
            // Plain HTTP is accepted only for proxies and on loopback, where development servers use it.
            let mayBePlain = isAtProxy || (try? Endpoint(call.url))?.reach == .loopback
            let question = mayBePlain ? ", or does it use plain HTTP (http://)?" : "?"
            error = failure(
                "No TLS connection to \(isAtProxy ? peer : place) could be established. Does it support TLS 1.2 or later\(question)"
            )
        // libcurl reports a response that begins with a folded line as a bad function argument.
        case AUTHFLOW_CURL_WEIRD_REPLY, AUTHFLOW_CURL_UNSUPPORTED_PROTOCOL, AUTHFLOW_CURL_HTTP2_FRAMING,
            AUTHFLOW_CURL_BAD_ARGUMENT:
            error = AuthError(.invalidResponse, "The response to \(call) is not HTTP.")
        case AUTHFLOW_CURL_BAD_ENCODING:
            error = AuthError(.invalidResponse, "The response to \(call) cannot be decompressed.")
        case AUTHFLOW_CURL_TOO_LARGE, AUTHFLOW_CURL_OUT_OF_MEMORY:
            error = AuthError(.invalidResponse, "The response to \(call) is too large.")
        case AUTHFLOW_CURL_URL_MALFORMED:
            error = AuthError(.invalidConfiguration, "\"\(Redaction.url(call.url))\" is not a URL.")
        case AUTHFLOW_CURL_GOT_NOTHING:
            error = failure("\(place) closed the connection without a response. Try again.")
        // libcurl reports success if the connection was closed in the middle of the header fields.
        case AUTHFLOW_CURL_PARTIAL, AUTHFLOW_CURL_OK:
            error = failure("The response from \(place) is incomplete: the connection was closed too early. Try again.")
        case AUTHFLOW_CURL_SEND_ERROR, AUTHFLOW_CURL_RECEIVE_ERROR:
            let route = proxy == nil ? "" : " through \(peer)"
            // With TLS 1.3, a server also rejects a missing client certificate only after the client has completed the handshake.
            let mayRequireCertificate = !hasResponse && call.url.hasPrefix("https:")
            let remark = mayRequireCertificate ? " The server may require a client certificate." : ""
            error = failure("The connection to \(place)\(route) was lost. Try again.\(remark)")
        default:
            error = failure("The request to \(place) failed (libcurl error \(result.rawValue)). Try again.")
        }
    }

    /// The reason why OpenSSL rejected a certificate (x509_vfy.h); empty when the reason adds no information.
    private static func reason(_ code: Int) -> String {
        guard authflow_curl_uses_openssl() else { return "" }
        return switch code {
        // OpenSSL has either accepted the certificate or not checked it yet: libcurl compares the name itself, and does
        // so first.
        case 0, 1, 62, 64: ": it is for a different name"
        case 9, 13: ": it is not valid yet"
        case 10, 14: ": it has expired"
        case 18:
            ": it is self-signed, and not among the certificates that this client's settings trust (\"ca_file\")"
        case 19, 20, 21:
            ": its issuer is not among the authorities trusted by this system or by this client's settings (\"ca_file\")"
        case 23: ": it has been revoked"
        case 66, 67, 68: ": its key, or a key or signature in its certificate chain, is too weak"
        default: ""
        }
    }

    /// The error when libcurl is not available.
    static func unavailable(_ state: authflow_curl_state) -> AuthError {
        switch state {
        case AUTHFLOW_CURL_MISSING:
            AuthError(
                .networkFailed,
                "libcurl is required for network access, but is not installed. Install it (Debian: libcurl4)."
            )
        case AUTHFLOW_CURL_TOO_OLD:
            AuthError(.networkFailed, "The installed libcurl is too old: version 7.80 or later is required.")
        default: AuthError(.networkFailed, "The installed libcurl cannot be used: its initialization failed.")
        }
    }
}

extension String {
    fileprivate var capitalizedFirst: String { prefix(1).uppercased() + dropFirst() }
}
#endif
