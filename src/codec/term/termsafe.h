/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes output of a sandbox safe for a person's terminal when the command has no terminal of its own. Colours pass. A
 * sequence that could move the cursor, hide text, set the title, make the terminal send bytes or reprogram it is
 * shown as text and not executed. Pure.
 *
 * Kept: printable text in valid UTF-8, newline, tab, carriage return, and SGR sequences (ESC [ digits ; m)
 * except the one that conceals text. Everything else is written visibly as \xNN or \u{NNNN}.
 * A sequence or character may be divided between two calls at any byte.
 */
#ifndef CODEC_TERMSAFE_H
#define CODEC_TERMSAFE_H

#include "base/buf.h"

#include <stdbool.h>
#include <stdint.h>

struct termsafe {
	char held[48]; /* an incomplete sequence or character at the end of the last call's bytes */
	size_t n_held;
	bool coloured; /* the last SGR was not a reset */
};

#define TERMSAFE_INIT ((struct termsafe){ 0 })

void termsafe_feed(struct termsafe *t, struct buf *out, const void *data, size_t len);

/* To be called at the end: shows the held bytes, and resets colours. */
void termsafe_finish(struct termsafe *t, struct buf *out);

#endif
