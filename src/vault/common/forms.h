/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The forms in which a secret's bytes may appear: raw, in base64 (both alphabets, at each of the three alignments),
 * percent-encoded, escaped for JSON, in hex. A search for all of them finds the secret wherever one of these encodings was
 * applied once. Pure: the caller supplies the memory, so that it can be locked.
 *
 * Of base64 only those characters are searched that depend on nothing but the secret: neighbouring bytes
 * change up to two characters at either end.
 *
 * Invariants
 *  F1  The forms of forms_make() differ from each other and have at least FORMS_SHORTEST bytes; shorter ones are left out.
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
	FORM_BASE64_0, /* aligned to a group of three bytes */
	FORM_BASE64_1, /* one byte precedes it in its group */
	FORM_BASE64_2,
	FORM_BASE64URL_0,
	FORM_BASE64URL_1,
	FORM_BASE64URL_2,
	FORM_PERCENT,	    /* all but letters, digits and -._~ ; upper-case hex */
	FORM_PERCENT_LOWER, /* the same in lower-case hex */
	FORM_COMPONENT,	    /* as JavaScript's encodeURIComponent: keeps !*'(), too */
	FORM_COMPONENT_LOWER,
	FORM_PATH, /* keeps "/", too, as Python's quote() */
	FORM_PATH_LOWER,
	FORM_FORM, /* application/x-www-form-urlencoded: space is +, keeps *-._ */
	FORM_FORM_LOWER,
	FORM_PERCENT_ALL, /* every byte */
	FORM_PERCENT_ALL_LOWER,
	FORM_JSON,	   /* only mandatory escapes, in their short form where there is one */
	FORM_JSON_SLASH,   /* also "/" as \/ */
	FORM_JSON_HTML,	   /* also < > & as \u003c …, as Go does */
	FORM_JSON_ASCII,   /* non-ASCII as \uXXXX; text that is not UTF-8 has no such form */
	FORM_JSON_U,	   /* every character as \u00xx */
	FORM_JSON_U_UPPER, /* the same in upper-case hex */
	FORM_HEX,
	FORM_HEX_UPPER,
	FORM_COUNT
};

/* For people: "base64", "hex". */
const char *form_name(enum form_kind k);

struct form {
	enum form_kind kind; /* the first in the order above that yields these bytes */
	const uint8_t *bytes;
	size_t len;
};

struct forms {
	struct form v[FORM_COUNT];
	size_t n;
	size_t longest;
};

/* The memory that forms_make() needs for a secret of this length. */
size_t forms_size(size_t secret_len);

/* Makes all forms in `mem`, which must outlive them. -EINVAL for an empty secret or one longer than
 * FORMS_SECRET_MAX, -ENOSPC when `cap` is less than forms_size(). */
int forms_make(struct forms *ret, const void *secret, size_t len, void *mem, size_t cap) MUST_CHECK;

/* Renders one form of any bytes, for example of a placeholder that replaces a secret in the same encoding.
 * Returns the length, 0 if there is no such form, or -ENOSPC. */
long forms_render(enum form_kind kind, const void *secret, size_t len, void *out, size_t cap) MUST_CHECK;

/* Finds the first occurrence of any form: returns its offset, and the form in *ret (may be NULL); of several
 * that begin at the same place the longest. -1: none. */
long forms_find(const struct forms *f, const void *text, size_t len, const struct form **ret);

#endif
