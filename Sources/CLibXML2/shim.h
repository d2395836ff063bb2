#pragma once

#include <libxml/HTMLparser.h>
#include <libxml/tree.h>
