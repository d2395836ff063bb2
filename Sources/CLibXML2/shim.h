#pragma once

#include <libxml/xmlversion.h>

// Debian builds libxml2 with ICU, whose headers would clash with those of Swift's Foundation. Only the layout of an
// encoding handler depends on it, which is never looked into here.
#undef LIBXML_ICU_ENABLED

#include <libxml/HTMLparser.h>
#include <libxml/tree.h>

/// Frees a string that libxml2 handed over. Its own xmlFree is a variable, which Swift cannot use safely.
static inline void authflow_xml_free(xmlChar *string) {
    xmlFree(string);
}
