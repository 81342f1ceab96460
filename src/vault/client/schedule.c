/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads and writes the dates of secrets (schedule.h). It contains names and dates only, and decides nothing.
 */

#include "vault/client/schedule.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/str.h"
#include "base/vec.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LINE_MAX_LEN (VAULT_NAME_MAX + 2 * 21 + 1)

void schedule_release(struct schedule *s)
{
	free(s->v);
	*s = SCHEDULE_INIT;
}

int schedule_add(struct schedule *s, const struct schedule_entry *n)
{
	int r;

	if (!n->due && !n->expires)
		return 0;
	r = VEC_MORE(s->v, s->n, SCHEDULE_ENTRIES_MAX);
	if (r < 0)
		return r;
	s->v[s->n++] = *n;
	return 0;
}

void schedule_format(const struct schedule *s, struct buf *out)
{
	for (size_t i = 0; i < s->n; i++)
		buf_addf(out, "%s %llu %llu\n", s->v[i].name, (unsigned long long)s->v[i].due,
			 (unsigned long long)s->v[i].expires);
}

static int parse_schedule_line(char *line, struct schedule_entry *ret)
{
	char *due = strchr(line, ' '), *expires = due ? strchr(due + 1, ' ') : NULL;

	if (!expires)
		return -EBADMSG;
	*due++ = *expires++ = '\0';
	if (!str_is_name(line) || strlen(line) > VAULT_NAME_MAX || str_to_u64(due, &ret->due) < 0 ||
	    str_to_u64(expires, &ret->expires) < 0)
		return -EBADMSG;
	memcpy(ret->name, line, strlen(line) + 1);
	return 0;
}

int schedule_parse(struct schedule *ret, const char *text, size_t len)
{
	CLEANUP(schedule_release) struct schedule s = SCHEDULE_INIT;
	int r = 0;

	while (len && r == 0) {
		const char *end = memchr(text, '\n', len);
		size_t n = end ? (size_t)(end - text) : 0;
		struct schedule_entry entry = { 0 };
		char line[LINE_MAX_LEN + 1];

		if (!end || n > LINE_MAX_LEN || memchr(text, '\0', n))
			return -EBADMSG;
		memcpy(line, text, n);
		line[n] = '\0';
		r = parse_schedule_line(line, &entry);
		if (r == 0)
			r = schedule_add(&s, &entry);
		text += n + 1;
		len -= n + 1;
	}
	if (r < 0)
		return r;
	*ret = s;
	s = SCHEDULE_INIT;
	return 0;
}

uint64_t schedule_next(const struct schedule *s)
{
	uint64_t next = 0;

	for (size_t i = 0; i < s->n; i++) {
		if (s->v[i].due && (!next || s->v[i].due < next))
			next = s->v[i].due;
	}
	return next;
}

int schedule_write(int dir, const struct schedule *s)
{
	autobuf struct buf b = BUF_INIT;

	if (s->n == 0)
		return unlinkat(dir, SCHEDULE_FILE, 0) < 0 && errno != ENOENT ? -errno : 0;
	schedule_format(s, &b);
	return buf_error(&b) ? -ENOMEM : fd_replace_file(dir, SCHEDULE_FILE, b.data, b.len, 0600);
}

int schedule_read(int state_fd, struct schedule *ret)
{
	autobuf struct buf b = BUF_INIT;
	int r = fd_read_file(state_fd, "vault/" SCHEDULE_FILE,
			     (size_t)SCHEDULE_ENTRIES_MAX * (LINE_MAX_LEN + 1), &b);

	if (r == -ENOENT)
		return 0;
	return r < 0 ? r : schedule_parse(ret, buf_cstr(&b), b.len);
}
