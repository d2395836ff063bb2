#pragma once

#include <jansson.h>

// The length-aware calls (json_object_iter_key_len, json_object_setn_new) that the wrapper relies on came with 2.14.
#if JANSSON_VERSION_HEX < 0x020e00
#error "AuthFlow needs libjansson 2.14 or newer; or build with the package trait Jansson off"
#endif

// Two threads may meet in jansson's shared constants (true, false, null) only when reference counts are atomic.
#ifndef JANSSON_THREAD_SAFE_REFCOUNT
#error "this libjansson has no atomic reference counts; build with the package trait Jansson off"
#endif
