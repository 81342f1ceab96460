/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Is this the part behind "xn--" of a label, in lower case, that RFC 3492 decodes to at least one character outside
 * ASCII, none of them a surrogate or over U+10FFFF? Decoding is one-to-one, so nothing needs to be kept. Pure.
 */
#ifndef CODEC_PUNYCODE_H
#define CODEC_PUNYCODE_H

#include <stdbool.h>
#include <stddef.h>

bool punycode_is_valid(const char *s, size_t len);

#endif
