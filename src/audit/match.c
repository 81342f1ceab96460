/* SPDX-License-Identifier: Apache-2.0 */
/* Filters lines of the log (match.h). Lines that cannot match are skipped without being parsed. Pure. */

#include "audit/match.h"

#include "base/cleanup.h"

#include <stdio.h>
#include <string.h>

static void add_required_text(struct match *m, size_t i, const char *key, const char *value)
{
	if (value && strlen(value) <= 64)
		m->has[i].len = (size_t)snprintf(m->has[i].text, sizeof(m->has[i].text), "%s%s", key, value);
}

void match_init(struct match *m, const struct audit_filter *f)
{
	*m = (struct match){ .filter = *f };
	if (f->since)
		clock_format(f->since, m->since);
	add_required_text(m, 0, "\"sandbox\":\"", f->sandbox);
	add_required_text(m, 1, "\"type\":\"", f->type);
}

static bool type_matches(const struct line *l, const char *type)
{
	size_t n = strlen(type);

	return l->type_len >= n && memcmp(l->type, type, n) == 0 && (l->type_len == n || l->type[n] == '.');
}

static bool sandbox_matches(const struct line *l, const char *sandbox)
{
	size_t n = strlen(sandbox);

	return l->sandbox && l->sandbox_len >= n && memcmp(l->sandbox, sandbox, n) == 0;
}

bool match_line(const struct match *m, enum lines_state state, struct audit_record *rec)
{
	const struct audit_filter *f = &m->filter;
	const struct line *l = &rec->line;

	rec->is_event = false;
	rec->line = (struct line){ 0 };
	/* Most lines of a long log do not match: they are not parsed. */
	for (size_t i = 0; i < ARRAY_SIZE(m->has); i++) {
		if (m->has[i].len &&
		    (!rec->text || !memmem(rec->text, rec->len, m->has[i].text, m->has[i].len)))
			return false;
	}
	rec->is_event = state == LINES_WHOLE && line_parse(rec->text, rec->len, &rec->line) == 0;
	if (!rec->is_event) {
		rec->line = (struct line){ 0 };
		return !f->since && !f->sandbox && !f->type;
	}
	return (!f->since || memcmp(l->time, m->since, LINE_TIME_LEN) >= 0) &&
	       (!f->type || type_matches(l, f->type)) && (!f->sandbox || sandbox_matches(l, f->sandbox));
}
