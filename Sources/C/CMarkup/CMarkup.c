#include "CMarkup.h"

#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <string.h>

// xmlNode begins with these members (libxml/tree.h), which are part of the library's ABI.
struct authflow_markup_node {
    void *application_data;
    int type;
    const char *name;
    authflow_markup_node *children, *last, *parent, *next, *previous;
};

enum { ELEMENT_NODE = 1, TEXT_NODE = 3 };

// Options of libxml/parser.h. Parsing must neither fetch anything nor print.
enum { NO_ERRORS = 1 << 5, NO_WARNINGS = 1 << 6, NO_NETWORK = 1 << 11, NO_CDATA = 1 << 14 };

static struct {
    authflow_markup_document *(*read_xml)(const char *, int, const char *, const char *, int);
    void (*free_document)(authflow_markup_document *);
    authflow_markup_node *(*root)(authflow_markup_document *);
    char *(*content)(authflow_markup_node *);
    void (**free_text)(void *);
} xml;

static bool is_open;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void open_library(void) {
#if defined(__APPLE__)
    static const char *const names[] = {"libxml2.2.dylib"};
#else
    // Version 2.14 changed the library's name; the functions used here are the same in both.
    static const char *const names[] = {"libxml2.so.2", "libxml2.so.16"};
#endif
    void *library = NULL;
    for (size_t index = 0; index < sizeof names / sizeof *names && library == NULL; index++) {
        library = dlopen(names[index], RTLD_NOW | RTLD_LOCAL);
    }
    if (library == NULL) return;
    struct {
        const char *name;
        void *place;
    } symbols[] = {
        {"xmlReadMemory", &xml.read_xml}, {"xmlFreeDoc", &xml.free_document}, {"xmlDocGetRootElement", &xml.root},
        {"xmlNodeGetContent", &xml.content}, {"xmlFree", &xml.free_text},
    };
    for (size_t index = 0; index < sizeof symbols / sizeof *symbols; index++) {
        void *address = dlsym(library, symbols[index].name);
        if (address == NULL) return;
        *(void **)symbols[index].place = address;
    }
    // Otherwise the first parse initializes the library, and two concurrent parses could both do so.
    void (*initialize)(void) = (void (*)(void))dlsym(library, "xmlInitParser");
    if (initialize != NULL) initialize();
    is_open = true;
}

bool authflow_markup_open(void) {
    pthread_once(&once, open_library);
    return is_open;
}

static int clamped(size_t count) { return count > INT_MAX ? INT_MAX : (int)count; }

authflow_markup_document *authflow_markup_read_xml(const char *bytes, size_t count) {
    if (bytes == NULL) return NULL;
    // The encoding is not taken from the document: the caller has checked the characters as UTF-8.
    return xml.read_xml(bytes, clamped(count), NULL, "UTF-8", NO_ERRORS | NO_WARNINGS | NO_NETWORK | NO_CDATA);
}

void authflow_markup_free(authflow_markup_document *document) { xml.free_document(document); }
authflow_markup_node *authflow_markup_root(authflow_markup_document *document) { return xml.root(document); }
authflow_markup_node *authflow_markup_first_child(authflow_markup_node *node) { return node->children; }
authflow_markup_node *authflow_markup_next(authflow_markup_node *node) { return node->next; }
bool authflow_markup_is_element(authflow_markup_node *node) { return node->type == ELEMENT_NODE; }
bool authflow_markup_is_text(authflow_markup_node *node) { return node->type == TEXT_NODE; }
const char *authflow_markup_name(authflow_markup_node *node) { return node->name; }

char *authflow_markup_text(authflow_markup_node *node) { return xml.content(node); }
// libxml2 provides its free function as a variable.
void authflow_markup_free_text(char *text) { (*xml.free_text)(text); }
