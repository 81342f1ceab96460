/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the byte range of a stored output that coffer logs shows, by time and by number of lines. It reads
 * only the parts of the file that it needs, and always cuts at line ends.
 */
#include "cli/box/logs_part.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define CHUNK (64u << 10)

/* Finds the first start of a line at or after `at`; the end of the file if there is none. */
static int find_line_start(int fd, uint64_t at, uint64_t size, uint64_t *ret)
{
	static char data[CHUNK];
	/* A newline immediately before `at` makes `at` a start of a line. */
	uint64_t pos = at ? at - 1 : 0;

	while (at && pos < size) {
		ssize_t n = pread(fd, data, sizeof(data), (off_t)pos);
		const char *nl = n > 0 ? memchr(data, '\n', (size_t)n) : NULL;

		if (n < 0)
			return -errno;
		if (nl) {
			pos += (uint64_t)(nl - data) + 1;
			break;
		}
		pos = n ? pos + (uint64_t)n : size;
	}
	*ret = pos < size ? pos : size;
	return 0;
}

/* Searches data[0, n) backwards for the `*left`-th newline. Returns the offset after it; or -1, with *left
 * lowered by the number of newlines that were found. */
static ssize_t find_newline_backwards(const char *data, ssize_t n, uint64_t *left)
{
	while (n-- > 0) {
		if (data[n] == '\n' && --*left == 0)
			return n + 1;
	}
	return -1;
}

/* Finds the start of the last `lines` lines of [from, end). */
static int find_tail_start(int fd, uint64_t lines, uint64_t from, uint64_t end, uint64_t *ret)
{
	static char data[CHUNK];
	uint64_t pos = end;

	/* A newline at the very end ends the last line and begins no other. */
	if (lines && end > from && pread(fd, data, 1, (off_t)(end - 1)) == 1 && data[0] == '\n')
		lines++;
	while (lines && pos > from) {
		size_t want = pos - from < CHUNK ? (size_t)(pos - from) : CHUNK;
		ssize_t n = pread(fd, data, want, (off_t)(pos - want)), at;

		if (n < 0)
			return -errno;
		at = find_newline_backwards(data, n, &lines);
		pos -= want;
		if (at >= 0) {
			pos += (uint64_t)at;
			break;
		}
	}
	*ret = pos;
	return 0;
}

/* Of bytes before the first time record it is only known that they came before that time. */
static uint64_t find_since_offset(const struct logtimes_list *times, uint64_t since, uint64_t size,
				  bool *unknown)
{
	uint64_t at = logtimes_since(times, since), first = times->n ? times->v[0].offset : size;

	if (first && (!times->n || at == first)) {
		*unknown = *unknown || size > 0;
		return 0;
	}
	return at;
}

int cli_logs_part_find(int fd, const struct logtimes_list *times, const struct logs_part *p,
		       uint64_t *ret_from, uint64_t *ret_to, bool *ret_unknown)
{
	uint64_t from = 0, to = UINT64_MAX, size, end;
	bool unknown = false;
	struct stat st;
	int r = 0;

	if (fstat(fd, &st) < 0)
		return -errno;
	size = (uint64_t)st.st_size;
	if (p->has_until) {
		unknown = size && (!times->n || times->v[0].offset > 0);
		to = logtimes_after(times, p->until);
		r = to == UINT64_MAX ? 0 : find_line_start(fd, to, size, &to);
	}
	if (r == 0 && p->has_since)
		r = find_line_start(fd, find_since_offset(times, p->since, size, &unknown), size, &from);
	end = to < size ? to : size;
	if (from > end)
		from = end;
	if (r == 0 && p->tail != UINT64_MAX)
		r = find_tail_start(fd, p->tail, from, end, &from);
	if (r < 0)
		return r;
	*ret_from = from;
	*ret_to = to;
	if (p->has_since || p->has_until)
		*ret_unknown = unknown;
	return 0;
}
