/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Output of a sandbox on its way to a person's terminal when the command has no terminal of its own: colours
 * pass, everything that could move, hide, rename, answer or reprogram is shown instead of done. Pure.
 *
 * Kept: printable text in valid UTF-8, newline, tab, carriage return, and SGR sequences (ESC [ digits ; m)
 * except the one that conceals text. Everything else is written visibly as \xNN or \u{NNNN}.
 * Sequences and characters may be split anywhere between two calls.
 */
#ifndef CODEC_TERMSAFE_H
#define CODEC_TERMSAFE_H

#include "base/buf.h"

#include <stdbool.h>
#include <stdint.h>

struct termsafe {
	char held[48]; /* the beginning of a sequence or character whose end has not come yet */
	size_t n_held;
	bool coloured; /* the last SGR was not a reset */
};

#define TERMSAFE_INIT ((struct termsafe){ 0 })

void termsafe_feed(struct termsafe *t, struct buf *out, const void *data, size_t len);

/* The end: what is still held is shown, and colours are reset. */
void termsafe_finish(struct termsafe *t, struct buf *out);

#endif
