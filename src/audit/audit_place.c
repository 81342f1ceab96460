/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds an event of the log by its number with a binary search over the file (audit_place.h). Writes nothing.
 */

#include "audit/audit_place.h"

#include "audit/line.h"
#include "audit/lines.h"
#include "base/cleanup.h"

#define NEAR 65536 /* is read at once anyway */

/* Positions at the first line that starts at or after `from`. */
static int seek_to_line(struct lines *in, uint64_t from)
{
	enum lines_state state;
	const char *text;
	size_t len;

	/* Start one byte earlier, so that a line that begins exactly here is not skipped. */
	lines_seek(in, from ? from - 1 : 0);
	return from ? lines_next(in, &text, &len, &state) : 1;
}

/* The next event that begins before `to`. 1: *ret_at is its offset; 0: there is none, and *ret_at is after
 * the last whole line. */
static int next_event_before(struct lines *in, uint64_t to, struct line *ret, uint64_t *ret_at)
{
	enum lines_state state;
	const char *text;
	size_t len;

	for (;;) {
		uint64_t at = lines_offset(in);
		int r = at < to ? lines_next(in, &text, &len, &state) : 0;

		if (r < 0)
			return r;
		*ret_at = at;
		if (r == 0 || state == LINES_TORN)
			return 0;
		if (state == LINES_WHOLE && line_parse(text, len, ret) == 0)
			return 1;
	}
}

int place_find(int fd, uint64_t size, uint64_t seq, uint64_t *ret)
{
	autolines struct lines in = LINES_FD(fd, size);
	uint64_t lo = 0, hi = size, at = 0;
	struct line l;
	int r;

	/* Events that begin before lo have smaller numbers; none that begins at or after hi has. */
	while (hi - lo > NEAR) {
		uint64_t mid = lo + (hi - lo) / 2;

		r = seek_to_line(&in, mid);
		if (r > 0)
			r = next_event_before(&in, hi, &l, &at);
		if (r < 0)
			return r;
		if (r > 0 && l.seq < seq)
			lo = at + 1;
		else
			hi = mid;
	}
	r = seek_to_line(&in, lo);
	while (r > 0 && (r = next_event_before(&in, size, &l, &at)) > 0 && l.seq < seq)
		;
	if (r < 0)
		return r;
	*ret = at;
	return 0;
}
