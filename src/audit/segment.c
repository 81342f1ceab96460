/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The names and files of the log's segments (segment.h). Opens regular files only, never symbolic links.
 */

#include "audit/segment.h"

#include "audit/line.h"
#include "audit/lines.h"
#include "base/cleanup.h"
#include "base/str.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>

void segment_name(uint32_t n, char ret[SEGMENT_NAME_LEN])
{
	snprintf(ret, SEGMENT_NAME_LEN, "log.%06u.jsonl", n);
}

/* The number in "log.000012.jsonl"; 0 for any other name. */
static uint32_t segment_number(const char *name)
{
	char again[SEGMENT_NAME_LEN];
	unsigned long v;

	if (!str_starts(name, "log."))
		return 0;
	v = strtoul(name + strlen("log."), NULL, 10);
	if (v == 0 || v > UINT32_MAX)
		return 0;
	segment_name((uint32_t)v, again);
	return str_eq(again, name) ? (uint32_t)v : 0;
}

static int compare_numbers(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return x < y ? -1 : x > y;
}

int segment_list(int dir_fd, struct segment_list *ret, struct err *e)
{
	int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	autoclosedir DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *de;

	ret->count = 0;
	if (!d) {
		int r = -errno;

		fd_close(fd);
		return err_sys(e, r, "cannot list the audit log's files");
	}
	while ((de = readdir(d))) {
		uint32_t n = segment_number(de->d_name);

		if (n == 0)
			continue;
		if (ret->count == SEGMENT_MAX)
			return err_set(e, -E2BIG, "the audit log has more than %d files", SEGMENT_MAX);
		ret->n[ret->count++] = n;
	}
	qsort(ret->n, ret->count, sizeof(ret->n[0]), compare_numbers);
	return 0;
}

int segment_open(int dir_fd, const char *name, int flags, uint64_t *ret_size)
{
	autoclose int fd = openat(dir_fd, name, flags | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY | O_NONBLOCK, 0600);
	struct stat st;

	if (fd < 0)
		return -errno;
	if (fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -EINVAL;
	if (ret_size)
		*ret_size = (uint64_t)st.st_size;
	return TAKE_FD(fd);
}

int segment_first(int dir_fd, const char *name, uint64_t *ret_seq, char ret_prev[HASH_HEX_LEN + 1])
{
	uint64_t size = 0;
	autoclose int fd = segment_open(dir_fd, name, O_RDONLY, &size);
	autolines struct lines in = LINES_FD(fd, size);
	enum lines_state state;
	struct line l;
	const char *text;
	size_t len;
	int r;

	if (fd < 0)
		return fd;
	r = lines_next(&in, &text, &len, &state);
	if (r < 0)
		return r;
	if (r == 0 || state != LINES_WHOLE || line_parse(text, len, &l) < 0)
		return -EINVAL;
	*ret_seq = l.seq;
	memcpy(ret_prev, l.prev, HASH_HEX_LEN);
	ret_prev[HASH_HEX_LEN] = '\0';
	return 0;
}
