// A PKCS #11 module that does what a script says: the file NAME.script next to the library NAME, read again at each call.
//
// Each line of the script is a word and its values; if several lines begin with the same word, the first of them takes effect. "flags HEX", "tokens COUNT", "private COUNT", "public COUNT",
// "attribute TYPE HEX" and "signature HEX" give what the token contains, and "signature-length" a signature of unavailable length.
// "C_Function RESULT [RESULT ...]" gives the results of the calls of a function in hexadecimal, the last of them for all further calls. Each call
// appends the function's name to the file NAME.calls.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef unsigned long ulong_t;
typedef struct { ulong_t type; void *value; ulong_t length; } attribute_t;
typedef struct {
    uint8_t label[32], manufacturer[32], model[16], serial[16];
    ulong_t flags, numbers[10];
    uint8_t hardware[2], firmware[2], time[16];
} token_info_t;

enum {
    OK = 0, ATTRIBUTE_TYPE_INVALID = 0x12, BUFFER_TOO_SMALL = 0x150, FUNCTION_NOT_SUPPORTED = 0x54,
    CLASS = 0, LABEL = 3, EC_POINT = 0x181, PUBLIC_KEY = 2, FUNCTIONS = 68,
};

/// The handles of public keys begin with this number, because only they have a point.
enum { PUBLIC_HANDLES = 100 };

static ulong_t searched_class;

static FILE *beside(const char *suffix, const char *mode) {
    Dl_info self;
    char path[4096];
    if (!dladdr((void *)beside, &self)) abort();
    if (snprintf(path, sizeof path, "%s%s", self.dli_fname, suffix) >= (int)sizeof path) abort();
    return fopen(path, mode);
}

/// Copies what follows the given word in the script, or returns 0.
static int line_of_script(const char *word, char *rest, size_t size) {
    FILE *script = beside(".script", "r");
    if (!script) return 0;
    char line[8192];
    int found = 0;
    size_t length = strlen(word);
    while (!found && fgets(line, sizeof line, script)) {
        found = !strncmp(line, word, length) && (line[length] == ' ' || line[length] == '\n');
    }
    fclose(script);
    if (found) snprintf(rest, size, "%s", line + length + 1);
    return found;
}

static ulong_t number(const char *word, ulong_t otherwise) {
    char text[8192];
    return line_of_script(word, text, sizeof text) ? strtoul(text, NULL, 16) : otherwise;
}

static ulong_t bytes(const char *word, uint8_t *value, ulong_t size) {
    char text[8192];
    if (!line_of_script(word, text, sizeof text)) return (ulong_t)-1;
    ulong_t count = 0;
    for (const char *at = text; count < size && sscanf(at, "%2hhx", &value[count]) == 1; at += 2) count++;
    return count;
}

/// Records the call, and returns its scripted result.
static ulong_t called(const char *function) {
    int earlier = 0;
    char line[8192];
    FILE *calls = beside(".calls", "a+");
    if (!calls) return OK;  // the test has ended, and a session is closed
    rewind(calls);
    while (fgets(line, sizeof line, calls)) earlier += !strncmp(line, function, strlen(function)) && line[strlen(function)] == '\n';
    fprintf(calls, "%s\n", function);
    fclose(calls);
    if (!line_of_script(function, line, sizeof line)) return OK;
    char *at = line;
    ulong_t result = strtoul(at, &at, 16);
    for (char *next = at; earlier > 0; earlier--, at = next) {
        ulong_t following = strtoul(at, &next, 16);
        if (next == at) break;
        result = following;
    }
    return result;
}

static ulong_t initialize(void *arguments) { return called("C_Initialize"); }

/// As the standard specifies (section 5.5), only a call without a list detects tokens that were inserted since the last such call.
static ulong_t slots(unsigned char present, ulong_t *list, ulong_t *count) {
    static ulong_t tokens;
    ulong_t result = called("C_GetSlotList");
    if (!list) tokens = number("tokens", 1);
    for (ulong_t slot = 0; list && slot < tokens && slot < *count; slot++) list[slot] = slot;
    *count = tokens;
    return result;
}

static ulong_t token_info(ulong_t slot, token_info_t *info) {
    memset(info, ' ', sizeof *info);
    memcpy(info->label, "Scripted", 8);
    Dl_info self;
    if (!dladdr((void *)beside, &self)) abort();
    // One serial number for each copy of the library.
    ulong_t hash = 5381;
    for (const char *at = self.dli_fname; *at; at++) hash = hash * 33 + (uint8_t)*at;
    char serial[17];
    snprintf(serial, sizeof serial, "%016lx", hash);
    memcpy(info->serial, serial, 16);
    info->flags = number("flags", 0x400);
    return called("C_GetTokenInfo");
}

static ulong_t open_session(ulong_t slot, ulong_t flags, void *application, void *notify, ulong_t *session) {
    *session = 1;
    return called("C_OpenSession");
}

static ulong_t close_session(ulong_t session) { return called("C_CloseSession"); }
static ulong_t login(ulong_t session, ulong_t user, uint8_t *pin, ulong_t length) { return called("C_Login"); }

static ulong_t attributes(ulong_t session, ulong_t object, attribute_t *wanted, ulong_t count) {
    char word[64];
    snprintf(word, sizeof word, "attribute %lx", wanted->type);
    ulong_t size = wanted->length;
    wanted->length = bytes(word, wanted->value, size);
    if (wanted->type == EC_POINT && object < PUBLIC_HANDLES) wanted->length = (ulong_t)-1;
    ulong_t result = called("C_GetAttributeValue");
    if (result == OK && wanted->length == size) return BUFFER_TOO_SMALL;
    return result == OK && wanted->length == (ulong_t)-1 ? ATTRIBUTE_TYPE_INVALID : result;
}

static ulong_t search(ulong_t session, attribute_t *wanted, ulong_t count) {
    for (ulong_t i = 0; i < count; i++) {
        if (wanted[i].type == CLASS) searched_class = *(ulong_t *)wanted[i].value;
        if (wanted[i].type == LABEL) called(searched_class == PUBLIC_KEY ? "public key by label" : "private key by label");
    }
    return called("C_FindObjectsInit");
}

static ulong_t found(ulong_t session, ulong_t *objects, ulong_t maximum, ulong_t *count) {
    ulong_t present = number(searched_class == PUBLIC_KEY ? "public" : "private", 1);
    for (*count = 0; *count < present && *count < maximum; (*count)++) {
        objects[*count] = *count + (searched_class == PUBLIC_KEY ? PUBLIC_HANDLES : 1);
    }
    return called("C_FindObjects");
}

static ulong_t unsupported(void) {
    called("an unsupported function");
    return FUNCTION_NOT_SUPPORTED;
}

static ulong_t end_search(ulong_t session) { return called("C_FindObjectsFinal"); }
static ulong_t begin_signature(ulong_t session, void *mechanism, ulong_t key) { return called("C_SignInit"); }

static ulong_t sign(ulong_t session, uint8_t *data, ulong_t count, uint8_t *signature, ulong_t *length) {
    char none[2];
    *length = line_of_script("signature-length", none, sizeof none) ? (ulong_t)-1 : bytes("signature", signature, *length);
    return called("C_Sign");
}

// CK_FUNCTION_LIST of version 2.40: the version, and then the functions in the order of the standard.
static struct { uint8_t version[2]; void *functions[FUNCTIONS]; } list = { .version = { 2, 40 } };

ulong_t C_GetFunctionList(void **functions) {
    for (int i = 0; i < FUNCTIONS; i++) list.functions[i] = (void *)unsupported;
    list.functions[0] = (void *)initialize;
    list.functions[4] = (void *)slots;
    list.functions[6] = (void *)token_info;
    list.functions[12] = (void *)open_session;
    list.functions[13] = (void *)close_session;
    list.functions[18] = (void *)login;
    list.functions[24] = (void *)attributes;
    list.functions[26] = (void *)search;
    list.functions[27] = (void *)found;
    list.functions[28] = (void *)end_search;
    list.functions[42] = (void *)begin_signature;
    list.functions[43] = (void *)sign;
    *functions = &list;
    return OK;
}
