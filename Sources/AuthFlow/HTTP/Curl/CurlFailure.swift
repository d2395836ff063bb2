#if os(Linux)
import CCurl
import HTTPTypes

/// An exchange that did not take place, in words of ours: libcurl's own may quote the address with its query.
struct CurlFailure {
    let error: AuthError

    init(
        _ result: authflow_curl_result,
        of call: TransportRequest,
        through proxy: NetworkSettings.ProxyServer?,
        waited: Duration,
        isConnected: Bool,
        easy: CurlEasy?
    ) {
        let place = call.head.authority ?? "the server"
        // A connection that could not be made is the proxy's when there is one: it is the only one that is made.
        let peer = proxy.map { "the proxy \($0.place)" } ?? place
        let connectStatus = easy?.info(AUTHFLOW_CURL_INFO_CONNECT_CODE) ?? 0
        func failure(_ message: String) -> AuthError { AuthError(.networkFailed, message) }
        switch result {
        case AUTHFLOW_CURL_TIMED_OUT:
            error = AuthError(
                .timedOut,
                "\(isConnected ? place : peer) did not answer within \(waited.formattedSeconds)."
            )
        case AUTHFLOW_CURL_NO_HOST_ADDRESS:
            error = failure("The name \(place) is not known here. Is it spelt right, and is there a network?")
        case AUTHFLOW_CURL_NO_PROXY_ADDRESS:
            error = failure("The name of \(peer) is not known here. Is it spelt right?")
        case _ where proxy != nil && [401, 407].contains(connectStatus):
            error = failure("\(peer.capitalizedFirst) wants a user name and a password, or refuses those it was given.")
        case _ where proxy != nil && connectStatus >= 300:
            error = failure("\(peer.capitalizedFirst) refuses to connect to \(place) (status \(connectStatus)).")
        case AUTHFLOW_CURL_NO_CONNECTION:
            error = failure("Nothing answers at \(peer). Is the address right, and is the server up?")
        case AUTHFLOW_CURL_CERTIFICATE_REFUSED, AUTHFLOW_CURL_BAD_CA_FILE:
            let isBadFile = result == AUTHFLOW_CURL_BAD_CA_FILE
            let reason =
                isBadFile
                ? ": the authorities could not be read" : Self.reason(easy?.info(AUTHFLOW_CURL_INFO_VERIFY_RESULT) ?? 0)
            error = failure(
                "No trusted TLS connection to \(place) could be made: its certificate was refused\(reason)."
            )
        case AUTHFLOW_CURL_CLIENT_CERTIFICATE:
            error = failure(
                "The client certificate for \(place) cannot be used. Is it PEM, does the key belong to it, and is the key without a passphrase?"
            )
        case AUTHFLOW_CURL_CERTIFICATE_REQUIRED:
            error = failure("\(place) asks for a client certificate.")
        case AUTHFLOW_CURL_TLS_FAILED:
            error = failure("No TLS connection to \(place) could be made. Does it speak TLS 1.2 or later there?")
        // A bad argument is what it calls a response that begins with a folded line.
        case AUTHFLOW_CURL_WEIRD_REPLY, AUTHFLOW_CURL_UNSUPPORTED_PROTOCOL, AUTHFLOW_CURL_HTTP2_FRAMING,
            AUTHFLOW_CURL_BAD_ARGUMENT:
            error = AuthError(.invalidResponse, "What \(call) answered with is not HTTP.")
        case AUTHFLOW_CURL_BAD_ENCODING:
            error = AuthError(.invalidResponse, "What \(call) answered with cannot be decompressed.")
        case AUTHFLOW_CURL_TOO_LARGE, AUTHFLOW_CURL_OUT_OF_MEMORY:
            error = AuthError(.invalidResponse, "What \(call) answered with is too large.")
        case AUTHFLOW_CURL_URL_MALFORMED:
            error = AuthError(.invalidConfiguration, "\"\(Redaction.url(call.url))\" is not a URL.")
        case AUTHFLOW_CURL_GOT_NOTHING:
            error = failure("\(place) closed the connection without an answer. Try again.")
        default:
            error = failure("The exchange with \(place) broke off (libcurl error \(result.rawValue)). Try again.")
        }
    }

    /// What OpenSSL found wrong with a certificate (x509_vfy.h); empty for what needs no more words.
    private static func reason(_ code: Int) -> String {
        guard authflow_curl_uses_openssl() else { return "" }
        return switch code {
        // OpenSSL has nothing against it, or was not asked yet: libcurl compares the name by itself, and first.
        case 0, 1: ": it is for another name"
        case 9, 13: ": it is not valid yet"
        case 10, 14: ": it has expired"
        case 18: ": it is signed by itself"
        case 19, 20, 21:
            ": its issuer is not among the authorities that this system, or the settings of this client, trust"
        case 23: ": it has been revoked"
        case 62, 64: ": it is for another name"
        case 66, 67, 68: ": its key or its signature is too weak"
        default: ""
        }
    }

    /// Why there is no libcurl to ask.
    static func unavailable(_ state: authflow_curl_state) -> AuthError {
        switch state {
        case AUTHFLOW_CURL_MISSING:
            AuthError(
                .networkFailed,
                "libcurl is not installed, and there is no other way to the network here. Install it (Debian: libcurl4)."
            )
        case AUTHFLOW_CURL_TOO_OLD:
            AuthError(.networkFailed, "The libcurl of this system is older than 7.80, and too old.")
        default: AuthError(.networkFailed, "The libcurl of this system cannot be used: it does not begin to work.")
        }
    }
}

extension String {
    fileprivate var capitalizedFirst: String { prefix(1).uppercased() + dropFirst() }
}
#endif
