/* SPDX-License-Identifier: Apache-2.0 */
/*
 * STATE/format: one line with the number of the state directory's format (doc/adr/0034).
 *
 * Invariants
 *  F1  A state of a newer format is refused before anything in it is read, made or changed.
 *  F2  A mark that is not a number as we write it is refused as well: a newer program may have written it.
 *  F3  The mark is synced and then renamed into place: after a crash there is the old mark or the new one.
 *  F4  Nothing new is made in a state whose mark does not name STATE_FORMAT (state_mark()).
 */
#include "base/fd.h"
#include "sandbox/state/state_internal.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#define MARK "format"
#define MARK_MAX 16 /* bytes */
#define BEFORE_MARKS 1

static int report_damaged_mark(const struct state *st, const char *why, struct err *e)
{
	err_set(e, -EBADMSG, "%s/" MARK " does not name the format of the state: %s", st->path, why);
	return err_hint(
		e, -EBADMSG,
		"restore it from a backup, or write %d into it if no newer coffer has used this state",
		STATE_FORMAT);
}

/* "N\n", as write_format_mark() has it. */
static int parse_format_mark(const char *text, size_t len, unsigned *ret)
{
	unsigned v = 0;

	if (len < 2 || len > 7 || text[len - 1] != '\n' || text[0] == '0')
		return -EBADMSG;
	for (size_t i = 0; i + 1 < len; i++) {
		if (text[i] < '0' || text[i] > '9')
			return -EBADMSG;
		v = v * 10 + (unsigned)(text[i] - '0');
	}
	*ret = v;
	return 0;
}

static int read_format_mark(const struct state *st, unsigned *ret, struct err *e)
{
	autoclose int fd = openat(st->fd, MARK, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
	char text[MARK_MAX];
	ssize_t n;

	if (fd < 0 && errno == ENOENT) {
		*ret = BEFORE_MARKS;
		return 0;
	}
	if (fd < 0)
		return report_damaged_mark(st, strerror(errno), e);
	n = read(fd, text, sizeof(text));
	if (n < 0)
		return report_damaged_mark(st, strerror(errno), e);
	return parse_format_mark(text, (size_t)n, ret) < 0
		       ? report_damaged_mark(st, "it holds something else", e)
		       : 0;
}

/* state_format.F3: synced, then renamed into place. */
static int write_format_mark(const struct state *st)
{
	char tmp[32], text[MARK_MAX];
	int n = snprintf(text, sizeof(text), "%d\n", STATE_FORMAT), r;

	/* Two programs may write at once: each uses a temporary file of its own, and both write the same number. */
	snprintf(tmp, sizeof(tmp), "." MARK "-%d", (int)getpid());
	autoclose int fd = openat(st->fd, tmp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
	r = fd < 0 ? -errno : fd_write_all(fd, text, (size_t)n);
	if (r == 0 && (fdatasync(fd) < 0 || renameat(st->fd, tmp, st->fd, MARK) < 0))
		r = -errno;
	if (r < 0 && fd >= 0)
		unlinkat(st->fd, tmp, 0);
	return r;
}

int state_mark(struct state *st, struct err *e)
{
	unsigned format = 0;
	int r = st->marked ? 0 : read_format_mark(st, &format, e);

	if (st->marked || r < 0)
		return r;
	/* state_format.F1: a newer format is refused. */
	if (format > STATE_FORMAT) {
		err_set(e, -EPROTONOSUPPORT,
			"the state in %s was written by a newer coffer (format %u, this one knows %d)",
			st->path, format, STATE_FORMAT);
		return err_hint(e, -EPROTONOSUPPORT,
				"install that version again, or use another COFFER_STATE");
	}
	/* Files of format 1 are read as they are; nothing has to be converted. */
	if (format < STATE_FORMAT) {
		r = write_format_mark(st);
		if (r < 0)
			return state_cannot(e, r, "mark the format of the state directory", st->path);
	}
	st->marked = true;
	return 0;
}

static bool is_unwritable_error(int r)
{
	return r == -EROFS || r == -ENOSPC || r == -EDQUOT || r == -EACCES || r == -EPERM;
}

int state_format_settle(struct state *st, struct err *e)
{
	struct err why = ERR_INIT;
	int r = state_mark(st, &why);

	if (r == 0 || is_unwritable_error(r))
		return 0;
	if (e)
		*e = why;
	return r;
}
