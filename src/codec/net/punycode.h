/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Is this a valid rest of a label after "xn--"? It must be in lower case, and RFC 3492 must decode it to a text with
 * at least one character outside ASCII, no surrogate and nothing over U+10FFFF. Decoding is one-to-one, so the
 * decoded text is not needed to compare two names. Pure.
 */
#ifndef CODEC_PUNYCODE_H
#define CODEC_PUNYCODE_H

#include <stdbool.h>
#include <stddef.h>

bool punycode_is_valid(const char *s, size_t len);

#endif
