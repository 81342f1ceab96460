/* SPDX-License-Identifier: Apache-2.0 */
/*
 * YAML as a small tree with positions: mappings, sequences and plain text, nothing else. Anchors, aliases, tags, merge
 * keys, duplicate keys, a second document and invisible characters (unicode.h) are refused with their position. The reader of a key
 * decides what a text means (a number, a word), so that "no" and 0x10 surprise nobody.
 */
#ifndef CONFIG_YTREE_H
#define CONFIG_YTREE_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>

#define YTREE_DEPTH_MAX 16
#define YTREE_NODES_MAX 100000
#define YTREE_KEYS_MAX 256 /* of one mapping */

enum ynode_kind { YNODE_TEXT, YNODE_MAP, YNODE_SEQ };

struct ynode {
	enum ynode_kind kind;
	unsigned line, column; /* from 1; columns in characters */
	unsigned end_line;     /* the last line that contains a part of it */
	bool quoted;	       /* a text in quotes is never null */
	bool flow;	       /* in brackets or braces; of a text: a literal (|, >), or on several lines */
	char *text;	       /* YNODE_TEXT; a key's text is in keys */
	struct ynode **keys;   /* YNODE_MAP */
	struct ynode **items;  /* values, or elements */
	size_t n;
};

/* `name` is for messages: "NAME:LINE:COLUMN: …". An empty text gives an empty mapping. */
int ytree_parse(const char *name, const char *text, size_t len, struct ynode **ret, struct err *e) MUST_CHECK;
void ynode_free(struct ynode *n);			    /* NULL is fine */
struct ynode *ynode_copy(const struct ynode *n) MUST_CHECK; /* NULL: out of memory */
struct ynode *ynode_new(enum ynode_kind kind, unsigned line, unsigned column) MUST_CHECK;
/* Takes ownership of key (NULL in a sequence) and value, even on failure. */
int ynode_add(struct ynode *to, struct ynode *key, struct ynode *value) MUST_CHECK;

/* Equal, ignoring positions in the file. */
bool ynode_eq(const struct ynode *a, const struct ynode *b);

/* The value of a key; NULL if there is none. */
const struct ynode *ynode_get(const struct ynode *map, const char *key);
bool ynode_is_null(const struct ynode *n);	    /* "", ~, null */
const char *ynode_kind_name(const struct ynode *n); /* "a list" */

static inline void ynode_freep(struct ynode **n)
{
	ynode_free(*n);
}

#endif
