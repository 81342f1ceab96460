/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A policy takes names only in the form that is on the wire (xn--…). For bücher.example the message names that form; the
 * name itself is refused, because what it looks like and what it is may differ. For the same reason a file may not contain
 * characters that its readers cannot see.
 */
#ifndef CONFIG_UNICODE_H
#define CONFIG_UNICODE_H

#include "base/buf.h"
#include "base/err.h"

/* The punycode form of a UTF-8 name; -EINVAL if it is not UTF-8 or has nothing to encode. */
int unicode_to_ascii(const char *name, struct buf *ret) MUST_CHECK;

/* Puts that form into e's hint if the name has one. */
void unicode_hint(const char *name, struct err *e);

/* Nothing in a file may be read by YAML but not be seen by people: line breaks that only YAML recognises
 * (U+0085, U+2028, a lone carriage return), control characters, direction changes, invisible characters.
 * -EINVAL with "NAME:LINE:COLUMN: " and the code point; also for bytes that are not UTF-8. */
int unicode_check_visible(const char *name, const char *text, size_t len, struct err *e) MUST_CHECK;

#endif
