#ifndef AUTHFLOW_CMARKUP_H
#define AUTHFLOW_CMARKUP_H

// The part of libxml2's interface that AuthFlow uses, written from its documentation. The library is opened when the first
// document is read: it loads over 30 MB of tables, and a program that reads no XML should not have to wait for that.

#include <stdbool.h>
#include <stddef.h>

#pragma clang assume_nonnull begin

typedef struct authflow_markup_document authflow_markup_document;
typedef struct authflow_markup_node authflow_markup_node;

/// Whether the library is available. Thread-safe; the first call opens it.
bool authflow_markup_open(void);

/// Parses a document; null when it is not well formed.
authflow_markup_document *_Nullable authflow_markup_read_xml(const char *_Nullable bytes, size_t count);
void authflow_markup_free(authflow_markup_document *document);

authflow_markup_node *_Nullable authflow_markup_root(authflow_markup_document *document);
authflow_markup_node *_Nullable authflow_markup_first_child(authflow_markup_node *node);
authflow_markup_node *_Nullable authflow_markup_next(authflow_markup_node *node);
bool authflow_markup_is_element(authflow_markup_node *node);
bool authflow_markup_is_text(authflow_markup_node *node);
const char *_Nullable authflow_markup_name(authflow_markup_node *node);

/// Returns a copy, which must be freed with authflow_markup_free_text.
char *_Nullable authflow_markup_text(authflow_markup_node *node);
void authflow_markup_free_text(char *text);

#pragma clang assume_nonnull end

#endif
