/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Columns of text for people. Control characters in a cell are escaped as it is added; widths count
 * characters, not bytes; the last column is not padded.
 */
#ifndef CLI_TABLE_H
#define CLI_TABLE_H

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"

#include <stddef.h>

struct table {
	struct strv cells; /* row by row */
	size_t columns;
	size_t width; /* of the terminal in columns: the last column is cut so that no row wraps; 0: nothing is cut */
};

#define TABLE_COLUMNS_MAX 16
#define TABLE_INIT(columns_) ((struct table){ .columns = (columns_) })

/* Adds the next cell. With max > 0 a longer text is cut to that many characters, the last of which is an
 * ellipsis. */
int table_add(struct table *t, const char *text, size_t max) MUST_CHECK;
void table_format(const struct table *t, struct buf *out);
void table_release(struct table *t);

/* The columns that valid UTF-8 takes, counting one for each character. */
size_t table_width(const char *s);

#define autotable CLEANUP(table_release)

#endif
