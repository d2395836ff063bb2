#include "CPostgreSQL.h"

#if defined(__linux__) || defined(__APPLE__)

#include <dlfcn.h>
#include <pthread.h>
#include <stddef.h>

typedef struct {
    char *keyword, *environment, *compiled, *value, *label, *display;
    int size;
} conninfo_option;

typedef struct {
    char *name;
    int process;
    char *payload;
} notification;

enum { CONNECTION_OK = 0, COMMAND_OK = 1, TUPLES_OK = 2, FIELD_STATE = 'C', FIELD_MESSAGE = 'M', BINARY = 1 };

static struct {
    conninfo_option *(*conninfo_parse)(const char *, char **);
    void (*conninfo_free)(conninfo_option *);
    authflow_pq_connection *(*connect)(const char *const *, const char *const *, int);
    int (*status)(const authflow_pq_connection *);
    char *(*error_message)(const authflow_pq_connection *);
    int (*socket)(const authflow_pq_connection *);
    void (*finish)(authflow_pq_connection *);
    authflow_pq_result *(*exec)(authflow_pq_connection *, const char *);
    authflow_pq_result *(*execute)(authflow_pq_connection *, const char *, int, const unsigned int *, const char *const *, const int *, const int *, int);
    int (*consume)(authflow_pq_connection *);
    notification *(*notifies)(authflow_pq_connection *);
    void (*freemem)(void *);
    int (*result_status)(const authflow_pq_result *);
    char *(*error_field)(const authflow_pq_result *, int);
    int (*ntuples)(const authflow_pq_result *);
    int (*nfields)(const authflow_pq_result *);
    char *(*getvalue)(const authflow_pq_result *, int, int);
    int (*getlength)(const authflow_pq_result *, int, int);
    int (*getisnull)(const authflow_pq_result *, int, int);
    void (*clear)(authflow_pq_result *);
    void *(*set_notice_processor)(authflow_pq_connection *, void (*)(void *, const char *), void *);
} pq;

static bool is_open;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void open_library(void) {
#if defined(__APPLE__)
    static const char *const names[] = {"libpq.5.dylib", "/opt/homebrew/opt/libpq/lib/libpq.5.dylib", "/usr/local/opt/libpq/lib/libpq.5.dylib"};
#else
    static const char *const names[] = {"libpq.so.5"};
#endif
    void *library = NULL;
    for (size_t index = 0; index < sizeof names / sizeof *names && library == NULL; index++) {
        library = dlopen(names[index], RTLD_NOW | RTLD_LOCAL);
    }
    if (library == NULL) return;
    struct {
        const char *name;
        void *place;
    } functions[] = {
        {"PQconninfoParse", &pq.conninfo_parse},
        {"PQconninfoFree", &pq.conninfo_free},
        {"PQconnectdbParams", &pq.connect},
        {"PQstatus", &pq.status},
        {"PQerrorMessage", &pq.error_message},
        {"PQsocket", &pq.socket},
        {"PQfinish", &pq.finish},
        {"PQexec", &pq.exec},
        {"PQexecParams", &pq.execute},
        {"PQconsumeInput", &pq.consume},
        {"PQnotifies", &pq.notifies},
        {"PQfreemem", &pq.freemem},
        {"PQresultStatus", &pq.result_status},
        {"PQresultErrorField", &pq.error_field},
        {"PQntuples", &pq.ntuples},
        {"PQnfields", &pq.nfields},
        {"PQgetvalue", &pq.getvalue},
        {"PQgetlength", &pq.getlength},
        {"PQgetisnull", &pq.getisnull},
        {"PQclear", &pq.clear},
        {"PQsetNoticeProcessor", &pq.set_notice_processor},
    };
    for (size_t index = 0; index < sizeof functions / sizeof *functions; index++) {
        void *address = dlsym(library, functions[index].name);
        if (address == NULL) return;
        *(void **)functions[index].place = address;
    }
    is_open = true;
}

bool authflow_pq_open(void) {
    pthread_once(&once, open_library);
    return is_open;
}

bool authflow_pq_parse(const char *text, void *context, void (*receive)(void *, const char *, const char *)) {
    // The message is discarded, because it quotes a part of the text, which may be the password.
    char *message = NULL;
    conninfo_option *options = pq.conninfo_parse(text, &message);
    if (message != NULL) pq.freemem(message);
    if (options == NULL) return false;
    for (conninfo_option *option = options; option->keyword != NULL; option++) {
        if (option->value != NULL) receive(context, option->keyword, option->value);
    }
    pq.conninfo_free(options);
    return true;
}

// Without a notice processor, libpq prints notices to standard error.
static void ignore_notice(void *context, const char *message) {
    (void)context;
    (void)message;
}

authflow_pq_connection *authflow_pq_connect(const char *const *keywords, const char *const *values) {
    authflow_pq_connection *connection = pq.connect(keywords, values, 0);
    if (connection != NULL) pq.set_notice_processor(connection, ignore_notice, NULL);
    return connection;
}
bool authflow_pq_is_connected(authflow_pq_connection *connection) { return pq.status(connection) == CONNECTION_OK; }
const char *authflow_pq_error(authflow_pq_connection *connection) { return pq.error_message(connection); }
int authflow_pq_descriptor(authflow_pq_connection *connection) { return pq.socket(connection); }
void authflow_pq_close(authflow_pq_connection *connection) { pq.finish(connection); }

authflow_pq_result *authflow_pq_run(authflow_pq_connection *connection, const char *statements) {
    return pq.exec(connection, statements);
}

authflow_pq_result *authflow_pq_execute(authflow_pq_connection *connection, const char *statement, int count,
                                        const uint8_t *const *values, const int *lengths) {
    enum { MOST = 16 };
    static const int formats[MOST] = {
        BINARY, BINARY, BINARY, BINARY, BINARY, BINARY, BINARY, BINARY, BINARY, BINARY, BINARY, BINARY, BINARY, BINARY, BINARY, BINARY,
    };
    if (count > MOST) return NULL;
    return pq.execute(connection, statement, count, NULL, (const char *const *)values, lengths, formats, BINARY);
}

bool authflow_pq_read(authflow_pq_connection *connection) { return pq.consume(connection) == 1; }

char *authflow_pq_notification(authflow_pq_connection *connection, void **whole) {
    notification *next = pq.notifies(connection);
    *whole = next;
    return next == NULL ? NULL : next->payload;
}
void authflow_pq_free(void *memory) { pq.freemem(memory); }

bool authflow_pq_succeeded(authflow_pq_result *result) {
    int status = pq.result_status(result);
    return status == COMMAND_OK || status == TUPLES_OK;
}
const char *authflow_pq_state(authflow_pq_result *result) { return pq.error_field(result, FIELD_STATE); }
const char *authflow_pq_message(authflow_pq_result *result) { return pq.error_field(result, FIELD_MESSAGE); }
int authflow_pq_rows(authflow_pq_result *result) { return pq.ntuples(result); }
int authflow_pq_columns(authflow_pq_result *result) { return pq.nfields(result); }

const uint8_t *authflow_pq_field(authflow_pq_result *result, int row, int column, int *length) {
    if (pq.getisnull(result, row, column)) return NULL;
    *length = pq.getlength(result, row, column);
    return (const uint8_t *)pq.getvalue(result, row, column);
}

void authflow_pq_clear(authflow_pq_result *result) { pq.clear(result); }

#endif
