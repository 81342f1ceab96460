/* SPDX-License-Identifier: Apache-2.0 */
/* Appending: round trip, many writers, crashes, rotation and pruning, a full disk. */
#include "audit/anchor.h"
#include "audit/line.h"
#include "audit/segment.h"
#include "test_audit_log.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>

static struct audit_verdict verdict(struct test_log *t)
{
	struct audit_verdict v = AUDIT_VERDICT_INIT;

	if (audit_verify(t->state_fd, &v, NULL) < 0)
		v.ok = false;
	return v;
}

static void test_round_trip(void)
{
	CLEANUP(log_free) struct test_log t = log_new();
	CLEANUP(audit_verdict_release) struct audit_verdict v = AUDIT_VERDICT_INIT, empty = verdict(&t);
	struct err e = ERR_INIT;
	struct line l;
	size_t len;
	struct stat st;

	CHECK(empty.ok && empty.events == 0);
	CHECK(log_fill(&t, 10, NULL, &e) == 0);
	v = verdict(&t);
	CHECKF(v.ok && v.n_findings == 0, "an untouched log verifies");
	CHECK(v.events == 11 && v.first_seq == 1 && v.last_seq == 11);
	autobuf struct buf b = log_read(&t, "log.jsonl");
	const char *p = line_at(&b, 0, &len);
	CHECK(line_parse(p, len - 1, &l) == 0 && line_is_type(&l, "audit.begin"));
	p = line_at(&b, 1, &len);
	CHECK(line_parse(p, len - 1, &l) == 0 && line_is_type(&l, "test.event") && l.seq == 2);
	CHECK(l.sandbox_len == 12 && memcmp(l.sandbox, "a1b2c3d4e5f6", 12) == 0);
	CHECK(l.fields_len && memcmp(l.fields, "\"n\":0,", 6) == 0);
	CHECK(fstatat(t.dir_fd, "key", &st, 0) == 0 && (st.st_mode & 0777) == 0600);
	CHECK(fstatat(t.dir_fd, "log.jsonl", &st, 0) == 0 && (st.st_mode & 0777) == 0600);
	CHECK(fstatat(t.dir_fd, "anchor", &st, 0) == 0 && st.st_size == ANCHOR_SIZE);
}

/* A process that is killed while it makes the reserve leaves an empty file. */
static void test_reserve(void)
{
	CLEANUP(log_free) struct test_log t = log_with(1);
	struct err e = ERR_INIT;
	struct stat st;

	CHECK(fstatat(t.dir_fd, "reserve", &st, 0) == 0 && st.st_size == AUDIT_RESERVE);
	autoclose int fd = openat(t.dir_fd, "reserve", O_WRONLY | O_TRUNC | O_CLOEXEC);
	CHECK(fd >= 0);
	CHECK(log_fill(&t, 1, NULL, &e) == 0);
	CHECKF(fstat(fd, &st) == 0 && st.st_size == AUDIT_RESERVE && st.st_blocks > 0,
	       "an empty reserve is filled by the next program that opens the log");
}

static void test_refusals(void)
{
	CLEANUP(log_free) struct test_log t = log_with(1);
	CLEANUP(audit_freep) struct audit *a = NULL;
	autobuf struct buf fields = BUF_INIT, big = BUF_INIT;
	struct err e = ERR_INIT;

	CHECK(audit_open(&a, t.state_fd, &e) == 0);
	buf_adds(&fields, "\"a\":\"b\n\"");
	CHECK(audit_append(a, "x", NULL, &fields, &e) == -EINVAL);
	CHECK(audit_append(a, "audit.accept", NULL, NULL, &e) == -EINVAL);
	CHECK(audit_append(a, "A\"", NULL, NULL, &e) == -EINVAL);
	CHECK(audit_append(a, "", NULL, NULL, &e) == -EINVAL);
	CHECK(audit_append(a, "x", "../x", NULL, &e) == -EINVAL);
	buf_adds(&big, "\"a\":\"");
	for (int i = 0; i < 1 << 20; i++)
		buf_addc(&big, 'a');
	buf_addc(&big, '"');
	CHECK(audit_append(a, "x", NULL, &big, &e) == -E2BIG);
	CHECK(audit_append(a, "x", NULL, NULL, &e) == 0);
	CHECK(log_is_ok(&t));
	/* Nearly as large as can be, and found again. */
	big.len -= 1000;
	big.data[big.len - 1] = '"';
	CHECK(audit_append(a, "x", NULL, &big, &e) == 0);
	CHECK(audit_append(a, "x", NULL, NULL, &e) == 0);
	CHECK(log_is_ok(&t));
}

static void test_many_writers(void)
{
	CLEANUP(log_free) struct test_log t = log_new();
	/* Small segments, so that writers rotate under each other. */
	struct audit_settings set = { .segment_size = 256 << 10, .keep = 200, .head_every = 64 };
	pid_t pids[8];
	int bad = 0, status;

	for (int i = 0; i < 8; i++) {
		pids[i] = fork();
		if (pids[i] == 0) {
			struct err e = ERR_INIT;
			int r = log_fill(&t, 500, &set, &e);

			if (r < 0)
				printf("# %s\n", e.msg);
			_exit(r < 0);
		}
	}
	for (int i = 0; i < 8; i++)
		bad += waitpid(pids[i], &status, 0) != pids[i] || status != 0;
	CLEANUP(audit_verdict_release) struct audit_verdict v = verdict(&t);
	CHECKF(bad == 0, "8 processes appended 500 events each");
	CHECK(v.ok && v.n_findings == 0 && v.events > 4001 && v.events < 4050);
	CHECKF(v.heads >= v.events / 64 && v.last_head + 64 >= v.last_seq,
	       "heads are signed while processes append");
}

/* One handle, used by a parent and its child at once: the lock must hold between them too. */
static void test_fork(void)
{
	CLEANUP(log_free) struct test_log t = log_with(0);
	CLEANUP(audit_freep) struct audit *a = NULL;
	struct err e = ERR_INIT;
	int status = -1, r;
	pid_t pid;

	CHECK(audit_open(&a, t.state_fd, &e) == 0);
	r = audit_append(a, "test.parent", NULL, NULL, &e);
	pid = fork();
	for (int i = 0; r == 0 && i < 2000; i++)
		r = audit_append(a, pid ? "test.parent" : "test.child", NULL, NULL, &e);
	if (pid == 0)
		_exit(r < 0);
	CHECK(waitpid(pid, &status, 0) == pid && status == 0 && r == 0);
	CHECK(log_is_ok(&t));
}

static void sleep_us(long us)
{
	nanosleep(&(struct timespec){ .tv_nsec = us * 1000 }, NULL);
}

/* The same numbers each time. */
static long random_below(long n)
{
	static uint64_t seed = 0x9e3779b97f4a7c15ULL;

	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return (long)(seed >> 33) % n;
}

static void test_kill(void)
{
	CLEANUP(log_free) struct test_log t = log_new();
	struct audit_settings set = { .segment_size = 32 << 10, .keep = 4, .head_every = 16 };
	int not_ok = 0, cannot_append = 0, crashes = 0;
	struct err e = ERR_INIT;

	for (int i = 0; i < 60; i++) {
		pid_t pids[2];

		for (int k = 0; k < 2; k++) {
			pids[k] = fork();
			if (pids[k] == 0)
				_exit(log_fill(&t, 1 << 30, &set, &e) < 0);
		}
		sleep_us(500 + random_below(6000));
		for (int k = 0; k < 2; k++) {
			kill(pids[k], SIGKILL);
			waitpid(pids[k], NULL, 0);
		}
		CLEANUP(audit_verdict_release) struct audit_verdict v = verdict(&t);
		not_ok += !v.ok;
		crashes += v.note[0] != '\0';
		if (log_fill(&t, 1, &set, &e) < 0) {
			printf("# %s\n", e.msg);
			cannot_append++;
		}
	}
	printf("# 60 kills, %d of them left something to repair\n", crashes);
	CHECKF(not_ok == 0, "a log whose writers were killed verifies");
	CHECKF(cannot_append == 0, "a log whose writers were killed can be appended to");
	CHECK(log_is_ok(&t));
}

static bool last_events_are(struct test_log *t, const char *type, const char *what)
{
	autobuf struct buf b = log_read(t, "log.jsonl");
	autofree char *want = NULL;

	if (asprintf(&want, "\"type\":\"%s\"", type) < 0 || !b.data)
		return false;
	return strstr(b.data, want) && strstr(b.data, what);
}

/* The states that a kill between any two steps leaves, made by hand. */
static void test_crash_states(void)
{
	CLEANUP(log_free) struct test_log t = log_with(5);
	autobuf struct buf anchor = log_read(&t, "anchor"), log = log_read(&t, "log.jsonl"), more = BUF_INIT;
	struct err e = ERR_INIT;

	/* a line without its anchor */
	CHECK(log_fill(&t, 1, NULL, &e) == 0);
	log_write(&t, "anchor", anchor.data, anchor.len);
	CLEANUP(audit_verdict_release) struct audit_verdict v = verdict(&t);
	CHECKF(v.ok && strstr(v.note, "one event ahead"), "a log one line ahead of the anchor is a crash");
	CHECK(log_fill(&t, 1, NULL, &e) == 0 && log_is_ok(&t));
	CHECK(last_events_are(&t, "audit.repair", "which was kept"));

	/* half a line */
	more = log_read(&t, "log.jsonl");
	buf_add(&more, log.data, 60);
	log_write(&t, "log.jsonl", more.data, more.len);
	CLEANUP(audit_verdict_release) struct audit_verdict torn = verdict(&t);
	CHECKF(torn.ok && strstr(torn.note, "incomplete line"),
	       "a log half a line behind the anchor is a crash");
	CHECK(log_fill(&t, 1, NULL, &e) == 0 && log_is_ok(&t));
	CHECK(last_events_are(&t, "audit.repair", "taken off"));
}

static void test_rotation_crashes(void)
{
	CLEANUP(log_free) struct test_log t = log_with(5);
	struct err e = ERR_INIT;
	struct stat st;

	/* after the rename */
	CHECK(renameat(t.dir_fd, "log.jsonl", t.dir_fd, "log.000001.jsonl") == 0);
	CHECK(log_is_ok(&t));
	CHECK(log_fill(&t, 1, NULL, &e) == 0 && log_is_ok(&t));
	CHECK(fstatat(t.dir_fd, "log.jsonl", &st, 0) == 0 && st.st_size > 0);
	/* after the new file was made */
	CHECK(renameat(t.dir_fd, "log.jsonl", t.dir_fd, "log.000002.jsonl") == 0);
	log_write(&t, "log.jsonl", "", 0);
	CHECK(log_is_ok(&t));
	CHECK(log_fill(&t, 1, NULL, &e) == 0 && log_is_ok(&t));
	/* after the anchor names the new file */
	autobuf struct buf text = log_read(&t, "anchor");
	struct anchor an;
	char out[ANCHOR_SIZE + 1];
	CHECK(anchor_parse(text.data, text.len, &an) == 0 && an.segment == 3);
	CHECK(renameat(t.dir_fd, "log.jsonl", t.dir_fd, "log.000003.jsonl") == 0);
	log_write(&t, "log.jsonl", "", 0);
	an.segment = 4;
	an.size = 0;
	anchor_format(&an, out);
	log_write(&t, "anchor", out, ANCHOR_SIZE);
	CHECK(log_is_ok(&t));
	CHECK(log_fill(&t, 1, NULL, &e) == 0 && log_is_ok(&t));
	/* a file in the way of a rotation is not overwritten */
	struct audit_settings tiny = { .segment_size = 1, .keep = 16, .head_every = 256 };
	log_write(&t, "log.000004.jsonl", "x\n", 2);
	CHECK(log_fill(&t, 1, &tiny, &e) == -EEXIST);
}

static void test_rotation(void)
{
	CLEANUP(log_free) struct test_log t = log_new();
	struct audit_settings set = { .segment_size = 8192, .keep = 4, .head_every = 10 };
	struct segment_list l;
	struct err e = ERR_INIT;
	struct stat st;

	CHECK(log_fill(&t, 40, &set, &e) == 0);
	CHECK(segment_list(t.dir_fd, &l, &e) == 0 && l.count >= 1 && l.n[0] == 1);
	CHECK(fstatat(t.dir_fd, "log.000001.jsonl", &st, 0) == 0 && st.st_size <= 8192 && st.st_size > 4096);
	CLEANUP(audit_verdict_release) struct audit_verdict v = verdict(&t);
	CHECKF(v.ok && v.pruned_through == 0 && v.first_seq == 1, "the chain goes on over segments");
	CHECK(log_fill(&t, 400, &set, &e) == 0);
	CHECK(segment_list(t.dir_fd, &l, &e) == 0 && l.count == 3);
	CLEANUP(audit_verdict_release) struct audit_verdict p = verdict(&t);
	CHECKF(p.ok && p.n_findings == 0, "a pruned log verifies too");
	CHECK(p.pruned_through > 0 && p.first_seq == p.pruned_through + 1);
	CHECKF(p.heads > 0 && p.heads < 20, "heads of pruned events are gone too (%llu)",
	       (unsigned long long)p.heads);
	/* Somebody who removes one more segment is found. */
	char name[SEGMENT_NAME_LEN];
	segment_name(l.n[0], name);
	CHECK(unlinkat(t.dir_fd, name, 0) == 0);
	CLEANUP(audit_verdict_release) struct audit_verdict gone = verdict(&t);
	CHECK(!gone.ok && gone.findings[0].kind == AUDIT_DELETE);
	/* A pruning that was interrupted before the file went leaves one more than needed, which is fine. */
	CHECK(log_fill(&t, 60, &set, &e) == 0);
}

/* Verify takes its picture between two events, also while files are rotated and pruned under it. */
static void test_verify_meanwhile(void)
{
	CLEANUP(log_free) struct test_log t = log_new();
	struct audit_settings set = { .segment_size = 8192, .keep = 3, .head_every = 16 };
	pid_t pid = fork();
	struct err e = ERR_INIT;
	int bad = 0;

	if (pid == 0)
		_exit(log_fill(&t, 1 << 30, &set, &e) < 0);
	for (int i = 0; i < 200; i++)
		bad += !log_is_ok(&t);
	CHECKF(kill(pid, SIGKILL) == 0 && waitpid(pid, NULL, 0) == pid,
	       "the writer wrote until it was killed");
	CHECKF(bad == 0, "a log that is written to verifies at any moment");
}

/* Fills until it fails, and checks that what failed is not there. */
static void fill_up(struct test_log *t, const char *where)
{
	struct audit_settings set = AUDIT_SETTINGS_DEFAULT;
	struct err e = ERR_INIT;
	int r = log_fill(t, 100000, &set, &e);
	struct stat st;
	struct anchor an;

	printf("# %s: %s\n", where, e.msg);
	CHECKF(r == -ENOSPC || r == -EFBIG, "%s: appending to a full disk fails", where);
	CHECKF(log_is_ok(t), "%s: the log verifies after the failure", where);
	autoclose int fd = openat(t->dir_fd, "anchor", O_RDONLY | O_CLOEXEC);
	CHECKF(fstatat(t->dir_fd, "log.jsonl", &st, 0) == 0 && anchor_read(fd, &an) == 0 &&
		       (uint64_t)st.st_size == an.size,
	       "%s: a refused event leaves nothing in the log", where);
}

static void test_no_space_tmpfs(void)
{
	CLEANUP(log_free) struct test_log t = log_new();
	autofree char *big = NULL;
	struct err e = ERR_INIT;

	if (mount("none", t.path, "tmpfs", 0, "size=256k") < 0) {
		tap_skip("a full tmpfs makes appending fail", "cannot mount one");
		return;
	}
	fd_close(t.state_fd);
	t.state_fd = open(t.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CHECK(log_fill(&t, 1, NULL, &e) == 0);
	big = calloc(1, 100 << 10);
	log_write(&t, "ballast", big, 100 << 10);
	fill_up(&t, "a full tmpfs");
	CHECK(unlinkat(t.dir_fd, "ballast", 0) == 0);
	CHECKF(log_fill(&t, 10, NULL, &e) == 0 && log_is_ok(&t),
	       "the log can be appended to once there is room");
	t.dir_fd = fd_close(t.dir_fd);
	t.state_fd = fd_close(t.state_fd);
	CHECK(umount2(t.path, MNT_DETACH) == 0);
}

static void test_no_space_rlimit(void)
{
	CLEANUP(log_free) struct test_log t = log_with(1);
	struct rlimit old, small;

	signal(SIGXFSZ, SIG_IGN);
	getrlimit(RLIMIT_FSIZE, &old);
	small = old;
	small.rlim_cur = 100001;
	setrlimit(RLIMIT_FSIZE, &small);
	fill_up(&t, "a file size limit");
	setrlimit(RLIMIT_FSIZE, &old);
	struct err e = ERR_INIT;
	CHECK(log_fill(&t, 3, NULL, &e) == 0 && log_is_ok(&t));
}

/* The time is shown and not asserted, because a busy machine breaks any promise of it. */
static void show_speed(void)
{
	CLEANUP(log_free) struct test_log t = log_with(1);
	struct timespec a, b;
	struct err e = ERR_INIT;

	clock_gettime(CLOCK_MONOTONIC, &a);
	CHECK(log_fill(&t, 5000, NULL, &e) == 0);
	clock_gettime(CLOCK_MONOTONIC, &b);
	printf("# %.1f us for an append\n",
	       ((double)(b.tv_sec - a.tv_sec) * 1e9 + (double)(b.tv_nsec - a.tv_nsec)) / 5000 / 1000);
}

int main(void)
{
	test_round_trip();
	test_reserve();
	test_refusals();
	test_many_writers();
	test_fork();
	test_kill();
	test_crash_states();
	test_rotation_crashes();
	test_rotation();
	test_verify_meanwhile();
	test_no_space_tmpfs();
	test_no_space_rlimit();
	show_speed();
	return tap_done();
}
