#ifndef AUTHFLOW_CPOSTGRESQL_H
#define AUTHFLOW_CPOSTGRESQL_H

// The part of libpq's interface that AuthFlow uses, written from PostgreSQL's manual (chapter 34). The library is opened when the
// first connection is made.

#if defined(__linux__) || defined(__APPLE__)

#include <stdbool.h>
#include <stdint.h>

#pragma clang assume_nonnull begin

typedef struct authflow_pq_connection authflow_pq_connection;
typedef struct authflow_pq_result authflow_pq_result;

/// Opens the library on the first call; false when it is not installed. Thread-safe.
bool authflow_pq_open(void);

/// Parses a URL or a list of keywords (PQconninfoParse). Calls `receive` for each keyword that has a value.
/// @return Whether the text is valid.
bool authflow_pq_parse(const char *text, void *context, void (*receive)(void *context, const char *keyword, const char *value));

/// Connects, and blocks until the connection is established (PQconnectdbParams). Both lists end with NULL. Close even a failed connection.
authflow_pq_connection *_Nullable authflow_pq_connect(const char *_Nullable const *_Nonnull keywords, const char *_Nullable const *_Nonnull values);
bool authflow_pq_is_connected(authflow_pq_connection *connection);
const char *authflow_pq_error(authflow_pq_connection *connection);
int authflow_pq_descriptor(authflow_pq_connection *connection);
void authflow_pq_close(authflow_pq_connection *connection);

/// Runs statements without parameters, and blocks until they complete (PQexec).
authflow_pq_result *_Nullable authflow_pq_run(authflow_pq_connection *connection, const char *statements);
/// Runs a statement with parameters in binary form, for results in binary form, and blocks until it completes (PQexecParams).
authflow_pq_result *_Nullable authflow_pq_execute(authflow_pq_connection *connection, const char *statement, int count,
                                                  const uint8_t *_Nullable const *_Nonnull values, const int *lengths);
/// Reads notifications without blocking (PQconsumeInput).
bool authflow_pq_read(authflow_pq_connection *connection);
/// The payload of the next notification, to be freed with `authflow_pq_free`; NULL when there is none.
char *_Nullable authflow_pq_notification(authflow_pq_connection *connection, void *_Nullable *_Nonnull whole);
void authflow_pq_free(void *memory);

bool authflow_pq_succeeded(authflow_pq_result *result);
/// The five characters of SQLSTATE; NULL when there is none.
const char *_Nullable authflow_pq_state(authflow_pq_result *result);
/// The server's message without its detail field, which may contain values; NULL when there is none.
const char *_Nullable authflow_pq_message(authflow_pq_result *result);
int authflow_pq_rows(authflow_pq_result *result);
int authflow_pq_columns(authflow_pq_result *result);
/// The bytes of a field; NULL when the field is NULL.
const uint8_t *_Nullable authflow_pq_field(authflow_pq_result *result, int row, int column, int *length);
void authflow_pq_clear(authflow_pq_result *result);

#pragma clang assume_nonnull end

#endif
#endif
