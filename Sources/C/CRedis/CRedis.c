#include "CRedis.h"

#if defined(__linux__) || defined(__APPLE__)

#include <dlfcn.h>
#include <pthread.h>
#include <sys/time.h>

enum { OK = 0 };

// The first members of the structures in version 0.14, and in versions 1.0 to 1.2.
typedef struct {
    int error;
    char text[128];
    int descriptor, flags;
} context_0;

typedef struct {
    const void *functions;
    int error;
    char text[128];
    int descriptor, flags;
} context_1;

typedef struct {
    int type;
    long long integer;
    size_t length;
    char *bytes;
    size_t count;
    authflow_redis_reply **elements;
} reply_0;

typedef struct {
    int type;
    long long integer;
    double number;
    size_t length;
    char *bytes;
    char kind[4];
    size_t count;
    authflow_redis_reply **elements;
} reply_1;

static struct {
    authflow_redis_context *(*connect)(const char *, int, const struct timeval);
    authflow_redis_context *(*connect_unix)(const char *, const struct timeval);
    int (*set_timeout)(authflow_redis_context *, const struct timeval);
    int (*append)(authflow_redis_context *, int, const char **, const size_t *);
    int (*get_reply)(authflow_redis_context *, void **);
    void (*free_context)(authflow_redis_context *);
    void (*free_reply)(void *);
} redis;

static bool is_open, is_version_0;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void open_library(void) {
#if defined(__APPLE__)
    static const char *const names[] = {"libhiredis.1.1.0.dylib", "/opt/homebrew/opt/hiredis/lib/libhiredis.dylib"};
    const size_t first_of_version_1 = 0;
#else
    static const char *const names[] = {"libhiredis.so.0.14", "libhiredis.so.1.1.0", "libhiredis.so.1.0.0"};
    const size_t first_of_version_1 = 1;
#endif
    void *library = NULL;
    for (size_t index = 0; index < sizeof names / sizeof *names && library == NULL; index++) {
        library = dlopen(names[index], RTLD_NOW | RTLD_LOCAL);
        is_version_0 = index < first_of_version_1;
    }
    if (library == NULL) return;
    struct {
        const char *name;
        void *place;
    } functions[] = {
        {"redisConnectWithTimeout", &redis.connect},
        {"redisConnectUnixWithTimeout", &redis.connect_unix},
        {"redisSetTimeout", &redis.set_timeout},
        {"redisAppendCommandArgv", &redis.append},
        {"redisGetReply", &redis.get_reply},
        {"redisFree", &redis.free_context},
        {"freeReplyObject", &redis.free_reply},
    };
    for (size_t index = 0; index < sizeof functions / sizeof *functions; index++) {
        void *address = dlsym(library, functions[index].name);
        if (address == NULL) return;
        *(void **)functions[index].place = address;
    }
    is_open = true;
}

bool authflow_redis_open(void) {
    pthread_once(&once, open_library);
    return is_open;
}

static struct timeval duration(int milliseconds) {
    return (struct timeval){ milliseconds / 1000, (milliseconds % 1000) * 1000 };
}

authflow_redis_context *authflow_redis_connect(const char *host, int port, int milliseconds) {
    return redis.connect(host, port, duration(milliseconds));
}
authflow_redis_context *authflow_redis_connect_unix(const char *path, int milliseconds) {
    return redis.connect_unix(path, duration(milliseconds));
}
bool authflow_redis_set_timeout(authflow_redis_context *context, int milliseconds) {
    return redis.set_timeout(context, duration(milliseconds)) == OK;
}

bool authflow_redis_has_failed(authflow_redis_context *context) {
    return (is_version_0 ? ((context_0 *)context)->error : ((context_1 *)context)->error) != 0;
}
const char *authflow_redis_error(authflow_redis_context *context) {
    return is_version_0 ? ((context_0 *)context)->text : ((context_1 *)context)->text;
}
int authflow_redis_descriptor(authflow_redis_context *context) {
    return is_version_0 ? ((context_0 *)context)->descriptor : ((context_1 *)context)->descriptor;
}
void authflow_redis_close(authflow_redis_context *context) { redis.free_context(context); }

bool authflow_redis_append(authflow_redis_context *context, int count, const char **values, const size_t *lengths) {
    return redis.append(context, count, values, lengths) == OK;
}
authflow_redis_reply *authflow_redis_wait(authflow_redis_context *context) {
    void *reply = NULL;
    return redis.get_reply(context, &reply) == OK ? reply : NULL;
}

authflow_redis_type authflow_redis_reply_type(authflow_redis_reply *reply) {
    return is_version_0 ? ((reply_0 *)reply)->type : ((reply_1 *)reply)->type;
}
int64_t authflow_redis_reply_integer(authflow_redis_reply *reply) {
    return is_version_0 ? ((reply_0 *)reply)->integer : ((reply_1 *)reply)->integer;
}
const char *authflow_redis_reply_bytes(authflow_redis_reply *reply, size_t *length) {
    *length = is_version_0 ? ((reply_0 *)reply)->length : ((reply_1 *)reply)->length;
    return is_version_0 ? ((reply_0 *)reply)->bytes : ((reply_1 *)reply)->bytes;
}
size_t authflow_redis_reply_count(authflow_redis_reply *reply) {
    return is_version_0 ? ((reply_0 *)reply)->count : ((reply_1 *)reply)->count;
}
authflow_redis_reply *authflow_redis_reply_element(authflow_redis_reply *reply, size_t index) {
    return is_version_0 ? ((reply_0 *)reply)->elements[index] : ((reply_1 *)reply)->elements[index];
}
void authflow_redis_reply_free(authflow_redis_reply *reply) { redis.free_reply(reply); }

#endif
