/* SPDX-License-Identifier: Apache-2.0 */
/* The table of trigger.c, for it and for the test that knows each row. */
#ifndef WORKSPACE_TRIGGER_TABLE_H
#define WORKSPACE_TRIGGER_TABLE_H

#include <stddef.h>

/* One or more names in a row, anywhere in a path; what is below is meant too. A "*" stands for any bytes of a name. */
struct trigger_row {
	const char *name;
	const char *below;  /* the next name, or several without "*"; NULL: any or none */
	const char *why;    /* for people */
	const char *reader; /* which program reads it, when, and where that is documented */
};

extern const struct trigger_row trigger_rows[];
extern const size_t n_trigger_rows;

#endif
