/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes and reads output.times (logtimes.h). The writer is the launcher, which must not fail or wait because of it: an
 * error only makes times coarser. The reader accepts any content, whole or torn.
 */
#include "run/supervise/logtimes.h"

#include "base/cleanup.h"
#include "base/fd.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define RECORD 16u

struct record {
	uint64_t offset, time; /* as in the file: le64 */
};

/* Reads up to n whole records; returns their number. */
static ssize_t read_records(int fd, struct record *v, size_t n)
{
	size_t done = 0;

	while (done < n * RECORD) {
		ssize_t got = pread(fd, (char *)v + done, n * RECORD - done, (off_t)done);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return -errno;
		if (!got)
			break;
		done += (size_t)got;
	}
	return (ssize_t)(done / RECORD);
}

static int logtimes_write_at(int fd, const void *data, size_t len, off_t at)
{
	size_t done = 0;

	while (done < len) {
		ssize_t n = pwrite(fd, (const char *)data + done, len - done, at + (off_t)done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		done += (size_t)n;
	}
	return 0;
}

/* A torn record at the end of the file is overwritten by the next one. */
void logtimes_open(struct logtimes *t, int run_fd, int log_fd)
{
	struct record last;
	struct stat st;

	*t = LOGTIMES_INIT;
	t->fd = openat(run_fd, LOGTIMES_FILE, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (t->fd < 0)
		return;
	if (fstat(t->fd, &st) < 0 || !S_ISREG(st.st_mode)) {
		logtimes_close(t);
		return;
	}
	t->log_fd = log_fd;
	t->n = (uint64_t)st.st_size / RECORD;
	if (t->n > LOGTIMES_MAX)
		t->n = LOGTIMES_MAX;
	if (t->n && pread(t->fd, &last, RECORD, (off_t)(t->n - 1) * RECORD) == RECORD)
		t->last = le64toh(last.time);
}

void logtimes_close(struct logtimes *t)
{
	fd_close(t->fd);
	*t = LOGTIMES_INIT;
}

/* logtimes.T3: drops every second record of the older half, in place. A crash at any moment leaves a subset of the
 * old records readable (logtimes.T2). */
static int logtimes_thin(struct logtimes *t)
{
	autofree struct record *v = malloc((size_t)LOGTIMES_MAX * RECORD);
	size_t n = 0, older = t->n / 2;
	int r;

	if (!v || read_records(t->fd, v, t->n) != (ssize_t)t->n)
		return -EIO;
	for (size_t i = 0; i < t->n; i += i < older ? 2 : 1) {
		if (i < older)
			v[i].offset |= htole64(LOGTIMES_COARSE);
		v[n++] = v[i];
	}
	r = logtimes_write_at(t->fd, v, n * RECORD, 0);
	if (r == 0 && ftruncate(t->fd, (off_t)(n * RECORD)) < 0)
		r = -errno;
	if (r == 0)
		t->n = n;
	return r;
}

/* No record can be added for the output that comes now, so the last record is marked coarse. Overwriting it works on a
 * full disk, too. */
static void mark_last_coarse(struct logtimes *t)
{
	struct record last;
	off_t at = t->n ? (off_t)(t->n - 1) * RECORD : 0;

	if (!t->n || pread(t->fd, &last, RECORD, at) != RECORD)
		return;
	last.offset |= htole64(LOGTIMES_COARSE);
	(void)!logtimes_write_at(t->fd, &last, RECORD, at);
}

void logtimes_note(struct logtimes *t, uint64_t now)
{
	/* Rounded to the microsecond, as times are printed: a printed time can be passed to --until. */
	struct record rec = { .time = htole64(now - now % 1000) };
	struct stat st;

	if (t->fd < 0 || (t->n && now >= t->last && now - t->last < LOGTIMES_STEP))
		return;
	if (fstat(t->log_fd, &st) < 0 || (t->n == LOGTIMES_MAX && logtimes_thin(t) < 0)) {
		mark_last_coarse(t);
		return;
	}
	rec.offset = htole64((uint64_t)st.st_size);
	if (logtimes_write_at(t->fd, &rec, RECORD, (off_t)t->n * RECORD) < 0) {
		mark_last_coarse(t);
		return;
	}
	t->n++;
	t->last = now;
}

int logtimes_read(struct logtimes_list *l, int run_fd, struct err *e)
{
	autoclose int fd = openat(run_fd, LOGTIMES_FILE, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	autofree struct record *raw = NULL;
	struct stat st;
	size_t n, kept = 0;
	ssize_t got;

	logtimes_list_release(l);
	if (fd < 0)
		return errno == ENOENT ? 0 : err_sys(e, -errno, "cannot open the times of the log");
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return err_set(e, -EINVAL, "the times of the log are not in a regular file");
	n = (uint64_t)st.st_size / RECORD;
	if (n > LOGTIMES_MAX)
		n = LOGTIMES_MAX;
	if (!n)
		return 0;
	raw = malloc(n * RECORD);
	l->v = calloc(n, sizeof(*l->v));
	if (!raw || !l->v)
		return err_set(e, -ENOMEM, "out of memory");
	/* The writer may have thinned the file since fstat(). */
	got = read_records(fd, raw, n);
	if (got < 0)
		return err_sys(e, (int)got, "cannot read the times of the log");
	for (size_t i = 0; i < (size_t)got; i++) {
		const uint64_t o = le64toh(raw[i].offset);
		const struct logtime x = { .offset = o & ~LOGTIMES_COARSE,
					   .time = le64toh(raw[i].time),
					   .coarse = o & LOGTIMES_COARSE };

		if (kept && x.offset < l->v[kept - 1].offset)
			continue;
		if (kept && x.offset == l->v[kept - 1].offset)
			kept--;
		l->v[kept++] = x;
	}
	l->n = kept;
	return 0;
}

void logtimes_list_release(struct logtimes_list *l)
{
	free(l->v);
	*l = (struct logtimes_list){ 0 };
}

const struct logtime *logtimes_of(const struct logtimes_list *l, uint64_t offset)
{
	size_t lo = 0, hi = l->n;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (l->v[mid].offset <= offset)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo ? &l->v[lo - 1] : NULL;
}

uint64_t logtimes_since(const struct logtimes_list *l, uint64_t time)
{
	for (size_t i = 0; i < l->n; i++) {
		/* Output after a coarse record may be as late as the next record; after the last one, as late as now. */
		if (l->v[i].time >= time || (l->v[i].coarse && (i + 1 == l->n || l->v[i + 1].time >= time)))
			return l->v[i].offset;
	}
	return UINT64_MAX;
}

uint64_t logtimes_after(const struct logtimes_list *l, uint64_t time)
{
	for (size_t i = 0; i < l->n; i++) {
		if (l->v[i].time > time)
			return l->v[i].offset;
	}
	return UINT64_MAX;
}
