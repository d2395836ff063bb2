#include "CSQLite.h"

#if defined(__linux__) || defined(__APPLE__)

#include <dlfcn.h>
#include <pthread.h>

enum {
    OPEN_READ_WRITE = 0x2,
    // Only one thread at a time uses a database.
    OPEN_NO_MUTEX = 0x8000,
    // A symbolic link instead of the file could lead anywhere.
    OPEN_NO_FOLLOW = 0x01000000,
    PREPARE_PERSISTENT = 1,
    CONFIGURE_TRIGGERS = 1003,
    CONFIGURE_DEFENSIVE = 1010,
    CONFIGURE_VIEWS = 1015,
    CONFIGURE_TRUSTED_SCHEMA = 1017,
};

static struct {
    int (*version)(void);
    int (*open)(const char *, authflow_sqlite_database **, int, const char *);
    int (*close)(authflow_sqlite_database *);
    int (*busy_timeout)(authflow_sqlite_database *, int);
    int (*extended_codes)(authflow_sqlite_database *, int);
    int (*configure)(authflow_sqlite_database *, int, ...);
    int (*autocommit)(authflow_sqlite_database *);
    const char *(*error)(authflow_sqlite_database *);
    int (*prepare)(authflow_sqlite_database *, const char *, int, unsigned int, authflow_sqlite_statement **, const char **);
    int (*finalize)(authflow_sqlite_statement *);
    int (*bind_integer)(authflow_sqlite_statement *, int, int64_t);
    int (*bind_bytes)(authflow_sqlite_statement *, int, const void *, uint64_t, void (*)(void *));
    int (*bind_null)(authflow_sqlite_statement *, int);
    int (*step)(authflow_sqlite_statement *);
    int (*reset)(authflow_sqlite_statement *);
    int (*clear_bindings)(authflow_sqlite_statement *);
    int (*column_count)(authflow_sqlite_statement *);
    int (*column_type)(authflow_sqlite_statement *, int);
    int64_t (*column_integer)(authflow_sqlite_statement *, int);
    const void *(*column_bytes)(authflow_sqlite_statement *, int);
    int (*column_length)(authflow_sqlite_statement *, int);
} sqlite;

static int version;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void open_library(void) {
#if defined(__APPLE__)
    static const char *const name = "/usr/lib/libsqlite3.dylib";
#else
    static const char *const name = "libsqlite3.so.0";
#endif
    void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) return;
    struct {
        const char *name;
        void *place;
    } functions[] = {
        {"sqlite3_libversion_number", &sqlite.version},
        {"sqlite3_open_v2", &sqlite.open},
        {"sqlite3_close_v2", &sqlite.close},
        {"sqlite3_busy_timeout", &sqlite.busy_timeout},
        {"sqlite3_extended_result_codes", &sqlite.extended_codes},
        {"sqlite3_db_config", &sqlite.configure},
        {"sqlite3_get_autocommit", &sqlite.autocommit},
        {"sqlite3_errmsg", &sqlite.error},
        {"sqlite3_prepare_v3", &sqlite.prepare},
        {"sqlite3_finalize", &sqlite.finalize},
        {"sqlite3_bind_int64", &sqlite.bind_integer},
        {"sqlite3_bind_blob64", &sqlite.bind_bytes},
        {"sqlite3_bind_null", &sqlite.bind_null},
        {"sqlite3_step", &sqlite.step},
        {"sqlite3_reset", &sqlite.reset},
        {"sqlite3_clear_bindings", &sqlite.clear_bindings},
        {"sqlite3_column_count", &sqlite.column_count},
        {"sqlite3_column_type", &sqlite.column_type},
        {"sqlite3_column_int64", &sqlite.column_integer},
        {"sqlite3_column_blob", &sqlite.column_bytes},
        {"sqlite3_column_bytes", &sqlite.column_length},
    };
    for (size_t index = 0; index < sizeof functions / sizeof *functions; index++) {
        void *address = dlsym(library, functions[index].name);
        if (address == NULL) return;
        *(void **)functions[index].place = address;
    }
    version = sqlite.version();
}

int authflow_sqlite_version(void) {
    pthread_once(&once, open_library);
    return version;
}

int authflow_sqlite_open(const char *path, authflow_sqlite_database **database) {
    int result = sqlite.open(path, database, OPEN_READ_WRITE | OPEN_NO_MUTEX | OPEN_NO_FOLLOW, NULL);
    if (result != AUTHFLOW_SQLITE_OK) return result;
    sqlite.extended_codes(*database, 1);
    // Code that another program has stored in the file is not run: triggers, views, and functions in the schema.
    static const struct { int option, value; } safe[] = {
        {CONFIGURE_TRIGGERS, 0}, {CONFIGURE_VIEWS, 0}, {CONFIGURE_TRUSTED_SCHEMA, 0}, {CONFIGURE_DEFENSIVE, 1},
    };
    for (size_t index = 0; index < sizeof safe / sizeof *safe && result == AUTHFLOW_SQLITE_OK; index++) {
        result = sqlite.configure(*database, safe[index].option, safe[index].value, (int *)NULL);
    }
    return result;
}
void authflow_sqlite_close(authflow_sqlite_database *database) { sqlite.close(database); }
void authflow_sqlite_set_busy_timeout(authflow_sqlite_database *database, int milliseconds) { sqlite.busy_timeout(database, milliseconds); }
bool authflow_sqlite_is_in_transaction(authflow_sqlite_database *database) { return sqlite.autocommit(database) == 0; }
const char *authflow_sqlite_error(authflow_sqlite_database *database) { return sqlite.error(database); }

int authflow_sqlite_prepare(authflow_sqlite_database *database, const char *text, authflow_sqlite_statement **statement) {
    return sqlite.prepare(database, text, -1, PREPARE_PERSISTENT, statement, NULL);
}
void authflow_sqlite_finalize(authflow_sqlite_statement *statement) { sqlite.finalize(statement); }
int authflow_sqlite_bind_integer(authflow_sqlite_statement *statement, int index, int64_t value) {
    return sqlite.bind_integer(statement, index, value);
}
int authflow_sqlite_bind_bytes(authflow_sqlite_statement *statement, int index, const void *bytes, size_t length) {
    return sqlite.bind_bytes(statement, index, bytes, length, (void (*)(void *))-1);
}
int authflow_sqlite_bind_null(authflow_sqlite_statement *statement, int index) { return sqlite.bind_null(statement, index); }
int authflow_sqlite_step(authflow_sqlite_statement *statement) { return sqlite.step(statement); }
void authflow_sqlite_reset(authflow_sqlite_statement *statement) {
    sqlite.reset(statement);
    sqlite.clear_bindings(statement);
}

int authflow_sqlite_column_count(authflow_sqlite_statement *statement) { return sqlite.column_count(statement); }
int authflow_sqlite_column_type(authflow_sqlite_statement *statement, int column) { return sqlite.column_type(statement, column); }
int64_t authflow_sqlite_column_integer(authflow_sqlite_statement *statement, int column) {
    return sqlite.column_integer(statement, column);
}
const void *authflow_sqlite_column_bytes(authflow_sqlite_statement *statement, int column, size_t *length) {
    // In this order, because requesting the length first may convert the value.
    const void *bytes = sqlite.column_bytes(statement, column);
    *length = (size_t)sqlite.column_length(statement, column);
    return bytes;
}

#endif
