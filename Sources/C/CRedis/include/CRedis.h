#ifndef AUTHFLOW_CREDIS_H
#define AUTHFLOW_CREDIS_H

// The part of hiredis' interface that AuthFlow uses. The library is opened when the first connection is made, under its versioned name,
// because its structures differ between versions.

#if defined(__linux__) || defined(__APPLE__)

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#pragma clang assume_nonnull begin

typedef struct authflow_redis_context authflow_redis_context;
typedef struct authflow_redis_reply authflow_redis_reply;

typedef enum {
    AUTHFLOW_REDIS_STRING = 1,
    AUTHFLOW_REDIS_ARRAY = 2,
    AUTHFLOW_REDIS_INTEGER = 3,
    AUTHFLOW_REDIS_NIL = 4,
    AUTHFLOW_REDIS_STATUS = 5,
    AUTHFLOW_REDIS_ERROR = 6,
} authflow_redis_type;

/// Opens the library on the first call; false when it is not installed. Thread-safe.
bool authflow_redis_open(void);

/// Connects, and blocks until the connection is established. Close the context even if it has failed.
authflow_redis_context *_Nullable authflow_redis_connect(const char *host, int port, int milliseconds);
authflow_redis_context *_Nullable authflow_redis_connect_unix(const char *path, int milliseconds);
/// Sets the timeout of each call; 0 for none.
bool authflow_redis_set_timeout(authflow_redis_context *context, int milliseconds);
bool authflow_redis_has_failed(authflow_redis_context *context);
const char *authflow_redis_error(authflow_redis_context *context);
int authflow_redis_descriptor(authflow_redis_context *context);
void authflow_redis_close(authflow_redis_context *context);

bool authflow_redis_append(authflow_redis_context *context, int count, const char *_Nullable *_Nonnull values, const size_t *lengths);
/// Waits for a reply; NULL when the connection has failed.
authflow_redis_reply *_Nullable authflow_redis_wait(authflow_redis_context *context);

authflow_redis_type authflow_redis_reply_type(authflow_redis_reply *reply);
int64_t authflow_redis_reply_integer(authflow_redis_reply *reply);
const char *_Nullable authflow_redis_reply_bytes(authflow_redis_reply *reply, size_t *length);
size_t authflow_redis_reply_count(authflow_redis_reply *reply);
authflow_redis_reply *authflow_redis_reply_element(authflow_redis_reply *reply, size_t index);
void authflow_redis_reply_free(authflow_redis_reply *reply);

#pragma clang assume_nonnull end

#endif
#endif
