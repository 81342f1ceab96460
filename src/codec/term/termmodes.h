/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which modes a program has set on a terminal, by what it wrote: for who takes the terminal for a moment, resets it, and wants
 * to give it back as it was. Pure. Hostile bytes: whatever comes, the state is one that the program could have set itself, so
 * giving it back gives it nothing.
 */
#ifndef CODEC_TERMMODES_H
#define CODEC_TERMMODES_H

#include "base/buf.h"

#include <stdbool.h>
#include <stdint.h>

#define TERMMODES_KITTY 8 /* how deep the stack of keyboard flags is remembered */

struct termmodes {
	uint32_t changed; /* a bit for each mode of the table that is not as it is by default */
	bool keypad;	  /* ESC = */
	uint8_t keys;	  /* modifyOtherKeys */
	uint8_t kitty[TERMMODES_KITTY], n_kitty;
	uint8_t at; /* where in a sequence */
	char held[32];
	uint8_t n_held;
};

#define TERMMODES_INIT ((struct termmodes){ 0 })

void termmodes_feed(struct termmodes *t, const void *data, size_t len);

/* Has the program left every mode as a terminal has it by default? */
bool termmodes_is_default(const struct termmodes *t);

/* What sets a terminal with default modes to these. */
void termmodes_restore(const struct termmodes *t, struct buf *out);

#endif
