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

// Options of libxml/parser.h and libxml/HTMLparser.h. Parsing must neither fetch anything nor print.
enum { RECOVER = 1 << 0, NO_ERRORS = 1 << 5, NO_WARNINGS = 1 << 6, NO_NETWORK = 1 << 11, NO_CDATA = 1 << 14 };

// xmlSAXHandler (libxml/parser.h), which is part of the library's ABI.
typedef struct {
    void *declarations[14];
    void (*start_element)(void *, const char *, const char **);
    void (*end_element)(void *, const char *);
    void *reference;
    void (*characters)(void *, const char *, int);
    void (*ignorable_whitespace)(void *, const char *, int);
    void *processing_instruction;
    void (*comment)(void *, const char *);
    void *messages[4];
    void (*cdata)(void *, const char *, int);
    void *external_subset;
    unsigned int initialized;
    void *private_data, *start_element_ns, *end_element_ns, *structured_error;
} event_handlers;

// xmlParserCtxt begins with these members (libxml/parser.h).
typedef struct {
    event_handlers *handlers;
    void *user_data;
} parser;

static struct {
    parser *(*new_html_parser)(void);
    void (*free_html_parser)(parser *);
    authflow_markup_document *(*read_html)(parser *, int (*)(void *, char *, int), int (*)(void *), void *, const char *, const char *, int);
    authflow_markup_document *(*read_xml)(const char *, int, const char *, const char *, int);
    void (*free_document)(authflow_markup_document *);
    authflow_markup_node *(*root)(authflow_markup_document *);
    char *(*attribute)(authflow_markup_node *, const char *);
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
        {"htmlNewParserCtxt", &xml.new_html_parser}, {"htmlFreeParserCtxt", &xml.free_html_parser},
        {"htmlCtxtReadIO", &xml.read_html}, {"xmlReadMemory", &xml.read_xml}, {"xmlFreeDoc", &xml.free_document},
        {"xmlDocGetRootElement", &xml.root}, {"xmlGetProp", &xml.attribute}, {"xmlNodeGetContent", &xml.content},
        {"xmlFree", &xml.free_text},
    };
    for (size_t index = 0; index < sizeof symbols / sizeof *symbols; index++) {
        void *address = dlsym(library, symbols[index].name);
        if (address == NULL) return;
        *(void **)symbols[index].place = address;
    }
    // Otherwise the first parse does it, and two parses at once could both do it.
    void (*initialize)(void) = (void (*)(void))dlsym(library, "xmlInitParser");
    if (initialize != NULL) initialize();
    is_open = true;
}

bool authflow_markup_open(void) {
    pthread_once(&once, open_library);
    return is_open;
}

static int clamped(size_t count) { return count > INT_MAX ? INT_MAX : (int)count; }

typedef struct {
    const authflow_markup_reader *reader;
    const char *bytes;
    size_t count, position;
} page;

static void start_element(void *context, const char *name, const char **attributes) {
    const authflow_markup_reader *reader = ((page *)context)->reader;
    reader->start(reader->context, name, attributes);
}
static void end_element(void *context, const char *name) {
    const authflow_markup_reader *reader = ((page *)context)->reader;
    reader->end(reader->context, name);
}
static void text(void *context, const char *bytes, int count) {
    const authflow_markup_reader *reader = ((page *)context)->reader;
    if (count > 0) reader->text(reader->context, bytes, (size_t)count);
}
static void skipped(void *context) {
    const authflow_markup_reader *reader = ((page *)context)->reader;
    reader->text(reader->context, NULL, 0);
}
static void comment(void *context, const char *text) { skipped(context); }
static void script(void *context, const char *text, int count) { skipped(context); }

// Called when the parser has processed what it has.
static int read_part(void *context, char *buffer, int size) {
    page *page = context;
    const authflow_markup_reader *reader = page->reader;
    size_t part = page->count - page->position;
    if (size <= 0 || part == 0 || !reader->may_continue(reader->context, page->position)) return 0;
    if (part > (size_t)size) part = (size_t)size;
    if (part > AUTHFLOW_MARKUP_PART) part = AUTHFLOW_MARKUP_PART;
    memcpy(buffer, page->bytes + page->position, part);
    page->position += part;
    return (int)part;
}
static int close_page(void *context) { return 0; }

bool authflow_markup_read_html(const char *bytes, size_t count, const authflow_markup_reader *reader) {
    if (bytes == NULL) return true;
    parser *parser = xml.new_html_parser();
    if (parser == NULL || parser->handlers == NULL) return false;
    page page = {.reader = reader, .bytes = bytes, .count = count, .position = 0};
    // No handler of the library's remains: those build a tree, and expect the parser as their context.
    *parser->handlers = (event_handlers){.start_element = start_element, .end_element = end_element, .characters = text,
        .ignorable_whitespace = text, .comment = comment, .cdata = script, .initialized = 1};
    parser->user_data = &page;
    authflow_markup_document *document = xml.read_html(parser, read_part, close_page, &page, NULL, "UTF-8",
        RECOVER | NO_ERRORS | NO_WARNINGS | NO_NETWORK);
    if (document != NULL) xml.free_document(document);
    xml.free_html_parser(parser);
    return true;
}

authflow_markup_document *authflow_markup_read_xml(const char *bytes, size_t count) {
    if (bytes == NULL) return NULL;
    return xml.read_xml(bytes, clamped(count), NULL, NULL, NO_ERRORS | NO_WARNINGS | NO_NETWORK | NO_CDATA);
}

void authflow_markup_free(authflow_markup_document *document) { xml.free_document(document); }
authflow_markup_node *authflow_markup_root(authflow_markup_document *document) { return xml.root(document); }
authflow_markup_node *authflow_markup_first_child(authflow_markup_node *node) { return node->children; }
authflow_markup_node *authflow_markup_next(authflow_markup_node *node) { return node->next; }
bool authflow_markup_is_element(authflow_markup_node *node) { return node->type == ELEMENT_NODE; }
bool authflow_markup_is_text(authflow_markup_node *node) { return node->type == TEXT_NODE; }
const char *authflow_markup_name(authflow_markup_node *node) { return node->name; }

char *authflow_markup_attribute(authflow_markup_node *node, const char *name) { return xml.attribute(node, name); }
char *authflow_markup_text(authflow_markup_node *node) { return xml.content(node); }
// libxml2 has its free function in a variable.
void authflow_markup_free_text(char *text) { (*xml.free_text)(text); }
