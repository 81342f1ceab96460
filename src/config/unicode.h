/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A policy takes names in the one form that is on the wire (xn--…). Who writes bücher.example is told that form; the
 * name itself stays refused, for what it looks like and what it is may differ. For the same reason a file has no characters
 * that its readers do not see.
 */
#ifndef CONFIG_UNICODE_H
#define CONFIG_UNICODE_H

#include "base/buf.h"
#include "base/err.h"

/* The punycode form of a name in UTF-8; -EINVAL when it is not UTF-8 or nothing to encode. */
int unicode_to_ascii(const char *name, struct buf *ret) MUST_CHECK;

/* Puts that form into e's hint when the name has one. */
void unicode_hint(const char *name, struct err *e);

/* Nothing in a file may be read by YAML and not be seen by people: line breaks that only YAML takes for such (U+0085, U+2028, a
 * lone carriage return), controls, what turns the direction of text, what is invisible. -EINVAL with
 * "NAME:LINE:COLUMN: " and the code point; also for what is not UTF-8. */
int unicode_check_seen(const char *name, const char *text, size_t len, struct err *e) MUST_CHECK;

#endif
