/* SPDX-License-Identifier: Apache-2.0 */
/* No id of a question is given twice, whatever became of the files. */
#include "approval/server/askserve.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "tap.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static char dir[] = "/tmp/asknumber.XXXXXX";
static int fd;
static uint64_t newest, serial;
static unsigned denied;

static int on_event(void *ctx, const char *type, const struct buf *fields, uint64_t *ret_seq)
{
	(void)ctx;
	(void)ret_seq;
	(void)type;
	(void)fields;
	return 0;
}

static void on_tell(void *ctx, uint64_t waiter, bool allow, const char *id, const char *why)
{
	(void)ctx;
	(void)waiter;
	(void)why;
	denied += !allow && !id[0];
}

static void on_changed(void *ctx, const struct ask *a)
{
	const struct askserve *s = ctx;
	struct ask_view v;

	ask_view(s->asks, a, &v);
	newest = v.number;
}

/* One life: asks `n` questions, and ends as it should, or is killed. Returns its first number. */
static uint64_t live(unsigned n, bool killed)
{
	static struct askserve s;
	struct askserve_owner o = { .event = on_event, .tell = on_tell, .changed = on_changed, .ctx = &s };
	struct ask_question q = { .kind = ASK_CONNECT,
				  .port = 443,
				  .method = "",
				  .path = "",
				  .what = "",
				  .type = "",
				  .rule = "",
				  .reason = "",
				  .preview = "" };
	struct loop loop = LOOP_INIT;
	struct err e = ERR_INIT;
	uint64_t first = 0;

	CHECK(loop_open(&loop, &e) == 0 && askserve_open(&s, &loop, fd, "abcdef012345", 300, &o, &e) == 0);
	for (unsigned i = 0; i < n; i++) {
		char host[32];

		snprintf(host, sizeof(host), "h%llu.test", (unsigned long long)++serial);
		q.host = host;
		newest = 0;
		askserve_put(&s, &q, serial, NULL);
		first = first ? first : newest;
		/* The list of waiting questions must not fill. */
		askserve_drop(&s, serial);
		if (i % 32 == 31)
			asks_end(s.asks, asks_clock());
	}
	if (killed) {
		loop_timer_off(&loop, &s.t_tick);
		loop_timer_off(&loop, &s.t_store);
		loop_timer_off(&loop, &s.t_again);
		asks_free(s.asks);
	} else {
		askserve_close(&s);
	}
	loop_close(&loop);
	return first;
}

static uint64_t last_of(uint64_t first, unsigned n)
{
	return first + n - 1;
}

static void on_enough(struct timer *t)
{
	loop_stop(t->ctx);
}

static ino_t file_after(struct loop *l, unsigned ms)
{
	struct timer t = { .fn = on_enough, .ctx = l };
	struct stat st = { 0 };
	struct err e = ERR_INIT;

	loop_timer(l, &t, clock_nsec(CLOCK_MONOTONIC) + ms * NSEC_PER_MSEC);
	l->stopped = false;
	if (loop_run(l, &e) < 0 || fstatat(fd, ASKS_FILE, &st, 0) < 0)
		return 0;
	return st.st_ino;
}

/* V4: what a sandbox asks once more does not have the file written once more. */
static void test_asked_again(void)
{
	static struct askserve s;
	struct askserve_owner o = { .event = on_event, .tell = on_tell, .ctx = &s };
	struct ask_question q = { .kind = ASK_CONNECT, .port = 443, .host = "again.test" };
	struct loop loop = LOOP_INIT;
	struct err e = ERR_INIT;
	ino_t first, next;

	CHECK(loop_open(&loop, &e) == 0 && askserve_open(&s, &loop, fd, "abcdef012345", 300, &o, &e) == 0);
	(void)unlinkat(fd, ASKS_FILE, 0);
	askserve_put(&s, &q, 1, NULL);
	first = file_after(&loop, 1500);
	CHECKF(first, "a new question is written to the file soon");
	for (uint64_t i = 2; i < 50; i++)
		askserve_put(&s, &q, i, NULL);
	next = file_after(&loop, 1500);
	CHECKF(next == first, "a repeated question does not write the file again");
	q.host = "other.test";
	askserve_put(&s, &q, 100, NULL);
	/* The old file is still there by another name, so that its number cannot be used again. */
	CHECK(linkat(fd, ASKS_FILE, fd, "kept", 0) == 0);
	CHECKF(file_after(&loop, 1500) != first, "a new question writes the file again");
	CHECK(unlinkat(fd, "kept", 0) == 0);
	askserve_close(&s);
	loop_close(&loop);
}

int main(void)
{
	struct err e = ERR_INIT;
	uint64_t first, before;
	char id[ASK_ID_MAX];

	if (!mkdtemp(dir))
		return 99;
	fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CHECKF(live(3, false) == 1, "the first number is 1");
	CHECKF(live(2, false) == 4, "the next life continues the numbers");
	before = last_of(live(150, true), 150);
	first = live(1, true);
	CHECKF(first > before, "no number is used twice after a kill before anything was stored (%llu, %llu)",
	       (unsigned long long)first, (unsigned long long)before);
	before = first;
	(void)unlinkat(fd, ASKS_FILE, 0);
	first = live(1, false);
	CHECKF(first > before, "numbers continue when the list is gone");
	before = first;
	CHECK(fd_replace_file(fd, ASKS_FILE, "{\"id\":", 6, 0600) == 0);
	first = live(1, false);
	CHECKF(first == before + 1, "numbers continue when the list is cut");
	before = first;
	CHECK(fd_replace_file(fd, ASKNUMBER_FILE, "2", 1, 0600) == 0);
	first = live(1, false);
	CHECKF(first > 1000000000000000ULL, "numbers go on beyond all used ones when the number file is cut");
	snprintf(id, sizeof(id), "%.6s-%llu", "abcdef012345", (unsigned long long)first);
	CHECKF(strlen(id) == 7 + 16, "the id with the largest number is not cut");
	before = first;
	CHECK(live(1, false) == before + 1);
	CHECK(unlinkat(fd, ASKNUMBER_FILE, 0) == 0);
	CHECKF(live(1, false) > before + 1, "numbers continue when only the number file is gone");
	CHECK(fd_replace_file(fd, ASKNUMBER_FILE, "x\n", 2, 0600) == 0 && live(1, false) > before + 1);
	test_asked_again();
	/* A question whose number cannot be remembered is not asked. */
	CHECK(unlinkat(fd, ASKNUMBER_FILE, 0) == 0 && mkdirat(fd, ASKNUMBER_FILE, 0700) == 0);
	denied = 0;
	CHECKF(live(2, false) == 0 && denied == 2, "a number that cannot be remembered is not used");
	/* The clocks go apart when the host sleeps: an end is never further away than a look. */
	CHECK(askserve_tick_at(7 * NSEC_PER_SEC, 2 * NSEC_PER_SEC, NSEC_PER_SEC) ==
	      6 * NSEC_PER_SEC + NSEC_PER_MSEC);
	CHECK(askserve_tick_at(7200 * NSEC_PER_SEC, 2 * NSEC_PER_SEC, NSEC_PER_SEC) <= 32 * NSEC_PER_SEC);
	CHECK(askserve_tick_at(NSEC_PER_SEC, 2 * NSEC_PER_SEC, NSEC_PER_SEC) == NSEC_PER_SEC + NSEC_PER_MSEC);
	close(fd);
	CHECK(fd_rm_rf(AT_FDCWD, dir, &e) == 0);
	return tap_done();
}
