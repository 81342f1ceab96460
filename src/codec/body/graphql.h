/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a GraphQL request would do: its operations and the fields at their root (GraphQL October 2021). Pure; slices are
 * into the document. A field is given by its name, whatever alias it goes by; inline fragments and fragment spreads at
 * the root are followed. Directives (@skip, @include) are not believed: a field counts whether it would run or not.
 *
 * Invariants
 *  Q1  The whole document is parsed, also what is not selected: an executable document by the grammar, or -EINVAL.
 *      Definitions of types are refused.
 *  Q2  Depth at most GRAPHQL_DEPTH_MAX, tokens GRAPHQL_TOKENS_MAX, operations, fragments and root fields as below;
 *      time grows with the length of the document. Over a limit is -E2BIG: deny, never a shorter list.
 *  Q3  A fragment that is spread at the root and unknown, one that is defined twice, a second operation of the same
 *      name, an unnamed operation beside others, a root without a field: -EINVAL.
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
	uint32_t at;			/* its own: where its selection set begins */
};

struct graphql_doc {
	struct graphql_op ops[GRAPHQL_OPS_MAX];
	unsigned n_ops; /* at least 1 */
	int selected;	/* which of them would run */
	struct slice fields[GRAPHQL_FIELDS_MAX];
	uint16_t times
		[GRAPHQL_FIELDS_MAX]; /* how often each stands there, under whatever aliases; 65535: that often or more */
	unsigned n_fields;
};

/*
 * op_name is the request's operationName; NULL or empty when it has none, which is -EINVAL when the document has more than one
 * operation; so is a name that no operation has. *ret is large (6 KiB), and all zeros on failure.
 */
int graphql_parse(const char *doc, size_t len, const char *op_name, size_t op_name_len,
		  struct graphql_doc *ret, struct err *e) MUST_CHECK;

/* Where one use of a field has a member of an argument from: `field(arg: {member: "text"})`, `{member: $text}`, or `arg: $text`. */
enum graphql_from {
	GRAPHQL_NOWHERE, /* it is not there, there twice, or neither a plain text nor a variable */
	GRAPHQL_TEXT,	 /* a string without escapes; `text` without its quotes */
	GRAPHQL_MEMBER,	 /* a variable that is the member */
	GRAPHQL_ARGUMENT /* a variable that is the whole argument */
};

struct graphql_use {
	enum graphql_from from;
	struct slice text;
};

/* What is looked for, and where it goes. */
struct graphql_seek {
	const char *field, *arg, *member;
	struct graphql_use *v;
	unsigned max;
};

/*
 * Every use of the field at the root of the operation that would run, whatever its alias, through fragments: how many, or negative as
 * graphql_parse() has it; more than `max` is -E2BIG.
 */
int graphql_uses(const char *doc, size_t len, const char *op_name, size_t op_name_len,
		 const struct graphql_seek *s, struct err *e) MUST_CHECK;

const char *graphql_type_name(enum graphql_type t); /* "query" */

#endif
