/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The modes that a program has set on a terminal, derived from its output. A prompt of ours that interrupts the
 * program resets the terminal, and restores these modes afterwards. Pure. The output is hostile, but whatever it is,
 * the restored modes are ones that the program could have set itself, so it gains nothing.
 */
#ifndef CODEC_TERMMODES_H
#define CODEC_TERMMODES_H

#include "base/buf.h"

#include <stdbool.h>
#include <stdint.h>

#define TERMMODES_KITTY 8 /* levels of the stack of keyboard flags that are kept */

struct termmodes {
	uint32_t changed; /* a bit for each mode of the table that differs from its default */
	bool keypad;	  /* ESC = */
	uint8_t keys;	  /* modifyOtherKeys */
	uint8_t kitty[TERMMODES_KITTY], n_kitty;
	uint8_t at; /* state of the parser within a sequence */
	char held[32];
	uint8_t n_held;
};

#define TERMMODES_INIT ((struct termmodes){ 0 })

void termmodes_feed(struct termmodes *t, const void *data, size_t len);

/* Does every mode have its default? */
bool termmodes_is_default(const struct termmodes *t);

/* Writes the sequences that set these modes on a terminal that has the defaults. */
void termmodes_restore(const struct termmodes *t, struct buf *out);

#endif
