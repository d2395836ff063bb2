#ifndef AUTHFLOW_CPKCS11_H
#define AUTHFLOW_CPKCS11_H

// The part of PKCS #11 (Cryptoki 2.40) that AuthFlow uses, written from the OASIS standard. A module is a library that is opened when
// a key in it is used, so no module is needed otherwise.

#if defined(__linux__) || defined(__APPLE__)

#include <stddef.h>
#include <stdint.h>

#pragma clang assume_nonnull begin

typedef struct authflow_pkcs11_module authflow_pkcs11_module;

/// The return value of a function (CK_RV), or one of two values that AuthFlow adds.
typedef unsigned long authflow_pkcs11_result;

enum {
    AUTHFLOW_PKCS11_OK = 0x0,
    AUTHFLOW_PKCS11_DEVICE_REMOVED = 0x32,
    AUTHFLOW_PKCS11_PIN_INCORRECT = 0xA0,
    AUTHFLOW_PKCS11_PIN_LOCKED = 0xA4,
    AUTHFLOW_PKCS11_SESSION_CLOSED = 0xB0,
    AUTHFLOW_PKCS11_SESSION_HANDLE_INVALID = 0xB3,
    AUTHFLOW_PKCS11_TOKEN_NOT_PRESENT = 0xE0,
    AUTHFLOW_PKCS11_USER_ALREADY_LOGGED_IN = 0x100,
    AUTHFLOW_PKCS11_USER_NOT_LOGGED_IN = 0x101,
    // Values from the vendor-defined range of CK_RV that no module uses.
    AUTHFLOW_PKCS11_NO_LIBRARY = 0x8AF10001,
    AUTHFLOW_PKCS11_NO_FUNCTIONS = 0x8AF10002,
};

/// Flags of a token (CK_TOKEN_INFO).
enum {
    AUTHFLOW_PKCS11_LOGIN_REQUIRED = 0x4,
    AUTHFLOW_PKCS11_INITIALIZED = 0x400,
    AUTHFLOW_PKCS11_PIN_FINAL_TRY = 0x20000,
    AUTHFLOW_PKCS11_PIN_IS_LOCKED = 0x40000,
};

/// Classes of objects (CK_OBJECT_CLASS).
enum { AUTHFLOW_PKCS11_PUBLIC_KEY = 0x2, AUTHFLOW_PKCS11_PRIVATE_KEY = 0x3, AUTHFLOW_PKCS11_SECRET_KEY = 0x4 };

/// Types of keys (CK_KEY_TYPE).
enum { AUTHFLOW_PKCS11_RSA = 0x0, AUTHFLOW_PKCS11_EC = 0x3 };

/// Attributes of objects (CK_ATTRIBUTE_TYPE).
enum {
    AUTHFLOW_PKCS11_KEY_TYPE = 0x100,
    AUTHFLOW_PKCS11_ID = 0x102,
    AUTHFLOW_PKCS11_MODULUS = 0x120,
    AUTHFLOW_PKCS11_PUBLIC_EXPONENT = 0x122,
    AUTHFLOW_PKCS11_EC_PARAMS = 0x180,
    AUTHFLOW_PKCS11_EC_POINT = 0x181,
};

/// Mechanisms (CK_MECHANISM_TYPE).
enum {
    AUTHFLOW_PKCS11_SHA256_RSA = 0x40,
    AUTHFLOW_PKCS11_SHA256_RSA_PSS = 0x43,
    AUTHFLOW_PKCS11_SHA256_HMAC = 0x251,
    AUTHFLOW_PKCS11_ECDSA = 0x1041,
};

/// A token: its names, padded with spaces, and its flags.
typedef struct {
    unsigned long slot;
    uint8_t label[32];
    uint8_t serial[16];
    uint8_t model[16];
    uint8_t manufacturer[32];
    unsigned long flags;
} authflow_pkcs11_token;

/// Opens a module and initializes it, unless it was initialized before.
authflow_pkcs11_result authflow_pkcs11_open(const char *path, authflow_pkcs11_module *_Nullable *_Nonnull module);

/// Lists the tokens that are present. `count` is the capacity of `tokens`, and on return the number of tokens.
authflow_pkcs11_result authflow_pkcs11_tokens(
    authflow_pkcs11_module *module, authflow_pkcs11_token *tokens, unsigned long *count);

authflow_pkcs11_result authflow_pkcs11_open_session(
    authflow_pkcs11_module *module, unsigned long slot, unsigned long *session);
authflow_pkcs11_result authflow_pkcs11_close_session(authflow_pkcs11_module *module, unsigned long session);
authflow_pkcs11_result authflow_pkcs11_login(
    authflow_pkcs11_module *module, unsigned long session, const uint8_t *pin, unsigned long length);

/// Finds objects of a class, with the given label and identifier, if any.
authflow_pkcs11_result authflow_pkcs11_find(
    authflow_pkcs11_module *module, unsigned long session, unsigned long object_class,
    const uint8_t *_Nullable label, unsigned long label_length,
    const uint8_t *_Nullable identifier, unsigned long identifier_length,
    unsigned long *objects, unsigned long *count);

/// Reads an attribute. `length` is the size of `value`, and on return the number of bytes used.
authflow_pkcs11_result authflow_pkcs11_attribute(
    authflow_pkcs11_module *module, unsigned long session, unsigned long object, unsigned long type,
    uint8_t *value, unsigned long *length);

/// Signs bytes. `length` is the size of `signature`, and on return the number of bytes used.
authflow_pkcs11_result authflow_pkcs11_sign(
    authflow_pkcs11_module *module, unsigned long session, unsigned long key, unsigned long mechanism,
    const uint8_t *bytes, unsigned long count, uint8_t *signature, unsigned long *length);

#pragma clang assume_nonnull end

#endif
#endif
