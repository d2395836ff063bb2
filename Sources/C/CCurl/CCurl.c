#include "CCurl.h"

#if defined(__linux__)

#include <arpa/inet.h>
#include <dlfcn.h>
#include <netinet/in.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>

// libcurl's types, as its manual pages declare them.
typedef struct {
    int message;
    authflow_curl_easy *easy;
    union {
        void *whatever;
        authflow_curl_result result;
    } data;
} ended_transfer;

// A line of a list (struct curl_slist), and the certificates of a chain (struct curl_certinfo).
typedef struct line {
    char *text;
    struct line *next;
} line;
typedef struct {
    int count;
    line **certificates;
} certificate_chain;
// An address to connect to (struct curl_sockaddr).
struct authflow_curl_peer {
    int family;
    int type;
    int protocol;
    unsigned int length;
    struct sockaddr address;
};

enum { GLOBAL_DEFAULT = 3, TRANSFER_ENDED = 1, OPTION_TYPE = 10000 };
enum { OPTION_WRITE = 20011, OPTION_READ = 20012, OPTION_HEADER = 20079, OPTION_BEFORE_REQUEST = 20312, OPTION_OPEN_SOCKET = 20163, OPTION_OPEN_SOCKET_DATA = 10164 };
enum { INFO_CERTIFICATES = 0x400022 };

static struct {
    int (*global_init)(long);
    authflow_curl_easy *(*easy_init)(void);
    void (*easy_cleanup)(authflow_curl_easy *);
    authflow_curl_result (*easy_setopt)(authflow_curl_easy *, int, ...);
    int (*easy_getinfo)(authflow_curl_easy *, int, ...);
    int (*easy_pause)(authflow_curl_easy *, int);
    authflow_curl_list *(*slist_append)(authflow_curl_list *, const char *);
    void (*slist_free_all)(authflow_curl_list *);
    authflow_curl_multi *(*multi_init)(void);
    int (*multi_cleanup)(authflow_curl_multi *);
    int (*multi_setopt)(authflow_curl_multi *, int, ...);
    int (*multi_add_handle)(authflow_curl_multi *, authflow_curl_easy *);
    int (*multi_remove_handle)(authflow_curl_multi *, authflow_curl_easy *);
    int (*multi_perform)(authflow_curl_multi *, int *);
    int (*multi_poll)(authflow_curl_multi *, void *, unsigned int, int, int *);
    int (*multi_wakeup)(authflow_curl_multi *);
    ended_transfer *(*multi_info_read)(authflow_curl_multi *, int *);
} curl;

static authflow_curl_state state;
static bool uses_openssl;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void open_library(void) {
    // Debian builds libcurl with OpenSSL and with GnuTLS; the interface is the same.
    static const char *const names[] = {"libcurl.so.4", "libcurl-gnutls.so.4"};
    void *library = NULL;
    for (size_t index = 0; index < sizeof names / sizeof *names && library == NULL; index++) {
        library = dlopen(names[index], RTLD_NOW | RTLD_LOCAL);
        uses_openssl = index == 0;
    }
    if (library == NULL) {
        state = AUTHFLOW_CURL_MISSING;
        return;
    }
    struct {
        const char *name;
        void *place;
    } functions[] = {
        {"curl_global_init", &curl.global_init},
        {"curl_easy_init", &curl.easy_init},
        {"curl_easy_cleanup", &curl.easy_cleanup},
        {"curl_easy_setopt", &curl.easy_setopt},
        {"curl_easy_getinfo", &curl.easy_getinfo},
        {"curl_easy_pause", &curl.easy_pause},
        {"curl_slist_append", &curl.slist_append},
        {"curl_slist_free_all", &curl.slist_free_all},
        {"curl_multi_init", &curl.multi_init},
        {"curl_multi_cleanup", &curl.multi_cleanup},
        {"curl_multi_setopt", &curl.multi_setopt},
        {"curl_multi_add_handle", &curl.multi_add_handle},
        {"curl_multi_remove_handle", &curl.multi_remove_handle},
        {"curl_multi_perform", &curl.multi_perform},
        {"curl_multi_poll", &curl.multi_poll},
        {"curl_multi_wakeup", &curl.multi_wakeup},
        {"curl_multi_info_read", &curl.multi_info_read},
    };
    state = AUTHFLOW_CURL_TOO_OLD;
    for (size_t index = 0; index < sizeof functions / sizeof *functions; index++) {
        void *address = dlsym(library, functions[index].name);
        if (address == NULL) return;
        *(void **)functions[index].place = address;
    }
    state = AUTHFLOW_CURL_UNUSABLE;
    if (curl.global_init(GLOBAL_DEFAULT) != 0) return;
    // CURLOPT_PREREQFUNCTION was added in 7.80, and is the newest required feature.
    authflow_curl_easy *easy = curl.easy_init();
    if (easy == NULL) return;
    int has_option = curl.easy_setopt(easy, OPTION_BEFORE_REQUEST, (authflow_curl_before_request)NULL) == 0;
    curl.easy_cleanup(easy);
    state = has_option ? AUTHFLOW_CURL_READY : AUTHFLOW_CURL_TOO_OLD;
}

authflow_curl_state authflow_curl_open(void) {
    pthread_once(&once, open_library);
    return state;
}

bool authflow_curl_uses_openssl(void) { return uses_openssl; }

authflow_curl_easy *authflow_curl_easy_new(void) { return curl.easy_init(); }
void authflow_curl_easy_free(authflow_curl_easy *easy) { curl.easy_cleanup(easy); }

authflow_curl_result authflow_curl_resume(authflow_curl_easy *easy) { return curl.easy_pause(easy, 0); }

authflow_curl_result authflow_curl_set_number(authflow_curl_easy *easy, authflow_curl_option option, int64_t value) {
    // Sizes have 64 bits on every system; all other numbers are of type long.
    return (int)option >= 3 * OPTION_TYPE ? curl.easy_setopt(easy, option, value) : curl.easy_setopt(easy, option, (long)value);
}

authflow_curl_result authflow_curl_set_text(authflow_curl_easy *easy, authflow_curl_option option, const char *value) {
    return curl.easy_setopt(easy, option, value);
}

authflow_curl_result authflow_curl_set_pointer(authflow_curl_easy *easy, authflow_curl_option option, void *value) {
    return curl.easy_setopt(easy, option, value);
}

authflow_curl_result authflow_curl_set_list(authflow_curl_easy *easy, authflow_curl_option option, authflow_curl_list *value) {
    return curl.easy_setopt(easy, option, value);
}

authflow_curl_result authflow_curl_set_receivers(authflow_curl_easy *easy, authflow_curl_receive header, authflow_curl_receive body,
                                authflow_curl_before_request before_request, void *context) {
    authflow_curl_result result = curl.easy_setopt(easy, OPTION_HEADER, header);
    if (result == 0) result = curl.easy_setopt(easy, OPTION_WRITE, body);
    if (result == 0) result = curl.easy_setopt(easy, OPTION_BEFORE_REQUEST, before_request);
    if (result == 0) result = curl.easy_setopt(easy, AUTHFLOW_CURL_HEADER_DATA, context);
    if (result == 0) result = curl.easy_setopt(easy, AUTHFLOW_CURL_WRITE_DATA, context);
    if (result == 0) result = curl.easy_setopt(easy, AUTHFLOW_CURL_BEFORE_REQUEST_DATA, context);
    return result;
}

authflow_curl_result authflow_curl_set_sender(authflow_curl_easy *easy, authflow_curl_receive send, void *context) {
    authflow_curl_result result = curl.easy_setopt(easy, AUTHFLOW_CURL_READ_DATA, context);
    return result == 0 ? curl.easy_setopt(easy, OPTION_READ, send) : result;
}

bool authflow_curl_peer_address(const authflow_curl_peer *peer, char *text) {
    const void *number = NULL;
    if (peer->family == AF_INET) number = &((const struct sockaddr_in *)&peer->address)->sin_addr;
    if (peer->family == AF_INET6) number = &((const struct sockaddr_in6 *)&peer->address)->sin6_addr;
    return number != NULL && inet_ntop(peer->family, number, text, AUTHFLOW_CURL_ADDRESS_SIZE) != NULL;
}

int authflow_curl_peer_open(const authflow_curl_peer *peer) {
    return socket(peer->family, peer->type | SOCK_CLOEXEC, peer->protocol);
}

authflow_curl_result authflow_curl_set_open_socket(authflow_curl_easy *easy, authflow_curl_open_socket open_socket, void *context) {
    authflow_curl_result result = curl.easy_setopt(easy, OPTION_OPEN_SOCKET_DATA, context);
    return result == 0 ? curl.easy_setopt(easy, OPTION_OPEN_SOCKET, open_socket) : result;
}

const char *authflow_curl_certificate(authflow_curl_easy *easy) {
    certificate_chain *chain = NULL;
    if (curl.easy_getinfo(easy, INFO_CERTIFICATES, &chain) != 0 || chain == NULL || chain->count < 1) return NULL;
    for (const line *field = chain->certificates[0]; field != NULL; field = field->next) {
        if (strncmp(field->text, "Cert:", 5) == 0) return field->text + 5;
    }
    return NULL;
}

int64_t authflow_curl_info(authflow_curl_easy *easy, authflow_curl_information information) {
    long value = 0;
    return curl.easy_getinfo(easy, information, &value) == 0 ? value : 0;
}

authflow_curl_list *authflow_curl_list_append(authflow_curl_list *list, const char *line) {
    return curl.slist_append(list, line);
}
void authflow_curl_list_free(authflow_curl_list *list) { curl.slist_free_all(list); }

authflow_curl_multi *authflow_curl_multi_new(void) { return curl.multi_init(); }
void authflow_curl_multi_free(authflow_curl_multi *multi) { curl.multi_cleanup(multi); }
int authflow_curl_multi_set(authflow_curl_multi *multi, authflow_curl_multi_option option, int64_t value) {
    return curl.multi_setopt(multi, option, (long)value);
}
int authflow_curl_multi_add(authflow_curl_multi *multi, authflow_curl_easy *easy) {
    return curl.multi_add_handle(multi, easy);
}
int authflow_curl_multi_remove(authflow_curl_multi *multi, authflow_curl_easy *easy) {
    return curl.multi_remove_handle(multi, easy);
}

int authflow_curl_multi_perform(authflow_curl_multi *multi) {
    int running = 0;
    return curl.multi_perform(multi, &running);
}

int authflow_curl_multi_wait(authflow_curl_multi *multi, int milliseconds) {
    return curl.multi_poll(multi, NULL, 0, milliseconds, NULL);
}

int authflow_curl_multi_wake_up(authflow_curl_multi *multi) { return curl.multi_wakeup(multi); }

authflow_curl_easy *authflow_curl_multi_next_ended(authflow_curl_multi *multi, authflow_curl_result *result) {
    int left = 0;
    ended_transfer *ended;
    while ((ended = curl.multi_info_read(multi, &left)) != NULL) {
        if (ended->message != TRANSFER_ENDED) continue;
        *result = ended->data.result;
        return ended->easy;
    }
    return NULL;
}

#endif
