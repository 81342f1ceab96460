/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The part of YAML that our files are written in, as a tree whose nodes know where they stand.
 *
 * Files are read by tables: a map's keys are looked up in one, each with the function that takes its value. Whatever a
 * file says wrongly is refused with FILE:LINE:COLUMN, what was expected, and the nearest word that is known.
 *
 * Invariants
 *  Y1  One document of mappings with plain keys, lists and scalars. Anchors, aliases, tags, directives, merge keys,
 *      duplicate keys and a second document are refused: what a file means can be read off its lines.
 *  Y2  Size, depth and number of nodes are bounded; every text is UTF-8 without NUL, as libyaml checks it.
 *  Y3  Scalars are text. What looks like a number or a boolean is one only where it is asked for, and a quoted one is not.
 */
#ifndef CONFIG_YAML_H
#define CONFIG_YAML_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define YAML_DEPTH_MAX 16
#define YAML_NODES_MAX 200000

enum yaml_kind { YAML_TEXT, YAML_LIST, YAML_MAP };

struct yaml_node {
	enum yaml_kind kind;
	uint32_t line, column; /* from 1 */
	bool quoted;	       /* of a text: in quotes or a block */
	char *text;
	size_t len;
	struct yaml_node **items; /* of a list; of a map: key, value, key, value … */
	size_t n;		  /* items, or pairs */
};

struct yaml {
	char *file;		/* for messages */
	struct yaml_node *root; /* NULL: the file has nothing in it */
};

#define YAML_INIT ((struct yaml){ 0 })

int yaml_parse(struct yaml *ret, const char *file, const char *text, size_t len, struct err *e) MUST_CHECK;
void yaml_release(struct yaml *y);

/* Sets "FILE:LINE:COLUMN: …" and returns -EINVAL. `n` may be NULL: the file as a whole. */
int yaml_wrong(const struct yaml *y, const struct yaml_node *n, struct err *e, const char *fmt, ...)
	PRINTF_LIKE(4, 5);

struct yaml_key {
	const char *name;
	int (*take)(void *ctx, const struct yaml *y, const struct yaml_node *v, struct err *e);
};

/* Takes every pair of a map by its table. `what` names the map in messages: "a rule". */
int yaml_take(const struct yaml *y, const struct yaml_node *n, const char *what, const struct yaml_key *keys,
	      size_t n_keys, void *ctx, struct err *e) MUST_CHECK;

/* Calls take() for every item of a list; a lone text or map counts as a list of one where `or_one`. */
int yaml_each(const struct yaml *y, const struct yaml_node *n, const char *what, bool or_one,
	      int (*take)(void *ctx, const struct yaml *y, const struct yaml_node *v, struct err *e),
	      void *ctx, struct err *e) MUST_CHECK;

/* The value of a key, NULL when it is not there. */
const struct yaml_node *yaml_get(const struct yaml_node *map, const char *key);

/* Scalars. The text stays the tree's. An empty one is refused. */
int yaml_text(const struct yaml *y, const struct yaml_node *n, const char *what, const char **ret,
	      struct err *e) MUST_CHECK;
int yaml_bool(const struct yaml *y, const struct yaml_node *n, const char *what, bool *ret,
	      struct err *e) MUST_CHECK;
int yaml_u64(const struct yaml *y, const struct yaml_node *n, const char *what, uint64_t min, uint64_t max,
	     uint64_t *ret, struct err *e) MUST_CHECK;
/* The place among words that are separated by spaces. */
int yaml_one_of(const struct yaml *y, const struct yaml_node *n, const char *what, const char *words,
		struct err *e) MUST_CHECK;

#endif
