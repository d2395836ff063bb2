#ifndef AUTHFLOW_CCURL_H
#define AUTHFLOW_CCURL_H

// The part of libcurl's interface that AuthFlow uses, written from its manual pages. The library is opened when the first
// request is made, so a program without requests neither needs the library nor waits for it to load.

#if defined(__linux__)

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#pragma clang assume_nonnull begin

typedef struct authflow_curl_easy authflow_curl_easy;
typedef struct authflow_curl_multi authflow_curl_multi;
typedef struct authflow_curl_list authflow_curl_list;

/// The result of opening the library.
typedef enum {
    AUTHFLOW_CURL_READY = 0,
    AUTHFLOW_CURL_MISSING = 1,
    AUTHFLOW_CURL_TOO_OLD = 2,
    AUTHFLOW_CURL_UNUSABLE = 3,
} authflow_curl_state;

/// Opens the library on the first call. Thread-safe.
authflow_curl_state authflow_curl_open(void);

/// Whether the library uses OpenSSL for TLS, whose certificate error codes are known here.
bool authflow_curl_uses_openssl(void);

/// Options of a transfer (curl_easy_setopt(3)). The last digits identify the option, the first its type.
typedef enum {
    AUTHFLOW_CURL_WRITE_DATA = 10001,
    AUTHFLOW_CURL_READ_DATA = 10009,
    AUTHFLOW_CURL_URL = 10002,
    AUTHFLOW_CURL_PROXY = 10004,
    AUTHFLOW_CURL_HTTP_HEADER = 10023,
    AUTHFLOW_CURL_SSL_CERT = 10025,
    AUTHFLOW_CURL_KEY_PASSWORD = 10026,
    AUTHFLOW_CURL_HEADER_DATA = 10029,
    AUTHFLOW_CURL_CUSTOM_REQUEST = 10036,
    AUTHFLOW_CURL_CA_INFO = 10065,
    AUTHFLOW_CURL_SSL_KEY = 10087,
    AUTHFLOW_CURL_CA_PATH = 10097,
    AUTHFLOW_CURL_ACCEPT_ENCODING = 10102,
    AUTHFLOW_CURL_PRIVATE = 10103,
    AUTHFLOW_CURL_COPY_POST_FIELDS = 10165,
    AUTHFLOW_CURL_PROXY_USERNAME = 10175,
    AUTHFLOW_CURL_PROXY_PASSWORD = 10176,
    AUTHFLOW_CURL_NO_PROXY = 10177,
    AUTHFLOW_CURL_RESOLVE = 10203,
    AUTHFLOW_CURL_PROXY_CA_INFO = 10246,
    AUTHFLOW_CURL_BEFORE_REQUEST_DATA = 10313,
    AUTHFLOW_CURL_SSL_VERSION = 32,
    AUTHFLOW_CURL_NO_BODY = 44,
    AUTHFLOW_CURL_UPLOAD = 46,
    AUTHFLOW_CURL_HTTP_PROXY_TUNNEL = 61,
    AUTHFLOW_CURL_SSL_VERIFY_PEER = 64,
    AUTHFLOW_CURL_FRESH_CONNECT = 74,
    AUTHFLOW_CURL_FORBID_REUSE = 75,
    AUTHFLOW_CURL_PROXY_SSL_VERSION = 250,
    AUTHFLOW_CURL_SSL_VERIFY_HOST = 81,
    AUTHFLOW_CURL_CERT_INFO = 172,
    AUTHFLOW_CURL_HTTP_VERSION = 84,
    AUTHFLOW_CURL_NO_SIGNAL = 99,
    AUTHFLOW_CURL_TCP_KEEPALIVE = 213,
    AUTHFLOW_CURL_CONNECT_TIMEOUT_MS = 156,
    AUTHFLOW_CURL_PROTOCOLS = 181,
    AUTHFLOW_CURL_PATH_AS_IS = 234,
    AUTHFLOW_CURL_SUPPRESS_CONNECT_HEADERS = 265,
    AUTHFLOW_CURL_NO_USERNAME_IN_URL = 278,
    AUTHFLOW_CURL_MAX_IDLE_TIME = 288,
    AUTHFLOW_CURL_QUICK_EXIT = 322,
    AUTHFLOW_CURL_UPLOAD_SIZE = 30115,
    AUTHFLOW_CURL_POST_FIELD_SIZE = 30120,
} authflow_curl_option;

/// Options of a multi handle (curl_multi_setopt(3)).
typedef enum {
    AUTHFLOW_CURL_MAX_CONNECTS = 6,
} authflow_curl_multi_option;

/// Information about a transfer (curl_easy_getinfo(3)).
typedef enum {
    AUTHFLOW_CURL_INFO_REQUEST_SIZE = 0x20000C,
    AUTHFLOW_CURL_INFO_VERIFY_RESULT = 0x20000D,
    AUTHFLOW_CURL_INFO_CONNECT_CODE = 0x200016,
    AUTHFLOW_CURL_INFO_NUM_CONNECTS = 0x20001A,
} authflow_curl_information;

/// The result of a transfer (libcurl-errors(3)).
typedef enum {
    AUTHFLOW_CURL_OK = 0,
    AUTHFLOW_CURL_UNSUPPORTED_PROTOCOL = 1,
    AUTHFLOW_CURL_URL_MALFORMED = 3,
    AUTHFLOW_CURL_NO_PROXY_ADDRESS = 5,
    AUTHFLOW_CURL_NO_HOST_ADDRESS = 6,
    AUTHFLOW_CURL_NO_CONNECTION = 7,
    AUTHFLOW_CURL_WEIRD_REPLY = 8,
    AUTHFLOW_CURL_HTTP2_FRAMING = 16,
    AUTHFLOW_CURL_PARTIAL = 18,
    AUTHFLOW_CURL_WRITE_ERROR = 23,
    AUTHFLOW_CURL_OUT_OF_MEMORY = 27,
    AUTHFLOW_CURL_TIMED_OUT = 28,
    AUTHFLOW_CURL_TLS_FAILED = 35,
    AUTHFLOW_CURL_ABORTED_BY_CALLBACK = 42,
    AUTHFLOW_CURL_BAD_ARGUMENT = 43,
    AUTHFLOW_CURL_GOT_NOTHING = 52,
    AUTHFLOW_CURL_SEND_ERROR = 55,
    AUTHFLOW_CURL_RECEIVE_ERROR = 56,
    AUTHFLOW_CURL_CLIENT_CERTIFICATE = 58,
    AUTHFLOW_CURL_CERTIFICATE_REFUSED = 60,
    AUTHFLOW_CURL_BAD_ENCODING = 61,
    AUTHFLOW_CURL_BAD_CA_FILE = 77,
    AUTHFLOW_CURL_PROXY_FAILED = 97,
    AUTHFLOW_CURL_CERTIFICATE_REQUIRED = 98,
    AUTHFLOW_CURL_TOO_LARGE = 100,
} authflow_curl_result;

/// Receives bytes; returning a smaller number than was passed aborts the transfer.
typedef size_t (*authflow_curl_receive)(char *bytes, size_t size, size_t count, void *_Nullable context);
/// Returned by a receiver of the body: the same bytes are delivered again after authflow_curl_resume.
enum { AUTHFLOW_CURL_PAUSE = 0x10000001 };
/// Returned by a sender of the body, which otherwise returns the number of bytes that it has written: 0 at the end of the body.
enum {
    /// The sender is called again after authflow_curl_resume.
    AUTHFLOW_CURL_PAUSE_SENDING = 0x10000001,
    /// The transfer is aborted.
    AUTHFLOW_CURL_ABORT_SENDING = 0x10000000
};

/// Called after connecting and before a request is sent; returning any value except 0 aborts the transfer.
typedef int (*authflow_curl_before_request)(void *_Nullable context, char *_Nullable remote_address,
                                            char *_Nullable local_address, int remote_port, int local_port);

/// An address that is about to be connected to.
typedef struct authflow_curl_peer authflow_curl_peer;
/// The numeric address; false when it is not an IP address. `text` has room for AUTHFLOW_CURL_ADDRESS_SIZE characters.
bool authflow_curl_peer_address(const authflow_curl_peer *peer, char *text);
enum { AUTHFLOW_CURL_ADDRESS_SIZE = 46 };
/// Opens a socket for the address.
int authflow_curl_peer_open(const authflow_curl_peer *peer);
/// Opens a socket; returning -1 rejects the address.
typedef int (*authflow_curl_open_socket)(void *_Nullable context, int purpose, authflow_curl_peer *peer);

authflow_curl_easy *_Nullable authflow_curl_easy_new(void);
void authflow_curl_easy_free(authflow_curl_easy *easy);
/// Resumes a transfer that its receiver has paused. The receiver may be called before this function returns.
authflow_curl_result authflow_curl_resume(authflow_curl_easy *easy);
/// These functions return 0, or an error code.
authflow_curl_result authflow_curl_set_number(authflow_curl_easy *easy, authflow_curl_option option, int64_t value);
authflow_curl_result authflow_curl_set_text(authflow_curl_easy *easy, authflow_curl_option option, const char *_Nullable value);
authflow_curl_result authflow_curl_set_pointer(authflow_curl_easy *easy, authflow_curl_option option, void *_Nullable value);
authflow_curl_result authflow_curl_set_list(authflow_curl_easy *easy, authflow_curl_option option, authflow_curl_list *_Nullable value);
authflow_curl_result authflow_curl_set_receivers(authflow_curl_easy *easy, authflow_curl_receive header, authflow_curl_receive body,
                                authflow_curl_before_request before_request, void *context);
/// Sets the function that writes the bytes of the request body, up to the size of the buffer. The context must outlive the transfer.
authflow_curl_result authflow_curl_set_sender(authflow_curl_easy *easy, authflow_curl_receive send, void *context);
/// Sets the function that opens sockets. The context must outlive the transfer.
authflow_curl_result authflow_curl_set_open_socket(authflow_curl_easy *easy, authflow_curl_open_socket open_socket, void *context);
int64_t authflow_curl_info(authflow_curl_easy *easy, authflow_curl_information information);
/// The server's certificate in PEM, if the transfer opened a connection with AUTHFLOW_CURL_CERT_INFO; otherwise null. Valid until the
/// handle is used again.
const char *_Nullable authflow_curl_certificate(authflow_curl_easy *easy);

/// Appends a copy of a line; null if memory runs out, in which case the list is unchanged.
authflow_curl_list *_Nullable authflow_curl_list_append(authflow_curl_list *_Nullable list, const char *line);
void authflow_curl_list_free(authflow_curl_list *_Nullable list);

authflow_curl_multi *_Nullable authflow_curl_multi_new(void);
void authflow_curl_multi_free(authflow_curl_multi *multi);
int authflow_curl_multi_set(authflow_curl_multi *multi, authflow_curl_multi_option option, int64_t value);
int authflow_curl_multi_add(authflow_curl_multi *multi, authflow_curl_easy *easy);
int authflow_curl_multi_remove(authflow_curl_multi *multi, authflow_curl_easy *easy);
/// Performs the work that is possible without blocking.
int authflow_curl_multi_perform(authflow_curl_multi *multi);
/// Waits until there is work to perform, the wait is interrupted, or the timeout expires.
int authflow_curl_multi_wait(authflow_curl_multi *multi, int milliseconds);
/// Interrupts the wait. This is the only one of these functions that another thread may call.
int authflow_curl_multi_wake_up(authflow_curl_multi *multi);
/// Returns one transfer that has ended; null when there is none.
authflow_curl_easy *_Nullable authflow_curl_multi_next_ended(authflow_curl_multi *multi, authflow_curl_result *result);

#pragma clang assume_nonnull end

#endif
#endif
