/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The forms in which a secret's bytes may turn up: as they are, in base64 (both alphabets, at each of the three places
 * that it may have among other bytes), percent-encoded, escaped for JSON, in hex. Whoever looks for all of them finds the
 * secret wherever one of these encodings was applied once. Pure: memory is the caller's, so that it can be locked.
 *
 * Of base64 only the characters that depend on nothing but the secret are looked for: what stands before and behind it
 * changes up to two characters at either end.
 *
 * Invariants
 *  F1  Every form of forms_make() is unlike the others, and at least FORMS_SHORTEST long; what is shorter is left out.
 *  F2  forms_render() of a kind gives the same bytes as forms_make() has for it.
 */
#ifndef VAULT_FORMS_H
#define VAULT_FORMS_H

#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

#define FORMS_SHORTEST 4
#define FORMS_SECRET_MAX (64u << 10)

enum form_kind {
	FORM_RAW,
	FORM_BASE64_0, /* begins a group of three */
	FORM_BASE64_1, /* one byte stands before it in its group */
	FORM_BASE64_2,
	FORM_BASE64URL_0,
	FORM_BASE64URL_1,
	FORM_BASE64URL_2,
	FORM_PERCENT,	      /* all but letters, digits and -._~ ; upper-case hex */
	FORM_PERCENT_LOWER,   /* the same in lower-case hex */
	FORM_COMPONENT,	      /* as JavaScript's encodeURIComponent: !*'() kept too */
	FORM_COMPONENT_LOWER, /* */
	FORM_PATH,	      /* "/" kept too, as Python's quote() */
	FORM_PATH_LOWER,      /* */
	FORM_FORM,	      /* application/x-www-form-urlencoded: space is +, *-._ kept */
	FORM_FORM_LOWER,      /* */
	FORM_PERCENT_ALL,     /* every byte */
	FORM_PERCENT_ALL_LOWER,
	FORM_JSON,	   /* what must be escaped is, in the short way where there is one */
	FORM_JSON_SLASH,   /* and "/" is \/ */
	FORM_JSON_HTML,	   /* and < > & are \u003c …, as Go has it */
	FORM_JSON_ASCII,   /* what is not ASCII is \uXXXX; a text that is not UTF-8 has no such form */
	FORM_JSON_U,	   /* every character is \u00xx */
	FORM_JSON_U_UPPER, /* the same in upper-case hex */
	FORM_HEX,
	FORM_HEX_UPPER,
	FORM_COUNT
};

/* For people: "base64", "hex". */
const char *form_name(enum form_kind k);

struct form {
	enum form_kind kind; /* the first in the order above that has these bytes */
	const uint8_t *bytes;
	size_t len;
};

struct forms {
	struct form v[FORM_COUNT];
	size_t n;
	size_t longest;
};

/* Bytes of memory that forms_make() wants for a secret of this length. */
size_t forms_size(size_t secret_len);

/* All forms, in `mem`, which must outlive them. -EINVAL for an empty secret or one past FORMS_SECRET_MAX, -ENOSPC when `cap`
 * is below forms_size(). */
int forms_make(struct forms *ret, const void *secret, size_t len, void *mem, size_t cap) MUST_CHECK;

/* One form of any bytes: for a placeholder that is to take a secret's place in the same encoding. Returns its length, which
 * may be 0 where there is no such form, or -ENOSPC. */
long forms_render(enum form_kind kind, const void *secret, size_t len, void *out, size_t cap) MUST_CHECK;

/* The first of any form in `text`: its offset, and which in *ret (may be NULL); the longest where several begin. -1: none. */
long forms_find(const struct forms *f, const void *text, size_t len, const struct form **ret);

#endif
