/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Folds journal files into the audit log. Folded bytes are punched out of the file: the disk usage stays
 * small, offsets continue, and after a crash the next process finds zeros where nothing is left to do. A
 * crash between the two duplicates a few events, which is better than losing one.
 */
#include "base/clock.h"
#include "base/fd.h"
#include "netd/serve/net_int.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#define CHUNK (64u << 10)
#define FOLD_SOON (150 * NSEC_PER_MSEC)
#define FOLD_IDLE (800 * NSEC_PER_MSEC) /* within a second */
#define FOLD_MORE NSEC_PER_MSEC		/* there is more than one turn takes */
#define ACTIVE (3 * NSEC_PER_SEC)
#define BEHIND_MAX (64u << 20) /* backlog limit: a process that writes faster is not writing events */

static const char *const file_names[] = { [NET_EGRESS] = "journal.egress", [NET_DIAL] = "journal.dial" };

int net_journal_open(struct net_guard *g, enum net_part p, int *ret_fd, struct err *e)
{
	struct net_journal *j = &g->journal[p];
	int dir = g->dir;
	autoclose int fd =
		openat(dir, file_names[p], O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);

	if (fd >= 0 && j->fd < 0)
		j->fd = openat(dir, file_names[p], O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0 || j->fd < 0)
		return err_sys(e, -errno, "cannot make %s in the run's directory", file_names[p]);
	*ret_fd = TAKE_FD(fd);
	return 0;
}

/* If the file system cannot punch holes, write zeros: they mean the same, at the cost of disk space. */
static void punch_folded(struct net_journal *j)
{
	static const char zeros[4096];

	if (j->off == j->punched || fallocate(j->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
					      (off_t)j->punched, (off_t)(j->off - j->punched)) == 0) {
		j->punched = j->off;
		return;
	}
	while (j->punched < j->off) {
		uint64_t n = j->off - j->punched;
		ssize_t w = pwrite(j->fd, zeros, n < sizeof(zeros) ? n : sizeof(zeros), (off_t)j->punched);

		if (w <= 0)
			return;
		j->punched += (uint64_t)w;
	}
}

/* Skips a hole at the front without reading it. */
static void skip_leading_hole(struct net_journal *j)
{
	off_t data = lseek(j->fd, (off_t)j->off, SEEK_DATA);

	if (data > 0 && (uint64_t)data > j->off)
		j->off = j->punched = (uint64_t)data;
}

/* Folds what is there, up to `most` bytes and a chunk: a program that writes as fast as we read would keep us
 * here forever. Returns the number of bytes taken, or the error of the log. */
static int64_t fold_journal_file(struct net_fold *f, enum net_from from, struct net_journal *j, bool last,
				 uint64_t most)
{
	char chunk[CHUNK];
	uint64_t begin = j->off;
	int r = 0;

	if (j->fd < 0)
		return 0;
	while (j->off - begin < most) {
		ssize_t n = pread(j->fd, chunk, sizeof(chunk), (off_t)j->off);
		size_t taken = 0;

		if (n <= 0)
			break;
		r = net_fold_feed(f, from, chunk, (size_t)n, last && (size_t)n < sizeof(chunk),
				  clock_nsec(CLOCK_MONOTONIC), &taken);
		j->off += taken;
		if (r < 0 || taken == 0)
			break;
	}
	punch_folded(j);
	return r < 0 ? r : (int64_t)(j->off - begin);
}

static uint64_t bytes_behind(const struct net_journal *j)
{
	struct stat st;

	if (j->fd < 0 || fstat(j->fd, &st) < 0 || (uint64_t)st.st_size < j->off)
		return 0;
	return (uint64_t)st.st_size - j->off;
}

static const enum net_from from_part[] = { [NET_EGRESS] = NET_FROM_EGRESS, [NET_DIAL] = NET_FROM_DIAL };

void net_journal_fold(struct net_guard *g, bool last)
{
	uint64_t now = clock_nsec(CLOCK_MONOTONIC);
	int64_t n = 0;

	if (last)
		net_fold_last(g->fold);
	for (int i = 0; i < NET_PARTS && n >= 0; i++) {
		if (bytes_behind(&g->journal[i]) > BEHIND_MAX && g->proc[i].pid >= 0)
			net_down(g, &g->proc[i], "it writes faster than its journal can be read");
		n = fold_journal_file(g->fold, from_part[i], &g->journal[i], last,
				      last ? UINT64_MAX : NET_FOLD_TURN);
		if (n > 0)
			g->active = now;
	}
	if (n >= 0)
		n = net_fold_tick(g->fold, now, last);
	if (n < 0)
		net_fail(g, "network events cannot be written to the audit log");
}

int net_journal_catch_up(struct net_guard *g)
{
	uint64_t now = clock_nsec(CLOCK_MONOTONIC);
	bool counts = now - g->caught_up >=
		      NSEC_PER_SEC; /* frequent questions must not get more counts into the log */
	int64_t n = 0;

	for (int i = 0; i < NET_PARTS && n >= 0; i++)
		n = fold_journal_file(g->fold, from_part[i], &g->journal[i], false, NET_FOLD_TURN);
	if (n >= 0)
		n = net_fold_tick(g->fold, now, counts);
	if (counts)
		g->caught_up = now;
	return n < 0 ? (int)n : 0;
}

bool net_journal_is_flooded(const struct net_guard *g, enum net_part p)
{
	return bytes_behind(&g->journal[p]) > BEHIND_MAX;
}

static void on_fold_timer(struct timer *t)
{
	struct net_guard *g = t->ctx;
	uint64_t now = clock_nsec(CLOCK_MONOTONIC);
	bool more = false;

	net_journal_fold(g, false);
	for (int i = 0; i < NET_PARTS; i++)
		more = more || bytes_behind(&g->journal[i]) > CHUNK;
	loop_timer(&g->loop, t, now + (more ? FOLD_MORE : now - g->active < ACTIVE ? FOLD_SOON : FOLD_IDLE));
}

void net_journal_begin(struct net_guard *g)
{
	g->t_fold = (struct timer){ .fn = on_fold_timer, .ctx = g };
	g->active = clock_nsec(CLOCK_MONOTONIC);
	loop_timer(&g->loop, &g->t_fold, g->active + FOLD_SOON);
}

void net_journal_soon(struct net_guard *g)
{
	loop_timer(&g->loop, &g->t_fold, clock_nsec(CLOCK_MONOTONIC));
}

void net_journal_remove(struct net_guard *g)
{
	for (int i = 0; i < NET_PARTS; i++) {
		if (g->journal[i].fd >= 0 && bytes_behind(&g->journal[i]) == 0)
			(void)unlinkat(g->dir, file_names[i], 0);
		g->journal[i].fd = fd_close(g->journal[i].fd);
	}
}

int net_journal_report(struct net_guard *g)
{
	autobuf struct buf b = BUF_INIT;
	struct json j = JSON_INIT(&b);

	net_fold_report(g->fold, &j);
	return buf_error(&b) ? -ENOMEM : memfile_make("report", b.data, b.len, true, NULL);
}

static int on_leftover_event(void *ctx, const char *type, const struct buf *fields)
{
	const struct net_config *c = ctx;

	return audit_append(c->audit, type, c->spec->id, fields, NULL);
}

/* The programs died with their guard; only their control group is left. */
static void end_leftover_programs(const struct net_config *c)
{
	struct cgroup cg = CGROUP_INIT;
	char id[RUN_ID_LEN + 8];

	snprintf(id, sizeof(id), "%s-net", c->spec->id);
	/* A confined launcher finds the group only in the place where it would make one. That suffices,
	 * because its guard made it there. */
	(void)!cgroup_reopen(&cg, c->cgroup_host, id, NULL);
	if (cgroup_kill(&cg, NULL) == 0)
		(void)!cgroup_destroy(&cg, NULL);
	cgroup_release(&cg);
}

int net_finish(const struct net_config *c, struct err *e)
{
	const struct net_fold_out out = { .event = on_leftover_event, .ctx = (void *)c };
	CLEANUP(net_fold_freep) struct net_fold *f = NULL;
	int64_t n = 0;

	for (int i = 0; i < NET_PARTS && n >= 0; i++) {
		autoclose int fd = openat(c->spec->run_fd, file_names[i], O_RDWR | O_CLOEXEC | O_NOFOLLOW);
		struct net_journal j = { .fd = fd };

		if (fd < 0)
			continue;
		if (!f)
			f = net_fold_new(clock_nsec(CLOCK_MONOTONIC), &out);
		if (!f)
			return err_set(e, -ENOMEM, "out of memory");
		net_fold_last(f);
		skip_leading_hole(&j);
		n = fold_journal_file(f, from_part[i], &j, true, UINT64_MAX);
		if (n >= 0)
			(void)unlinkat(c->spec->run_fd, file_names[i], 0);
	}
	end_leftover_programs(c);
	if (f && n >= 0)
		n = net_fold_tick(f, clock_nsec(CLOCK_MONOTONIC), true);
	return n < 0 ? err_sys(e, (int)n, "cannot write network events to the audit log") : 0;
}
