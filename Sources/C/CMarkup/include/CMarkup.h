#ifndef AUTHFLOW_CMARKUP_H
#define AUTHFLOW_CMARKUP_H

// The part of libxml2's interface that AuthFlow uses, written from its documentation. The library is opened when the first page is
// read: it loads over 30 MB of tables, which a program that reads no page need not wait for.

#include <stdbool.h>
#include <stddef.h>

#pragma clang assume_nonnull begin

typedef struct authflow_markup_document authflow_markup_document;
typedef struct authflow_markup_node authflow_markup_node;

/// Whether the library is available. Thread-safe; the first call opens it.
bool authflow_markup_open(void);

/// Receives the parts of a page as they are parsed.
typedef struct {
    void *_Nullable context;
    /// An element begins. Attributes are names and values in turn, with null at the end; a value may be null.
    void (*start)(void *_Nullable context, const char *name, const char *_Nullable *_Nullable attributes);
    void (*end)(void *_Nullable context, const char *name);
    /// Text. A comment or a script has none: null.
    void (*text)(void *_Nullable context, const char *_Nullable bytes, size_t count);
    /// Called before each further part of the page is parsed. Returning false ends the page there.
    bool (*may_continue)(void *_Nullable context, size_t position);
} authflow_markup_reader;

/// The size of a part of a page, in bytes.
enum { AUTHFLOW_MARKUP_PART = 1024 };

/// Reads a page as a browser would, even when it is malformed, and builds nothing.
/// Returns false when there is no memory.
bool authflow_markup_read_html(const char *_Nullable bytes, size_t count, const authflow_markup_reader *reader);
/// Reads a document; null when it is not well formed.
authflow_markup_document *_Nullable authflow_markup_read_xml(const char *_Nullable bytes, size_t count);
void authflow_markup_free(authflow_markup_document *document);

authflow_markup_node *_Nullable authflow_markup_root(authflow_markup_document *document);
authflow_markup_node *_Nullable authflow_markup_first_child(authflow_markup_node *node);
authflow_markup_node *_Nullable authflow_markup_next(authflow_markup_node *node);
bool authflow_markup_is_element(authflow_markup_node *node);
bool authflow_markup_is_text(authflow_markup_node *node);
const char *_Nullable authflow_markup_name(authflow_markup_node *node);

/// Both return a copy, for authflow_markup_free_text.
char *_Nullable authflow_markup_attribute(authflow_markup_node *node, const char *name);
char *_Nullable authflow_markup_text(authflow_markup_node *node);
void authflow_markup_free_text(char *text);

#pragma clang assume_nonnull end

#endif
