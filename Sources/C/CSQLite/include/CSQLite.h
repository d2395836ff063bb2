#ifndef AUTHFLOW_CSQLITE_H
#define AUTHFLOW_CSQLITE_H

// The part of SQLite's interface that AuthFlow uses. The library is opened together with the first database.

#if defined(__linux__) || defined(__APPLE__)

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#pragma clang assume_nonnull begin

typedef struct authflow_sqlite_database authflow_sqlite_database;
typedef struct authflow_sqlite_statement authflow_sqlite_statement;

// The primary result codes, which are the low eight bits of the extended result codes.
typedef enum {
    AUTHFLOW_SQLITE_OK = 0,
    AUTHFLOW_SQLITE_BUSY = 5,
    AUTHFLOW_SQLITE_LOCKED = 6,
    AUTHFLOW_SQLITE_NO_MEMORY = 7,
    AUTHFLOW_SQLITE_READ_ONLY = 8,
    AUTHFLOW_SQLITE_IO_ERROR = 10,
    AUTHFLOW_SQLITE_CORRUPT = 11,
    AUTHFLOW_SQLITE_FULL = 13,
    AUTHFLOW_SQLITE_CANNOT_OPEN = 14,
    AUTHFLOW_SQLITE_PROTOCOL = 15,
    AUTHFLOW_SQLITE_NOT_A_DATABASE = 26,
    AUTHFLOW_SQLITE_ROW = 100,
    AUTHFLOW_SQLITE_DONE = 101,
} authflow_sqlite_code;

typedef enum {
    AUTHFLOW_SQLITE_INTEGER = 1,
    AUTHFLOW_SQLITE_NULL = 5,
} authflow_sqlite_type;

/// Opens the library on the first call, and returns its version number; zero when it is not installed. Thread-safe.
int authflow_sqlite_version(void);

/// Opens an existing database file. Close the database even if the call has failed.
int authflow_sqlite_open(const char *path, authflow_sqlite_database *_Nullable *_Nonnull database);
void authflow_sqlite_close(authflow_sqlite_database *database);
/// Sets the maximum time that a call waits for another process.
void authflow_sqlite_set_busy_timeout(authflow_sqlite_database *database, int milliseconds);
bool authflow_sqlite_is_in_transaction(authflow_sqlite_database *database);
const char *authflow_sqlite_error(authflow_sqlite_database *database);

/// Prepares a statement that will be reused.
int authflow_sqlite_prepare(authflow_sqlite_database *database, const char *text, authflow_sqlite_statement *_Nullable *_Nonnull statement);
void authflow_sqlite_finalize(authflow_sqlite_statement *statement);
/// Parameter indexes are one-based.
int authflow_sqlite_bind_integer(authflow_sqlite_statement *statement, int index, int64_t value);
/// The bytes are copied.
int authflow_sqlite_bind_bytes(authflow_sqlite_statement *statement, int index, const void *bytes, size_t length);
int authflow_sqlite_bind_null(authflow_sqlite_statement *statement, int index);
int authflow_sqlite_step(authflow_sqlite_statement *statement);
/// Resets the statement, and clears its parameters.
void authflow_sqlite_reset(authflow_sqlite_statement *statement);

int authflow_sqlite_column_count(authflow_sqlite_statement *statement);
int authflow_sqlite_column_type(authflow_sqlite_statement *statement, int column);
int64_t authflow_sqlite_column_integer(authflow_sqlite_statement *statement, int column);
/// Valid until the next step.
const void *_Nullable authflow_sqlite_column_bytes(authflow_sqlite_statement *statement, int column, size_t *length);

#pragma clang assume_nonnull end

#endif
#endif
