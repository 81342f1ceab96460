/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gathering and writing of journal lines. A failed write denies; it never drops a line in silence
 * (journal.J2). Nothing here reads the file.
 */
#include "egress/wire/journal.h"

#include "base/clock.h"

#include <errno.h>
#include <string.h>

static uint64_t journal_clock(void)
{
	return clock_nsec(CLOCK_REALTIME);
}

void journal_init(struct journal *j, int fd)
{
	*j = (struct journal){ .fd = fd, .now = journal_clock };
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

/* journal.J1: the event is kept, only its members are lost. */
static void replace_long_line(struct journal *j)
{
	j->pending.len = j->start;
	journal_begin(j, "garbled");
	json_str(&j->line, "why", "a line was too long");
	json_end_obj(&j->line);
}

/* Never cuts within a UTF-8 character, which a reader would take for damage. */
static size_t utf8_cut_len(const char *s, size_t max)
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
		json_strn(l, key, s, utf8_cut_len(s, max));
}

/* After a short write the rest stays at the front of the buffer: journal.J3. */
static int write_once(struct journal *j)
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
		/* The lines are lost, and the events they record must not pass. */
		buf_release(&j->pending);
		j->dropped++;
		return -ENOMEM;
	}
	while (r == 0 && j->pending.len) {
		j->writes++;
		r = write_once(j);
	}
	return r;
}

static void note_failure(struct journal *j, int r)
{
	if (r < 0 && !j->failed)
		j->failed = r;
}

size_t journal_end(struct journal *j)
{
	size_t len;

	json_end_obj(&j->line);
	if (!buf_error(&j->pending) && j->pending.len - j->start >= JOURNAL_LINE_MAX)
		replace_long_line(j);
	buf_addc(&j->pending, '\n');
	len = buf_error(&j->pending) ? 0 : j->pending.len - j->start;
	/* Many lines at once are written in several parts; this releases no waiting request. */
	if (!buf_error(&j->pending) && j->pending.len > JOURNAL_HELD_MAX / 2)
		note_failure(j, j->error = write_pending(j));
	if (!buf_error(&j->pending) && j->pending.len > JOURNAL_HELD_MAX) {
		j->pending.len = j->start;
		j->dropped++;
		note_failure(j, -ENOBUFS);
	}
	return len;
}

int journal_commit(struct journal *j)
{
	j->error = write_pending(j);
	note_failure(j, j->error);
	return j->failed;
}

void journal_settled(struct journal *j)
{
	j->failed = 0;
}
