/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The difference of two texts in unified form, for people. Pure, and bounded in time and memory whatever the texts are:
 * past TEXTDIFF_EDITS_MAX insertions and deletions it stays correct but is no longer the shortest.
 */
#ifndef WORKSPACE_TEXTDIFF_H
#define WORKSPACE_TEXTDIFF_H

#include "base/buf.h"
#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>

#define TEXTDIFF_EDITS_MAX 1000

/* Would anybody call this text? */
bool textdiff_is_text(const char *s, size_t len);

/* Adds hunks with three lines of context; what is in the texts is made harmless for a terminal. Nothing when they are
 * equal. 0 or -ENOMEM. */
int textdiff(const char *a, size_t a_len, const char *b, size_t b_len, struct buf *out) MUST_CHECK;

#endif
