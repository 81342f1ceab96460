/* SPDX-License-Identifier: Apache-2.0 */
/*
 * application/x-www-form-urlencoded, as in a query or a form: so strict that every server reads it the same
 * way. Pure.
 */
#ifndef CODEC_HTTP_FORM_H
#define CODEC_HTTP_FORM_H

#include "base/buf.h"
#include "codec/slice.h"

/* Cuts off the first parameter; false: none is left. */
bool http_form_next(struct slice *form, struct slice *name, struct slice *value);
/* Appends the decoded text to `out`. 0, or -EBADMSG, -ENOMEM. */
int http_form_decode(struct slice s, struct buf *out) MUST_CHECK;

/*
 * Is there a parameter of this name, in any encoding or letter case, between any separators? Brackets after
 * it count too ("query[]"), and names that PHP turns into it (".method" for "_method").
 */
bool http_form_has(struct slice form, const char *name);
/* The same, but only parameters whose raw value is not `fine`. */
bool http_form_has_but(struct slice form, const char *name, bool (*fine)(const void *ctx, struct slice value),
		       const void *ctx);

/* Is there a parameter whose name is, byte for byte, none of these n? */
bool http_form_has_other(struct slice form, const char *const *names, size_t n);

/*
 * The decoded value: 1, or 0 when the parameter is missing; -EBADMSG when it occurs twice, its name is
 * encoded, a "%" is invalid, or the form has a ";" anywhere.
 */
int http_form_get(struct slice form, const char *name, struct buf *out) MUST_CHECK;

#endif
