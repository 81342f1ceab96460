/* SPDX-License-Identifier: Apache-2.0 */
/* The tokens of a GraphQL document: the interface between graphql.c and graphql_lex.c. */
#ifndef CODEC_GRAPHQL_LEX_H
#define CODEC_GRAPHQL_LEX_H

#include "codec/slice.h"

#include <stdint.h>

enum gql_token {
	GQL_END,
	GQL_NAME,
	GQL_NUMBER,
	GQL_STRING, /* a "string" or a """block string""" */
	GQL_SPREAD, /* ... */
	GQL_PUNCT,  /* one of !$&():=@[]{|} */
	GQL_BAD,    /* gql_lex.why is set */
};

struct gql_lex {
	const char *s;
	size_t len;
	size_t at;     /* offset after the current token */
	unsigned left; /* how many tokens may still be read */
	enum gql_token token;
	struct slice text; /* of the current token */
	const char *why;   /* static text */
	bool too_many;	   /* GQL_BAD because `left` was used up */
};

/* Moves to the next token. Stays at GQL_END and at GQL_BAD. */
void gql_next(struct gql_lex *l);

static inline bool gql_is(const struct gql_lex *l, char punct)
{
	return l->token == GQL_PUNCT && l->text.p[0] == punct;
}

static inline bool gql_is_name(const struct gql_lex *l, const char *name)
{
	return l->token == GQL_NAME && slice_eq(l->text, name);
}

#endif
