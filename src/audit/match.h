/* SPDX-License-Identifier: Apache-2.0 */
/* Does a line pass a filter? Shared by those who read the log forwards and backwards. */
#ifndef AUDIT_MATCH_H
#define AUDIT_MATCH_H

#include "audit/lines.h"
#include "audit/query.h"
#include "base/clock.h"

struct match {
	struct audit_filter filter;
	char since[CLOCK_TEXT_LEN]; /* as text, which sorts like time; empty: all */
	/* What a line that passes has in it somewhere; empty: anything. */
	struct {
		char text[96];
		size_t len;
	} has[2];
};

void match_init(struct match *m, const struct audit_filter *f);

/* Fills is_event and line of a record whose text is there. */
bool match_line(const struct match *m, enum lines_state state, struct audit_record *rec);

#endif
