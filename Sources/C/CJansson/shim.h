#pragma once

#include <jansson.h>

// The length-aware calls (json_object_iter_key_len, json_object_setn_new) that the wrapper uses were added in 2.14.
#if JANSSON_VERSION_HEX < 0x020e00
#error "AuthFlow needs libjansson 2.14 or newer; or disable the package trait Jansson"
#endif

// Threads may share jansson's constants (true, false, null) only if reference counts are atomic.
#ifndef JANSSON_THREAD_SAFE_REFCOUNT
#error "this libjansson has no atomic reference counts; disable the package trait Jansson"
#endif
