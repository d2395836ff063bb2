#include "CPKCS11.h"

#if defined(__linux__) || defined(__APPLE__)

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

typedef unsigned long ulong_t;
typedef authflow_pkcs11_result result_t;

typedef struct { ulong_t type; void *value; ulong_t length; } attribute_t;
typedef struct { ulong_t mechanism; void *parameter; ulong_t length; } mechanism_t;
typedef struct { ulong_t hash, mask, salt; } pss_t;
typedef struct { void *create, *destroy, *lock, *unlock; ulong_t flags; void *reserved; } initialize_t;

typedef struct {
    uint8_t label[32], manufacturer[32], model[16], serial[16];
    ulong_t flags, numbers[10];
    uint8_t hardware[2], firmware[2], time[16];
} token_info_t;

// CK_FUNCTION_LIST of version 2.40, in the order of the standard. Functions that are not called have no type.
typedef struct {
    uint8_t version[2];
    result_t (*initialize)(void *);
    void *finalize, *get_info, *get_function_list;
    result_t (*get_slot_list)(unsigned char, ulong_t *, ulong_t *);
    void *get_slot_info;
    result_t (*get_token_info)(ulong_t, token_info_t *);
    void *get_mechanism_list, *get_mechanism_info, *init_token, *init_pin, *set_pin;
    result_t (*open_session)(ulong_t, ulong_t, void *, void *, ulong_t *);
    result_t (*close_session)(ulong_t);
    void *close_all_sessions, *get_session_info, *get_operation_state, *set_operation_state;
    result_t (*login)(ulong_t, ulong_t, uint8_t *, ulong_t);
    void *logout, *create_object, *copy_object, *destroy_object, *get_object_size;
    result_t (*get_attribute_value)(ulong_t, ulong_t, attribute_t *, ulong_t);
    void *set_attribute_value;
    result_t (*find_objects_init)(ulong_t, attribute_t *, ulong_t);
    result_t (*find_objects)(ulong_t, ulong_t *, ulong_t, ulong_t *);
    result_t (*find_objects_final)(ulong_t);
    void *encrypt_init, *encrypt, *encrypt_update, *encrypt_final;
    void *decrypt_init, *decrypt, *decrypt_update, *decrypt_final;
    void *digest_init, *digest, *digest_update, *digest_key, *digest_final;
    result_t (*sign_init)(ulong_t, mechanism_t *, ulong_t);
    result_t (*sign)(ulong_t, uint8_t *, ulong_t, uint8_t *, ulong_t *);
} functions_t;

struct authflow_pkcs11_module { functions_t *functions; };

enum {
    ALREADY_INITIALIZED = 0x191,
    OS_LOCKING_OK = 0x2,
    SERIAL_SESSION = 0x4,
    USER = 1,
    CLASS = 0x0,
    LABEL = 0x3,
    SHA256_HASH = 0x250,
    MGF1_SHA256 = 0x2,
};

result_t authflow_pkcs11_open(const char *path, authflow_pkcs11_module **module) {
    // Never closed: other sessions of the process may be open in it.
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) return AUTHFLOW_PKCS11_NO_LIBRARY;
    result_t (*get_function_list)(functions_t **) = (result_t (*)(functions_t **))dlsym(library, "C_GetFunctionList");
    functions_t *functions = NULL;
    if (!get_function_list || get_function_list(&functions) != AUTHFLOW_PKCS11_OK || !functions || functions->version[0] < 2) {
        return AUTHFLOW_PKCS11_NO_FUNCTIONS;
    }
    initialize_t arguments = { NULL, NULL, NULL, NULL, OS_LOCKING_OK, NULL };
    result_t result = functions->initialize(&arguments);
    if (result != AUTHFLOW_PKCS11_OK && result != ALREADY_INITIALIZED) return result;
    *module = malloc(sizeof **module);
    if (!*module) return AUTHFLOW_PKCS11_NO_FUNCTIONS;
    (*module)->functions = functions;
    return AUTHFLOW_PKCS11_OK;
}

result_t authflow_pkcs11_tokens(authflow_pkcs11_module *module, authflow_pkcs11_token *tokens, ulong_t *count) {
    ulong_t slots[64], present = 0, found = 0;
    // Section 5.5: a slot that was added later, such as a USB token, is visible only after a call without a list.
    result_t result = module->functions->get_slot_list(1, NULL, &present);
    if (result != AUTHFLOW_PKCS11_OK) return result;
    present = sizeof slots / sizeof *slots;
    result = module->functions->get_slot_list(1, slots, &present);
    if (result != AUTHFLOW_PKCS11_OK) return result;
    for (ulong_t i = 0; i < present && found < *count; i++) {
        token_info_t info;
        if (module->functions->get_token_info(slots[i], &info) != AUTHFLOW_PKCS11_OK) continue;
        authflow_pkcs11_token *token = &tokens[found++];
        token->slot = slots[i];
        memcpy(token->label, info.label, sizeof token->label);
        memcpy(token->serial, info.serial, sizeof token->serial);
        memcpy(token->model, info.model, sizeof token->model);
        memcpy(token->manufacturer, info.manufacturer, sizeof token->manufacturer);
        token->flags = info.flags;
    }
    *count = found;
    return AUTHFLOW_PKCS11_OK;
}

result_t authflow_pkcs11_open_session(authflow_pkcs11_module *module, ulong_t slot, ulong_t *session) {
    return module->functions->open_session(slot, SERIAL_SESSION, NULL, NULL, session);
}

result_t authflow_pkcs11_close_session(authflow_pkcs11_module *module, ulong_t session) {
    return module->functions->close_session(session);
}

result_t authflow_pkcs11_login(authflow_pkcs11_module *module, ulong_t session, const uint8_t *pin, ulong_t length) {
    return module->functions->login(session, USER, (uint8_t *)pin, length);
}

result_t authflow_pkcs11_find(
    authflow_pkcs11_module *module, ulong_t session, ulong_t object_class,
    const uint8_t *label, ulong_t label_length, const uint8_t *identifier, ulong_t identifier_length,
    ulong_t *objects, ulong_t *count
) {
    attribute_t wanted[3] = { { CLASS, &object_class, sizeof object_class } };
    ulong_t attributes = 1;
    if (label) wanted[attributes++] = (attribute_t){ LABEL, (void *)label, label_length };
    if (identifier) wanted[attributes++] = (attribute_t){ AUTHFLOW_PKCS11_ID, (void *)identifier, identifier_length };
    result_t result = module->functions->find_objects_init(session, wanted, attributes);
    if (result != AUTHFLOW_PKCS11_OK) return result;
    ulong_t found = 0;
    result = module->functions->find_objects(session, objects, *count, &found);
    *count = found;
    result_t final = module->functions->find_objects_final(session);
    return result != AUTHFLOW_PKCS11_OK ? result : final;
}

result_t authflow_pkcs11_attribute(
    authflow_pkcs11_module *module, ulong_t session, ulong_t object, ulong_t type, uint8_t *value, ulong_t *length
) {
    attribute_t wanted = { type, value, *length };
    result_t result = module->functions->get_attribute_value(session, object, &wanted, 1);
    // CK_UNAVAILABLE_INFORMATION is the maximum value of the type, so it also yields 0.
    *length = result == AUTHFLOW_PKCS11_OK && wanted.length <= *length ? wanted.length : 0;
    return result;
}

result_t authflow_pkcs11_sign(
    authflow_pkcs11_module *module, ulong_t session, ulong_t key, ulong_t mechanism,
    const uint8_t *bytes, ulong_t count, uint8_t *signature, ulong_t *length
) {
    // RFC 7518 section 3.5: the salt is as long as the hash.
    pss_t pss = { SHA256_HASH, MGF1_SHA256, 32 };
    mechanism_t description = { mechanism, NULL, 0 };
    if (mechanism == AUTHFLOW_PKCS11_SHA256_RSA_PSS) description = (mechanism_t){ mechanism, &pss, sizeof pss };
    result_t result = module->functions->sign_init(session, &description, key);
    if (result != AUTHFLOW_PKCS11_OK) return result;
    ulong_t capacity = *length;
    result = module->functions->sign(session, (uint8_t *)bytes, count, signature, length);
    // CK_UNAVAILABLE_INFORMATION is the maximum value of the type, so it also yields 0.
    if (result != AUTHFLOW_PKCS11_OK || *length > capacity) *length = 0;
    return result;
}

#endif
