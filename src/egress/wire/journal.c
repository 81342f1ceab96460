/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/wire/journal.h"

#include "base/clock.h"

#include <errno.h>
#include <string.h>

static uint64_t realtime(void)
{
	return clock_nsec(CLOCK_REALTIME);
}

void journal_init(struct journal *j, int fd)
{
	*j = (struct journal){ .fd = fd, .now = realtime };
}

void journal_release(struct journal *j)
{
	buf_release(&j->pending);
}

struct json *journal_begin(struct journal *j, const char *ev)
{
	j->start = j->pending.len;
	j->line = JSON_INIT(&j->pending);
	json_obj(&j->line, NULL);
	json_u64(&j->line, "t", j->now());
	json_str(&j->line, "ev", ev);
	return &j->line;
}

/* J1: the event is not lost, only its members. */
static void replace_long(struct journal *j)
{
	j->pending.len = j->start;
	journal_begin(j, "garbled");
	json_str(&j->line, "why", "a line was too long");
	json_end_obj(&j->line);
}

/* Not within a character of UTF-8, which would read as damage. */
static size_t cut(const char *s, size_t max)
{
	size_t len = strnlen(s, max);

	if (len == max) {
		while (len && ((unsigned char)s[len] & 0xc0) == 0x80)
			len--;
	}
	return len;
}

void journal_str(struct json *l, const char *key, const char *s, size_t max)
{
	if (s && *s)
		json_strn(l, key, s, cut(s, max));
}

/* What is left after a short write stays in front: J3. */
static int write_some(struct journal *j)
{
	ssize_t n = write(j->fd, j->pending.data, j->pending.len);

	if (n < 0)
		return errno == EINTR ? 0 : -errno;
	if (n == 0)
		return -EIO;
	if ((size_t)n == j->pending.len)
		buf_clear(&j->pending);
	else
		buf_consume(&j->pending, (size_t)n);
	return 0;
}

static int write_pending(struct journal *j)
{
	int r = 0;

	if (buf_error(&j->pending)) {
		/* Lines are gone, and with them the right to let anything through that they were about. */
		buf_release(&j->pending);
		j->dropped++;
		return -ENOMEM;
	}
	while (r == 0 && j->pending.len) {
		j->writes++;
		r = write_some(j);
	}
	return r;
}

static void fail(struct journal *j, int r)
{
	if (r < 0 && !j->failed)
		j->failed = r;
}

size_t journal_end(struct journal *j)
{
	size_t len;

	json_end_obj(&j->line);
	if (!buf_error(&j->pending) && j->pending.len - j->start >= JOURNAL_LINE_MAX)
		replace_long(j);
	buf_addc(&j->pending, '\n');
	len = buf_error(&j->pending) ? 0 : j->pending.len - j->start;
	/* Much at once is written in pieces: nothing that waits is let through by that. */
	if (!buf_error(&j->pending) && j->pending.len > JOURNAL_HELD_MAX / 2)
		fail(j, j->error = write_pending(j));
	if (!buf_error(&j->pending) && j->pending.len > JOURNAL_HELD_MAX) {
		j->pending.len = j->start;
		j->dropped++;
		fail(j, -ENOBUFS);
	}
	return len;
}

int journal_commit(struct journal *j)
{
	j->error = write_pending(j);
	fail(j, j->error);
	return j->failed;
}

void journal_settled(struct journal *j)
{
	j->failed = 0;
}
