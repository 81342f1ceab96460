/* SPDX-License-Identifier: Apache-2.0 */
/* When output came: T1 to T3 of logtimes.h, on files that crashes, full disks and clocks have been at. */
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "run/supervise/logtimes.h"
#include "tap.h"

#include <endian.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define SEC NSEC_PER_SEC

static int dir = -1;

struct log {
	int fd;
	struct logtimes t;
};

static struct log log_open(bool fresh)
{
	struct log l;

	if (fresh) {
		unlinkat(dir, "output.log", 0);
		unlinkat(dir, LOGTIMES_FILE, 0);
	}
	l.fd = openat(dir, "output.log", O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	logtimes_open(&l.t, dir, l.fd);
	return l;
}

static void log_close(struct log *l)
{
	logtimes_close(&l->t);
	close(l->fd);
}

static void say(struct log *l, uint64_t now, const char *text)
{
	logtimes_note(&l->t, now);
	(void)!fd_write_all(l->fd, text, strlen(text));
}

static struct logtimes_list times(void)
{
	struct logtimes_list list = { 0 };
	struct err e = ERR_INIT;

	CHECKF(logtimes_read(&list, dir, &e) == 0, "the times can be read %s", e.msg);
	return list;
}

static uint64_t time_of(const struct logtimes_list *l, uint64_t offset)
{
	const struct logtime *t = logtimes_of(l, offset);

	return t ? t->time : 0;
}

static off_t size_of(void)
{
	struct stat st;

	return fstatat(dir, LOGTIMES_FILE, &st, 0) == 0 ? st.st_size : -1;
}

static void test_plain(void)
{
	struct log l = log_open(true);
	struct logtimes_list list = times();

	CHECKF(list.n == 0 && !logtimes_of(&list, 0) && logtimes_since(&list, 1) == UINT64_MAX,
	       "a log without records has no times");
	say(&l, 10 * SEC + 123, "one\n");
	say(&l, 10 * SEC + 500000, "near\n");
	say(&l, 12 * SEC, "two\n");
	log_close(&l);
	l = log_open(false);
	say(&l, 20 * SEC, "again\n");
	log_close(&l);
	list = times();
	CHECKF(list.n == 3, "lines within a millisecond have one time (%zu)", list.n);
	CHECK(time_of(&list, 0) == 10 * SEC && time_of(&list, 8) == 10 * SEC &&
	      time_of(&list, 9) == 12 * SEC && time_of(&list, 13) == 20 * SEC &&
	      time_of(&list, 5000) == 20 * SEC);
	CHECKF(logtimes_since(&list, 0) == 0 && logtimes_since(&list, 10 * SEC) == 0 &&
		       logtimes_since(&list, 10 * SEC + 1) == 9 && logtimes_since(&list, 13 * SEC) == 13 &&
		       logtimes_since(&list, 21 * SEC) == UINT64_MAX,
	       "logtimes_since() finds the begin of a time range");
	CHECKF(logtimes_after(&list, 9 * SEC) == 0 && logtimes_after(&list, 10 * SEC) == 9 &&
		       logtimes_after(&list, 20 * SEC) == UINT64_MAX,
	       "logtimes_after() finds the end of a time range");
	logtimes_list_release(&list);
}

/* The clock goes back; a record whose bytes never came; half a record at the end. */
static void test_crash(void)
{
	struct log l = log_open(true);
	struct logtimes_list list;
	int fd;

	say(&l, 50 * SEC, "a\n");
	say(&l, 40 * SEC, "b\n");
	logtimes_note(&l.t, 60 * SEC);
	log_close(&l);
	fd = openat(dir, LOGTIMES_FILE, O_WRONLY | O_APPEND | O_CLOEXEC);
	CHECK(write(fd, "half", 4) == 4);
	close(fd);
	list = times();
	CHECKF(list.n == 3 && time_of(&list, 2) == 40 * SEC,
	       "half a record is ignored, and the clock may go back");
	CHECKF(logtimes_since(&list, 45 * SEC) == 0,
	       "logtimes_since() includes the first of the lines that may be newer");
	logtimes_list_release(&list);
	l = log_open(false);
	say(&l, 70 * SEC, "c\n");
	log_close(&l);
	list = times();
	CHECKF(list.n == 3 && time_of(&list, 4) == 70 * SEC,
	       "the later one of two records about one byte counts");
	CHECKF(size_of() == 4L * 16, "the next record overwrites half a record (%lld)", (long long)size_of());
	logtimes_list_release(&list);
}

/* T3: a line each second for LOGTIMES_MAX + more. */
static void test_bound(void)
{
	struct log l = log_open(true);
	struct logtimes_list list;
	unsigned n = LOGTIMES_MAX + LOGTIMES_MAX / 2;
	off_t most = 0;
	bool exact = true, near = true, shown = true;

	for (unsigned i = 0; i < n; i++) {
		say(&l, (i + 1) * SEC, "x\n");
		if (size_of() > most)
			most = size_of();
	}
	log_close(&l);
	list = times();
	CHECKF(most == (off_t)LOGTIMES_MAX * 16, "the file of times has a bound (%lld)", (long long)most);
	for (unsigned i = n - LOGTIMES_MAX / 2; i < n; i++)
		exact = exact && time_of(&list, 2ULL * i) == (i + 1) * SEC;
	CHECKF(exact, "each line of the newer half has its own time");
	for (unsigned i = 0; i < n; i++) {
		uint64_t t = time_of(&list, 2ULL * i);

		near = near && t <= (i + 1) * SEC && t + 16 * SEC > (i + 1) * SEC;
		shown = shown && logtimes_since(&list, (i + 1) * SEC) <= 2ULL * i;
		i += i < n / 2 ? 97 : 997;
	}
	CHECKF(near, "each line of the older half has the time of one a little before");
	CHECKF(shown, "logtimes_since() leaves out nothing that may be newer");
	logtimes_list_release(&list);
}

/* T2: whatever part of the thinned records was written, the rest is that of before. */
static void test_thin_crash(void)
{
	struct record {
		uint64_t offset, time;
	} *old = calloc(LOGTIMES_MAX, sizeof(*old)), *new = calloc(LOGTIMES_MAX, sizeof(*new));
	struct log l = log_open(true);
	size_t n_new;
	bool good = true;
	int fd;

	for (unsigned i = 0; i < LOGTIMES_MAX; i++)
		say(&l, (i + 1) * SEC, "x\n");
	fd = openat(dir, LOGTIMES_FILE, O_RDWR | O_CLOEXEC);
	CHECK(pread(fd, old, LOGTIMES_MAX * sizeof(*old), 0) == (ssize_t)(LOGTIMES_MAX * sizeof(*old)));
	say(&l, (LOGTIMES_MAX + 1) * SEC, "x\n");
	log_close(&l);
	n_new = (size_t)size_of() / sizeof(*new);
	CHECKF(n_new == LOGTIMES_MAX / 4 * 3 + 1, "a quarter of the records is thinned out (%zu)", n_new);
	CHECK(pread(fd, new, n_new * sizeof(*new), 0) == (ssize_t)(n_new * sizeof(*new)));
	for (size_t cut = 0; cut < n_new - 1; cut += 1 + cut / 5) {
		struct logtimes_list list;

		CHECK(pwrite(fd, old, LOGTIMES_MAX * sizeof(*old), 0) > 0 &&
		      (!cut || pwrite(fd, new, cut * sizeof(*new), 0) > 0));
		list = times();
		for (size_t i = 0; i < list.n; i++)
			good = good && list.v[i].time == (list.v[i].offset / 2 + 1) * SEC &&
			       (!i || list.v[i].offset > list.v[i - 1].offset);
		good = good && list.n > LOGTIMES_MAX / 2 && list.v[list.n - 1].time == LOGTIMES_MAX * SEC;
		logtimes_list_release(&list);
	}
	CHECKF(good, "after a crash while thinning no line gets a time that is not its own");
	close(fd);
	free(old);
	free(new);
}

/* A line whose record cannot be written is told by the record before it. */
static void test_full(void)
{
	const struct rlimit old = { RLIM_INFINITY, RLIM_INFINITY }, small = { 16, RLIM_INFINITY };
	struct log l = log_open(true);
	struct logtimes_list list;

	signal(SIGXFSZ, SIG_IGN);
	say(&l, 1 * SEC, "a\n");
	CHECK(setrlimit(RLIMIT_FSIZE, &small) == 0);
	say(&l, 9 * SEC, "b\n");
	CHECK(setrlimit(RLIMIT_FSIZE, &old) == 0);
	list = times();
	CHECKF(list.n == 1 && list.v[0].coarse, "a record that could not be written is known to be missing");
	CHECKF(logtimes_since(&list, 5 * SEC) == 0, "output without a record is not left out");
	say(&l, 12 * SEC, "c\n");
	log_close(&l);
	logtimes_list_release(&list);
	list = times();
	CHECKF(list.n == 2 && time_of(&list, 4) == 12 * SEC && logtimes_since(&list, 11 * SEC) == 0 &&
		       logtimes_since(&list, 13 * SEC) == UINT64_MAX,
	       "times are kept again after a failed record");
	logtimes_list_release(&list);
}

int main(void)
{
	char path[] = "/tmp/coffer-test-XXXXXX";

	if (!mkdtemp(path))
		return 1;
	dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	test_plain();
	test_crash();
	test_bound();
	test_thin_crash();
	test_full();
	unlinkat(dir, "output.log", 0);
	unlinkat(dir, LOGTIMES_FILE, 0);
	rmdir(path);
	return tap_done();
}
