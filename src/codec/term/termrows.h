/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Text for a person's terminal, laid out in rows of a known width, where a part of the text may be an attacker's. Pure.
 *
 * A terminal wraps a long line and continues at its left edge. With enough letters and spaces the author of a line can
 * therefore fill whole rows, which then look like rows of ours. So the rows are made here.
 *
 * Invariants
 *  T1  A row begins with a label of the caller's, or with TERMROWS_MARK. No byte of a value is ever in those columns.
 *  T2  A row has at least one cell less than the terminal has columns. Each byte counts as a cell, because no UTF-8
 *      character takes more cells than it has bytes, whatever width the terminal assumes for it, even if it shows the
 *      single bytes.
 *  T3  A value is shown as ASCII and as characters that have a visible form and a cell of their own. Characters that
 *      join others, change the direction, are special spaces or draw frames are shown as \u{NNNN}, bytes that are no
 *      text as \xNN.
 *  T4  At most two adjacent spaces of a value are shown as spaces; more are shown as a count, [57 spaces]. In
 *      termrows_lines() an indentation of up to TERMROWS_INDENT is shown as it is, and more than two adjacent empty
 *      lines are shown as a count, [57 empty lines]. T4 does not hold for termrows_text(), whose lines the caller has
 *      marked.
 */
#ifndef CODEC_TERMROWS_H
#define CODEC_TERMROWS_H

#include "base/buf.h"

#include <stddef.h>

#define TERMROWS_COLS 80  /* when the width is unknown */
#define TERMROWS_MIN 20	  /* a narrower terminal gets rows of this width */
#define TERMROWS_LABEL 8  /* longest label, in letters */
#define TERMROWS_GUTTER 9 /* column where values begin */
#define TERMROWS_INDENT 16
#define TERMROWS_MARK "         | "

/* The width for the functions below, by the terminal's columns; 0: there is no terminal. */
unsigned termrows_cols(unsigned cols);

/* Adds a text as one line, by T3 and T4. */
void termrows_plain(struct buf *out, const char *s, size_t len);
/* The same, in ASCII and in double quotes. Quotes in the text become single, so the text cannot end the quotation. */
void termrows_quote(struct buf *out, const char *s, size_t len);

/* Adds "label    value", and marked rows for the rest of a long value. An empty value adds nothing. */
void termrows_add(struct buf *out, unsigned cols, const char *label, const char *value);
/* Adds marked rows only, which continue the label above. */
void termrows_more(struct buf *out, unsigned cols, const char *value);
/* Adds each line of a text in marked rows, at most `max` rows. Returns how many rows were left out. */
size_t termrows_lines(struct buf *out, unsigned cols, const char *text, size_t len, size_t max);

/* Continues a row that has `used` cells; further rows begin with `next`. The text must have the form of T3 already. */
void termrows_wrap(struct buf *out, unsigned cols, size_t used, const char *next, const char *text);

/*
 * Adds each line of a text whose lines begin with marks of ours, such as a diff. A long line continues in rows that
 * begin with `next`; no line of the text may begin so.
 */
void termrows_text(struct buf *out, unsigned cols, const char *next, const char *text, size_t len);

size_t termrows_count(const char *rows);
/* The length of the first n rows in bytes. */
size_t termrows_skip(const char *rows, size_t n);
/* Adds s, cut to `cells` with an ellipsis at its end; only the ellipsis where there is room for nothing else. */
void termrows_cut(struct buf *out, const char *s, size_t cells);
/* The length of the longest start of s that fits `cells` and does not divide a character. */
size_t termrows_fit(const char *s, size_t cells);

#endif
