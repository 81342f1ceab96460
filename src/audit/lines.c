/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads lines of a file or of memory (lines.h). Never stores more than one line of LINE_MAX_LEN bytes and a
 * chunk.
 */

#include "audit/lines.h"

#include "audit/line.h"
#include "base/cleanup.h"

#include <errno.h>
#include <string.h>

#define CHUNK 65536

/* Reads up to one more chunk. Returns the number of bytes, 0 at the end. */
static ssize_t fill_chunk(struct lines *l)
{
	size_t want = l->limit - l->off < CHUNK ? (size_t)(l->limit - l->off) : CHUNK;
	ssize_t n;
	char *p;

	if (want == 0)
		return 0;
	if (l->pos) {
		buf_consume(&l->buf, l->pos);
		l->pos = 0;
	}
	p = buf_reserve(&l->buf, want);
	if (!p)
		return -ENOMEM;
	if (l->fd < 0) {
		memcpy(p, l->mem + l->off, want);
		n = (ssize_t)want;
	} else {
		do
			n = pread(l->fd, p, want, (off_t)l->off);
		while (n < 0 && errno == EINTR);
		if (n < 0)
			return -errno;
	}
	l->buf.len += (size_t)n;
	l->off += (uint64_t)n;
	return n;
}

static int return_line(struct lines *l, size_t len, enum lines_state state, const char **ret, size_t *ret_len,
		       enum lines_state *ret_state)
{
	*ret = state == LINES_LONG ? NULL : l->buf.data + l->pos;
	*ret_len = state == LINES_LONG ? 0 : len;
	*ret_state = state;
	l->pos += len + (state == LINES_TORN ? 0 : 1);
	return 1;
}

int lines_next(struct lines *l, const char **ret, size_t *ret_len, enum lines_state *ret_state)
{
	bool too_long = false;
	size_t seen = 0; /* bytes after pos that contain no newline */

	for (;;) {
		size_t have = l->buf.len - l->pos;
		const char *nl = have > seen ? memchr(l->buf.data + l->pos + seen, '\n', have - seen) : NULL;
		ssize_t n;

		if (nl) {
			size_t len = (size_t)(nl - l->buf.data) - l->pos;

			too_long = too_long || len > LINE_MAX_LEN;
			return return_line(l, len, too_long ? LINES_LONG : LINES_WHOLE, ret, ret_len,
					   ret_state);
		}
		seen = have;
		if (seen > LINE_MAX_LEN) {
			too_long = true;
			l->pos = l->buf.len;
			seen = 0;
		}
		n = fill_chunk(l);
		if (n < 0)
			return (int)n;
		if (n > 0)
			continue;
		if (!too_long && seen == 0)
			return 0;
		return return_line(l, seen, LINES_TORN, ret, ret_len, ret_state);
	}
}

uint64_t lines_offset(const struct lines *l)
{
	return l->off - (l->buf.len - l->pos);
}

void lines_seek(struct lines *l, uint64_t offset)
{
	buf_clear(&l->buf);
	l->pos = 0;
	l->off = offset;
}

void lines_release(struct lines *l)
{
	buf_release(&l->buf);
}
