/* SPDX-License-Identifier: Apache-2.0 */
/* application/x-www-form-urlencoded, as in a query or a form: strict enough that every server reads the same. Pure. */
#ifndef EGRESS_HTTP_FORM_H
#define EGRESS_HTTP_FORM_H

#include "base/buf.h"
#include "codec/slice.h"

/* Cuts the first parameter off; false: there is none. */
bool http_form_next(struct slice *form, struct slice *name, struct slice *value);
/* Added to `out`. 0, or -EBADMSG, -ENOMEM. */
int http_form_decode(struct slice s, struct buf *out) MUST_CHECK;

/*
 * Is there a parameter of this name, in whatever encoding or letter case, between whichever separators? Brackets behind it
 * count too ("query[]"), and what PHP turns into it (".method" for "_method").
 */
bool http_form_has(struct slice form, const char *name);
/* Likewise, one whose value, as it stands there, is not `fine`. */
bool http_form_has_but(struct slice form, const char *name, bool (*fine)(const void *ctx, struct slice value),
		       const void *ctx);

/* Is there one that, to the letter, is none of these n? */
bool http_form_has_other(struct slice form, const char *const *names, size_t n);

/* Its decoded value: 1, 0 when it is not there; -EBADMSG when it is there twice, its name is encoded, a "%" is wrong, or a ";" stands
 * anywhere. */
int http_form_get(struct slice form, const char *name, struct buf *out) MUST_CHECK;

#endif
