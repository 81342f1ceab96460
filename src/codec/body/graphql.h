/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The effect of a GraphQL request: its operations and the fields at their root (GraphQL October 2021). Pure; slices
 * are into the document. A field is listed by its name, not by its alias; inline fragments and fragment spreads at
 * the root are followed. Directives (@skip, @include) are ignored: a field is listed whether it would run or not.
 *
 * Invariants
 *  Q1  The whole document is parsed, operations that would not run included: it is an executable document by the
 *      grammar, or -EINVAL. Definitions of types are refused.
 *  Q2  Depth, tokens, operations, fragments and root fields have the limits below, and time is linear in the length
 *      of the document. A document over a limit is -E2BIG, never a shorter list: the caller must deny it.
 *  Q3  -EINVAL: an undefined fragment that is spread at the root, a fragment that is defined twice, two operations of
 *      the same name, an unnamed operation beside others, a root without a field.
 */
#ifndef CODEC_GRAPHQL_H
#define CODEC_GRAPHQL_H

#include "base/err.h"
#include "codec/slice.h"

#include <stdint.h>

#define GRAPHQL_TEXT_MAX (1u << 20)
#define GRAPHQL_TOKENS_MAX 20000
#define GRAPHQL_WALK_MAX 40000 /* tokens looked at again to find the fields at the root */
#define GRAPHQL_DEPTH_MAX 64
#define GRAPHQL_OPS_MAX 32
#define GRAPHQL_FRAGMENTS_MAX 128
#define GRAPHQL_FIELDS_MAX 256

enum graphql_type { GRAPHQL_QUERY, GRAPHQL_MUTATION, GRAPHQL_SUBSCRIPTION, GRAPHQL_TYPE_COUNT };

struct graphql_op {
	enum graphql_type type;
	struct slice name;		/* empty: unnamed */
	uint16_t first_field, n_fields; /* in graphql_doc.fields; each name once */
	uint32_t at;			/* private: offset of its selection set */
};

struct graphql_doc {
	struct graphql_op ops[GRAPHQL_OPS_MAX];
	unsigned n_ops; /* at least 1 */
	int selected;	/* which of them would run */
	struct slice fields[GRAPHQL_FIELDS_MAX];
	uint16_t times
		[GRAPHQL_FIELDS_MAX]; /* uses of each at the root, under any alias; 65535 means that or more */
	unsigned n_fields;
};

/*
 * op_name is the request's operationName, NULL or empty when it has none. -EINVAL when it is missing and the document
 * has more than one operation, or when no operation has that name. *ret is large (6 KiB), and all zeros on failure.
 */
int graphql_parse(const char *doc, size_t len, const char *op_name, size_t op_name_len,
		  struct graphql_doc *ret, struct err *e) MUST_CHECK;

/*
 * The source of an argument's member in one use of a field: `field(arg: {member: "text"})` is GRAPHQL_TEXT,
 * `field(arg: {member: $text})` is GRAPHQL_MEMBER and `field(arg: $text)` is GRAPHQL_ARGUMENT.
 */
enum graphql_from {
	GRAPHQL_NOWHERE, /* absent, present twice, or neither a plain string nor a variable */
	GRAPHQL_TEXT,	 /* a string without escapes; `text` without its quotes */
	GRAPHQL_MEMBER,	 /* a variable that is the member */
	GRAPHQL_ARGUMENT /* a variable that is the whole argument */
};

struct graphql_use {
	enum graphql_from from;
	struct slice text;
};

/* The field, argument and member to look for, and the array for the uses that are found. */
struct graphql_seek {
	const char *field, *arg, *member;
	struct graphql_use *v;
	unsigned max;
};

/*
 * Finds every use of the field at the root of the selected operation, under any alias and in fragments. Returns their
 * number, or an error as graphql_parse() does; -E2BIG when there are more than `max`.
 */
int graphql_uses(const char *doc, size_t len, const char *op_name, size_t op_name_len,
		 const struct graphql_seek *s, struct err *e) MUST_CHECK;

const char *graphql_type_name(enum graphql_type t); /* "query" */

#endif
