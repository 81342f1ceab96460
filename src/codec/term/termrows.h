/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Words for a person's terminal of a known width, row by row, where some of the words are an attacker's. Pure.
 *
 * A terminal breaks a long line by itself, and goes on at its left edge: with enough letters and spaces whoever wrote the line
 * writes whole rows, and those can look like ours. So the rows are made here.
 *
 * Invariants
 *  T1  A row begins with a label of the caller's, or with TERMROWS_MARK. Where these stand nothing of a value ever does.
 *  T2  No row has more cells than the terminal has columns, less one. Each byte counts as a cell: no character of UTF-8 takes more
 *      cells than it has bytes, whatever the terminal thinks of its width, and wherever it shows bytes.
 *  T3  What is shown of a value is ASCII and characters that stand for themselves in a place of their own. What joins others, turns the
 *      direction, is a space of another kind or draws frames is shown as \u{NNNN}, what is no text as \xNN.
 *  T4  Spaces in a row are spaces in the value, and at most two; more are counted: [57 spaces]. In lines (termrows_lines) an
 *      indentation of up to TERMROWS_INDENT is shown as it is, and more than two empty lines in a row are counted: [57 empty lines].
 *      The lines of termrows_text() are the caller's.
 */
#ifndef CODEC_TERMROWS_H
#define CODEC_TERMROWS_H

#include "base/buf.h"

#include <stddef.h>

#define TERMROWS_COLS 80  /* where nobody knows */
#define TERMROWS_MIN 20	  /* on what is narrower nothing is laid out well */
#define TERMROWS_LABEL 8  /* letters at most */
#define TERMROWS_GUTTER 9 /* where values begin */
#define TERMROWS_INDENT 16
#define TERMROWS_MARK "         | "

/* Columns to lay out for: those of the terminal, 0 when there is none. */
unsigned termrows_cols(unsigned cols);

/* T3, T4: one line of it. */
void termrows_plain(struct buf *out, const char *s, size_t len);
/* The same in quotes, that nothing in it can end, and in ASCII. */
void termrows_quote(struct buf *out, const char *s, size_t len);

/* "label    value", and as many marked rows as it takes. No rows for an empty value. */
void termrows_add(struct buf *out, unsigned cols, const char *label, const char *value);
/* Marked rows only: what belongs to the label above. */
void termrows_more(struct buf *out, unsigned cols, const char *value);
/* Each line of a text in marked rows, `max` of these at most. Returns how many were left out. */
size_t termrows_lines(struct buf *out, unsigned cols, const char *text, size_t len, size_t max);

/* Goes on in a row of which `used` cells are taken; the following ones begin with `next`. The text is plain already. */
void termrows_wrap(struct buf *out, unsigned cols, size_t used, const char *next, const char *text);

/* Each line of a text whose lines begin with marks of our own, a diff say: what does not fit goes on in rows that begin with `next`,
 * which none of its lines does. */
void termrows_text(struct buf *out, unsigned cols, const char *next, const char *text, size_t len);

size_t termrows_count(const char *rows);
/* The first n rows, in bytes. */
size_t termrows_skip(const char *rows, size_t n);
/* As much of s as `cells` have room for, with an ellipsis where it was cut; no more than that when there are too few. */
void termrows_cut(struct buf *out, const char *s, size_t cells);
/* Bytes of s that take no more than `cells`, and end with a character. */
size_t termrows_fit(const char *s, size_t cells);

#endif
