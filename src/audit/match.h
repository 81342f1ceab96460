/* SPDX-License-Identifier: Apache-2.0 */
/* Does a line pass a filter? Shared by the forward and the backward reader of the log. */
#ifndef AUDIT_MATCH_H
#define AUDIT_MATCH_H

#include "audit/lines.h"
#include "audit/query.h"
#include "base/clock.h"

struct match {
	struct audit_filter filter;
	char since[CLOCK_TEXT_LEN]; /* as text, which sorts like time; empty: all */
	/* Texts that a matching line must contain; empty: any. */
	struct {
		char text[96];
		size_t len;
	} has[2];
};

void match_init(struct match *m, const struct audit_filter *f);

/* Fills in is_event and line of a record whose text is set. */
bool match_line(const struct match *m, enum lines_state state, struct audit_record *rec);

#endif
