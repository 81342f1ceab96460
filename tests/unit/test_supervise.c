/* SPDX-License-Identifier: Apache-2.0 */
/*
 * supervise() over a real coffer-init that stands in for an engine's, and clients on its control socket. The control
 * group and the workspace are played by functions here, so that their answers can be chosen.
 */
#include "base/clock.h"
#include "base/fd.h"
#include "gateway/link.h"
#include "gateway/supervise.h"
#include "initproc.h"
#include "tap.h"
#include "workspace/workspace.h"

#include <errno.h>
#include <pty.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <termios.h>

static struct cgroup_stat fake_stat;
static uint64_t fake_usage;
static int fake_freezes;

void cgroup_read_stat(const struct cgroup *cg, struct cgroup_stat *ret)
{
	(void)cg;
	*ret = fake_stat;
}

int cgroup_freeze(struct cgroup *cg, bool on, struct err *e)
{
	(void)cg;
	(void)e;
	fake_freezes += on;
	return 0;
}

int cgroup_kill(struct cgroup *cg, struct err *e)
{
	(void)cg;
	(void)e;
	return 0;
}

int workspace_usage(int fd, uint64_t cap_bytes, uint64_t cap_inodes, uint64_t *bytes, uint64_t *inodes,
		    struct err *e)
{
	(void)fd;
	(void)cap_bytes;
	(void)cap_inodes;
	(void)e;
	*bytes = fake_usage;
	*inodes = 1;
	return 0;
}

static char dir[] = "/tmp/coffer-test-sv-XXXXXX";

/* A supervisor in a process of its own. */
struct job {
	struct spec spec;
	struct supervise_io io;
	const char *fake_init; /* a shell script in the place of coffer-init, its stream on 3 */
	bool refuse_events;
	pid_t pid;
	int result;	     /* pipe with struct run_end */
	int keep[8], n_keep; /* closed in the parent once it runs */
	int ours[8], n_ours; /* closed in the job */
	char events[64];     /* file that gets a line for each event */
};

static int on_event(void *ctx, const char *type, const struct buf *fields)
{
	struct job *j = ctx;
	FILE *f;

	if (j->refuse_events)
		return -EIO;
	f = fopen(j->events, "a");
	fprintf(f, "%s {%s}\n", type, buf_cstr(fields));
	fclose(f);
	return 0;
}

static struct job job_new(const char *const *argv)
{
	struct job j = { .spec = SPEC_INIT, .result = -1, .pid = -1 };
	static int count;

	j.io = (struct supervise_io){ .in = -1,
				      .out = -1,
				      .err = -1,
				      .tty = -1,
				      .log_fd = -1,
				      .alive_fd = -1,
				      .listen_fd = -1,
				      .usage_fd = -1,
				      .usage2_fd = -1 };
	for (int i = 0; i < LIMIT_COUNT; i++)
		j.spec.limits.l[i].value = LIMIT_NONE;
	for (; *argv; argv++)
		CHECK(strv_add(&j.spec.argv, *argv) == 0);
	CHECK(strv_add(&j.spec.env, "PATH=/usr/bin:/bin") == 0 && strv_add(&j.spec.env, "BASE=1") == 0);
	j.spec.cwd = strdup("/");
	snprintf(j.events, sizeof(j.events), "%s/events.%d", dir, count++);
	return j;
}

#define JOB(...) job_new((const char *const[]){ __VA_ARGS__, NULL })
#define SH(script) JOB("sh", "-c", script)

_Noreturn static void supervisor(struct job *j, int result)
{
	struct initproc p;
	struct engine_run run = ENGINE_RUN_INIT;
	struct cgroup cg = { .name = "fake" };
	struct run_end end = { 0 };
	struct err e = ERR_INIT;
	int r;

	if (j->fake_init) {
		char path[128];

		snprintf(path, sizeof(path), "%s/fake-init", dir);
		if (fd_replace_file(AT_FDCWD, path, j->fake_init, strlen(j->fake_init), 0755) < 0)
			_exit(9);
		setenv("COFFER_INIT", path, 1);
	}
	/* A sanitizer's own handler would otherwise be found there, and left alone. */
	signal(SIGABRT, SIG_DFL);
	/* As pid 1 where that can be had, so that its end is everything's end. */
	if (!initproc_start(&p, geteuid() == 0 ? CLONE_NEWPID : 0))
		_exit(9);
	run.pid = p.pid;
	run.pidfd = p.pidfd;
	run.stream = p.fd;
	if (!j->io.event) {
		j->io.event = on_event;
		j->io.ctx = j;
	}
	r = supervise(&j->spec, &cg, &run, &j->io, &end, &e);
	if (r < 0)
		fprintf(stderr, "# supervise: %s\n", e.msg);
	if (write(result, &end, sizeof(end)) != (ssize_t)sizeof(end) || kill(p.pid, 0) == 0)
		_exit(8);
	_exit(r < 0 ? 7 : 0);
}

static void job_start(struct job *j)
{
	int p[2];

	fflush(stdout);
	if (pipe2(p, O_CLOEXEC) < 0)
		return;
	j->pid = fork();
	if (j->pid == 0) {
		close(p[0]);
		for (int i = 0; i < j->n_ours; i++)
			close(j->ours[i]);
		supervisor(j, p[1]);
	}
	close(p[1]);
	for (int i = 0; i < j->n_keep; i++)
		close(j->keep[i]);
	j->n_keep = 0;
	j->result = p[0];
}

/* Its end; *ret_rc gets the supervisor's own exit status. */
static struct run_end job_wait(struct job *j, int *ret_rc)
{
	struct run_end end = { .cause = CAUSE_COUNT, .exit_code = -1 };
	int st = 0;

	if (read(j->result, &end, sizeof(end)) != (ssize_t)sizeof(end))
		end.cause = CAUSE_COUNT;
	close(j->result);
	waitpid(j->pid, &st, 0);
	if (ret_rc)
		*ret_rc = WIFEXITED(st) ? WEXITSTATUS(st) : -WTERMSIG(st);
	else
		CHECKF(WIFEXITED(st) && WEXITSTATUS(st) == 0, "the supervisor ended well (%d)", st);
	strv_release(&j->spec.argv);
	strv_release(&j->spec.env);
	free(j->spec.cwd);
	free(j->spec.name);
	return end;
}

static bool is_end(const struct run_end *end, enum run_cause cause, int code)
{
	if (end->cause != cause || end->exit_code != code)
		printf("# cause %s, code %d, broken '%s'\n", run_cause_name(end->cause), end->exit_code,
		       end->broken);
	return end->cause == cause && end->exit_code == code;
}

/* A pipe whose one end the job gets; the other is returned. */
static int give_pipe(struct job *j, int *slot, bool job_writes)
{
	int p[2];

	if (pipe2(p, O_CLOEXEC) < 0)
		return -1;
	*slot = p[job_writes];
	j->keep[j->n_keep++] = p[job_writes];
	j->ours[j->n_ours++] = p[!job_writes];
	return p[!job_writes];
}

static void read_all(int fd, struct buf *b)
{
	buf_clear(b);
	CHECK(fd_read_all(fd, 64u << 20, b) == 0);
	close(fd);
}

static void test_ends(void)
{
	static const struct {
		const char *argv[4];
		enum run_cause cause;
		int code;
	} cases[] = {
		{ { "true" }, CAUSE_EXIT, 0 },
		{ { "sh", "-c", "exit 42" }, CAUSE_EXIT, 42 },
		{ { "sh", "-c", "kill -SEGV $$" }, CAUSE_SIGNAL, 139 },
		{ { "no-such-command" }, CAUSE_NOT_STARTED, 127 },
		{ { "/etc/passwd" }, CAUSE_NOT_STARTED, 126 },
	};
	struct run_end end;
	struct job j;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		j = job_new(cases[i].argv);
		job_start(&j);
		end = job_wait(&j, NULL);
		CHECKF(is_end(&end, cases[i].cause, cases[i].code), "%s ends with %d", cases[i].argv[0],
		       cases[i].code);
	}
	j = JOB("true");
	free(j.spec.cwd);
	j.spec.cwd = strdup("/no/such/dir");
	job_start(&j);
	end = job_wait(&j, NULL);
	CHECKF(is_end(&end, CAUSE_NOT_STARTED, 125) && end.claim.what == PROTO_WHAT_CWD &&
		       end.start_errno == ENOENT,
	       "a missing working directory is told apart");
}

static void test_streams(void)
{
	autobuf struct buf out = BUF_INIT, err = BUF_INIT;
	struct job j = SH("cat; echo to-err >&2; exit 3");
	int in = give_pipe(&j, &j.io.in, false), o = give_pipe(&j, &j.io.out, true),
	    e = give_pipe(&j, &j.io.err, true);
	struct run_end end;
	static char block[100000];
	pid_t writer;

	job_start(&j);
	writer = fork();
	if (writer == 0) {
		memset(block, 'y', sizeof(block));
		for (int i = 0; i < 40; i++) {
			if (fd_write_all(in, block, sizeof(block)) < 0)
				_exit(1);
		}
		_exit(0);
	}
	close(in);
	usleep(100000); /* a slow reader */
	read_all(o, &out);
	read_all(e, &err);
	end = job_wait(&j, NULL);
	waitpid(writer, NULL, 0);
	CHECK(is_end(&end, CAUSE_EXIT, 3));
	CHECKF(out.len == 4000000, "4000000 bytes went through (%zu)", out.len);
	CHECK_STR(buf_cstr(&err), "to-err\n");
	CHECK(end.output_bytes == 4000007 && !end.output_cut);
}

static void test_files(void)
{
	autobuf struct buf out = BUF_INIT;
	struct run_end end;
	struct job j;
	int o;

	/* stdin from a file, stdout to a file */
	j = JOB("wc", "-c");
	j.io.in = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	o = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	j.io.out = o;
	job_start(&j);
	end = job_wait(&j, NULL);
	CHECK(is_end(&end, CAUSE_EXIT, 0));
	{
		struct stat st;
		char text[32] = "";

		fstat(j.io.in, &st);
		CHECK(pread(o, text, sizeof(text) - 1, 0) > 0 && strtol(text, NULL, 10) == st.st_size);
		close(j.io.in);
		close(o);
	}
	/* /dev/null is not sent at all, and a command that does not read holds nobody up */
	j = SH("readlink /proc/self/fd/0");
	j.io.in = open("/dev/null", O_RDONLY | O_CLOEXEC);
	o = give_pipe(&j, &j.io.out, true);
	job_start(&j);
	close(j.io.in);
	read_all(o, &out);
	end = job_wait(&j, NULL);
	CHECK_STR(buf_cstr(&out), "/dev/null\n");
}

static void test_output_limits(void)
{
	autobuf struct buf out = BUF_INIT;
	struct run_end end;
	struct job j = SH("head -c 3000000 /dev/zero; exit 4");
	int o = give_pipe(&j, &j.io.out, true);

	j.spec.limits.l[LIMIT_OUTPUT].value = 1000000;
	job_start(&j);
	read_all(o, &out);
	end = job_wait(&j, NULL);
	CHECK(is_end(&end, CAUSE_EXIT, 4));
	CHECKF(out.len == 1000000 && end.output_cut && end.output_bytes == 3000000,
	       "output is cut at its limit");

	j = SH("yes");
	o = give_pipe(&j, &j.io.out, true);
	job_start(&j);
	buf_clear(&out);
	CHECK(read(o, buf_reserve(&out, 100), 100) > 0);
	close(o);
	end = job_wait(&j, NULL);
	CHECKF(is_end(&end, CAUSE_SIGNAL, 141), "a reader that goes away ends it as SIGPIPE would");

	j = SH("echo one; echo two >&2; head -c 100 /dev/zero | tr '\\0' x");
	o = open(dir, O_TMPFILE | O_RDWR | O_APPEND | O_CLOEXEC, 0600);
	j.io.log_fd = o;
	j.spec.limits.l[LIMIT_OUTPUT].value = 50;
	job_start(&j);
	end = job_wait(&j, NULL);
	lseek(o, 0, SEEK_SET);
	read_all(o, &out);
	CHECKF(end.output_cut && strstr(buf_cstr(&out), "one\n") && strstr(buf_cstr(&out), "xxx") &&
		       strstr(buf_cstr(&out), "thrown away"),
	       "a log is capped and says so");
}

static uint64_t since(uint64_t t)
{
	return (clock_nsec(CLOCK_MONOTONIC) - t) / NSEC_PER_MSEC;
}

static void test_time(void)
{
	uint64_t t = clock_nsec(CLOCK_MONOTONIC);
	struct run_end end;
	struct job j = SH("sleep 100");

	j.spec.limits.l[LIMIT_TIMEOUT].value = 200 * NSEC_PER_MSEC;
	job_start(&j);
	end = job_wait(&j, NULL);
	CHECKF(is_end(&end, CAUSE_TIMEOUT, 124) && since(t) < 1500, "the time limit ends it (%llu ms)",
	       (unsigned long long)since(t));
	t = clock_nsec(CLOCK_MONOTONIC);
	j = SH("trap '' TERM; while :; do sleep 0.1; done");
	j.spec.limits.l[LIMIT_TIMEOUT].value = 200 * NSEC_PER_MSEC;
	job_start(&j);
	end = job_wait(&j, NULL);
	CHECKF(is_end(&end, CAUSE_TIMEOUT, 124) && since(t) >= 2000 && since(t) < 4000,
	       "one that ignores SIGTERM is killed two seconds later");
}

/* Starts a command that says when it is ready, and waits for that. */
static int start_ready(struct job *j)
{
	int o = give_pipe(j, &j->io.out, true);
	char c;

	job_start(j);
	CHECK(read(o, &c, 1) == 1);
	return o;
}

static void test_signals(void)
{
	struct run_end end;
	struct job j = SH("echo; exec sleep 100");
	uint64_t t;
	int o = start_ready(&j);

	usleep(100000);
	kill(j.pid, SIGTERM);
	end = job_wait(&j, NULL);
	CHECKF(is_end(&end, CAUSE_STOPPED, 143), "SIGTERM is passed on");
	close(o);

	j = SH("trap 'exit 9' INT; echo; while :; do sleep 0.05; done");
	o = start_ready(&j);
	kill(j.pid, SIGINT);
	end = job_wait(&j, NULL);
	CHECKF(is_end(&end, CAUSE_STOPPED, 9), "a command that handles SIGINT gives its own code");
	close(o);

	j = SH("trap '' INT; echo; while :; do sleep 0.05; done");
	o = start_ready(&j);
	t = clock_nsec(CLOCK_MONOTONIC);
	kill(j.pid, SIGINT);
	usleep(300000);
	kill(j.pid, SIGINT);
	end = job_wait(&j, NULL);
	CHECKF(is_end(&end, CAUSE_STOPPED, 130) && since(t) < 1500, "a second SIGINT kills");
	close(o);

	j = SH("echo; sleep 100");
	{
		int alive = give_pipe(&j, &j.io.alive_fd, false);

		o = start_ready(&j);
		close(alive);
	}
	end = job_wait(&j, NULL);
	CHECKF(is_end(&end, CAUSE_CALLER, 137), "it ends with the process that started it");
	close(o);
}

static void test_kernel_says(void)
{
	struct run_end end;
	struct job j;

	fake_stat.oom_kills = 1;
	j = SH("kill -9 $$");
	job_start(&j);
	end = job_wait(&j, NULL);
	CHECK(is_end(&end, CAUSE_OOM, 137));
	j = SH("exit 0");
	job_start(&j);
	end = job_wait(&j, NULL);
	CHECKF(is_end(&end, CAUSE_EXIT, 0), "a command that copes with it has not failed");
	fake_stat.oom_kills = 0;
	fake_stat.pids_refused = 3;
	j = SH("exit 2");
	job_start(&j);
	end = job_wait(&j, NULL);
	CHECK(is_end(&end, CAUSE_PIDS, 2) && end.pids_hit);
	fake_stat.pids_refused = 0;
}

static void test_disk(void)
{
	char script[256];
	struct run_end end;
	struct job j;

	snprintf(script, sizeof(script),
		 "for i in 1 2 3 4 5 6 7 8 9 10; do head -c 300000 /dev/zero > %s/d$i; sleep 0.1; done", dir);
	fake_usage = 2000;
	j = SH(script);
	j.io.usage_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	j.spec.limits.l[LIMIT_DISK].value = 1000;
	job_start(&j);
	end = job_wait(&j, NULL);
	CHECKF(is_end(&end, CAUSE_DISK, 137), "past the disk limit it is killed");
	j = SH(script);
	j.io.usage_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	j.spec.limits.l[LIMIT_DISK].value = 5000;
	job_start(&j);
	end = job_wait(&j, NULL);
	CHECKF(is_end(&end, CAUSE_EXIT, 0), "below it nothing happens");
	close(j.io.usage_fd);
}

/* Whatever stands in the place of init. */
static void test_hostile(void)
{
#define HELLO "\\004\\000\\000\\000\\040\\000\\000\\000\\000\\000\\000\\000\\001\\000\\000\\000"
#define STARTED "\\004\\000\\000\\000\\041\\000\\000\\000\\001\\000\\000\\000\\005\\000\\000\\000"
	static const struct {
		const char *what, *script;
	} cases[] = {
		{ "one that says nothing and ends", "exit 0" },
		{ "one that dies", "kill -9 $$" },
		{ "garbage", "head -c 100000 /dev/urandom >&3; sleep 5" },
		{ "zeros", "head -c 100000 /dev/zero >&3; sleep 5" },
		{ "no greeting", "printf '" STARTED "' >&3; sleep 5" },
		{ "another version",
		  "printf '\\004\\000\\000\\000\\040\\000\\000\\000\\000\\000\\000\\000\\002\\000\\000\\000' >&3; sleep 5" },
		{ "a second greeting", "printf '" HELLO HELLO "' >&3; sleep 5" },
		{ "started twice", "printf '" HELLO STARTED STARTED "' >&3; sleep 5" },
		{ "output before the start",
		  "printf '" HELLO
		  "\\001\\000\\000\\000\\042\\000\\000\\000\\001\\000\\000\\000x' >&3; sleep 5" },
		{ "output of an unknown channel",
		  "printf '" HELLO STARTED
		  "\\001\\000\\000\\000\\042\\000\\000\\000\\002\\000\\000\\000x' >&3; sleep 5" },
		{ "a pong without a ping",
		  "printf '" HELLO
		  "\\000\\000\\000\\000\\047\\000\\000\\000\\000\\000\\000\\000' >&3; sleep 5" },
		{ "input credit that was not spent",
		  "printf '" HELLO STARTED
		  "\\004\\000\\000\\000\\044\\000\\000\\000\\001\\000\\000\\000\\000\\020\\000\\000' >&3; sleep 5" },
		{ "a frame of a client",
		  "printf '" HELLO
		  "\\000\\000\\000\\000\\101\\000\\000\\000\\000\\000\\000\\000' >&3; sleep 5" },
		{ "output past its credit",
		  "printf '" HELLO STARTED "' >&3; for i in 1 2 3 4 5 6 7 8 9; do "
		  "printf '\\000\\000\\001\\000\\042\\000\\000\\000\\001\\000\\000\\000' >&3; "
		  "head -c 65536 /dev/zero >&3; done; sleep 5" },
		{ "closing its stream", "exec 3>&- 3<&-; sleep 5" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		char script[2048];
		uint64_t t = clock_nsec(CLOCK_MONOTONIC);
		struct job j = JOB("true");
		struct run_end end;
		int o;

		snprintf(script, sizeof(script), "#!/bin/bash\n%s\n", cases[i].script);
		j.fake_init = script;
		o = give_pipe(&j, &j.io.out, true); /* that nobody reads */
		job_start(&j);
		end = job_wait(&j, NULL);
		close(o);
		CHECKF(is_end(&end, CAUSE_BROKEN, 125) && end.broken[0] && since(t) < 3000, "%s: %s",
		       cases[i].what, end.broken);
	}
}

/* Terminals */

static void test_filter(void)
{
	struct job j = SH("printf 'a\\033[2Jb\\033[31mc\\n'");
	int master, slave;
	char text[128] = "";
	size_t n = 0;
	struct run_end end;

	if (openpty(&master, &slave, NULL, NULL, NULL) < 0) {
		tap_skip("a terminal is spared escape sequences", "no pty");
		return;
	}
	j.io.out = slave;
	job_start(&j);
	end = job_wait(&j, NULL);
	while (n < sizeof(text) - 1 && !memmem(text, n, "\033[0m", 4)) {
		ssize_t k = read(master, text + n, sizeof(text) - 1 - n);

		if (k <= 0)
			break;
		n += (size_t)k;
	}
	CHECK(is_end(&end, CAUSE_EXIT, 0));
	CHECK_STR(text, "a\\x1b[2Jb\033[31mc\r\n\033[0m");
	close(master);
	close(slave);
}

/* Waits for `want`; what was read behind it stays for the next call on the same fd. */
static bool expect(int fd, const char *want)
{
	static char text[16384];
	static size_t n;
	static int of = -1;

	if (of != fd)
		n = 0;
	of = fd;
	for (int i = 0; i < 100; i++) {
		struct pollfd p = { .fd = fd, .events = POLLIN };
		char *at = memmem(text, n, want, strlen(want));
		ssize_t k;

		if (at) {
			at += strlen(want);
			n -= (size_t)(at - text);
			memmove(text, at, n);
			return true;
		}
		if (poll(&p, 1, 100) <= 0)
			continue;
		k = read(fd, text + n, sizeof(text) - 1 - n);
		if (k <= 0)
			break;
		n += (size_t)k;
	}
	printf("# got '%.*s'\n", (int)n, text);
	return false;
}

static bool same_modes(const struct termios *a, const struct termios *b)
{
	return a->c_iflag == b->c_iflag && a->c_oflag == b->c_oflag && a->c_cflag == b->c_cflag &&
	       a->c_lflag == b->c_lflag && memcmp(a->c_cc, b->c_cc, sizeof(a->c_cc)) == 0;
}

static void test_tty(void)
{
	struct job j = SH(
		"stty size; trap 'stty size' WINCH; trap 'echo caught; exit 6' INT; printf '\\033[1mbold'; "
		"while :; do sleep 0.05; done");
	struct winsize ws = { .ws_row = 30, .ws_col = 100 };
	struct termios before, during, after;
	int master, slave;
	struct run_end end;

	if (openpty(&master, &slave, NULL, NULL, &ws) < 0) {
		tap_skip("a terminal of its own", "no pty");
		return;
	}
	tcgetattr(slave, &before);
	j.io.in = j.io.out = j.io.err = j.io.tty = slave;
	j.io.out = dup(slave);
	j.io.err = dup(slave);
	j.spec.tty = true;
	job_start(&j);
	CHECKF(expect(master, "30 100\r\n"), "the size of the caller's terminal is the command's");
	CHECKF(expect(master, "\033[1mbold"), "escape sequences pass unchanged");
	tcgetattr(slave, &during);
	CHECKF(!(during.c_lflag & (ICANON | ECHO | ISIG)), "the caller's terminal is raw");
	ws.ws_row = 50;
	ioctl(slave, TIOCSWINSZ, &ws);
	kill(j.pid, SIGWINCH);
	CHECKF(expect(master, "50 100\r\n"), "a resize is passed on");
	CHECK(write(master, "\003", 1) == 1);
	CHECKF(expect(master, "caught"), "Ctrl-C reaches the command");
	end = job_wait(&j, NULL);
	CHECK(is_end(&end, CAUSE_EXIT, 6));
	tcgetattr(slave, &after);
	CHECKF(same_modes(&before, &after), "the caller's terminal is as it was");

	/* ended by SIGTERM from outside, and by a crash of ours: restored all the same */
	j = SH("echo up; sleep 100");
	j.io.in = j.io.tty = slave;
	j.io.out = dup(slave);
	j.spec.tty = true;
	job_start(&j);
	CHECK(expect(master, "up"));
	kill(j.pid, SIGTERM);
	end = job_wait(&j, NULL);
	CHECKF(end.cause == CAUSE_STOPPED, "SIGTERM with a terminal ends it");
	tcgetattr(slave, &after);
	CHECKF(same_modes(&before, &after), "the terminal is as it was after SIGTERM");
	j = SH("echo up; sleep 100");
	j.io.in = j.io.tty = slave;
	j.io.out = dup(slave);
	j.spec.tty = true;
	job_start(&j);
	CHECK(expect(master, "up"));
	kill(j.pid, SIGABRT);
	{
		int rc;

		job_wait(&j, &rc);
		CHECK(rc == -SIGABRT);
	}
	tcgetattr(slave, &after);
	CHECKF(same_modes(&before, &after), "the terminal is as it was after a crash");
	close(master);
	close(slave);
}

/* Clients */

static int listen_in(int dir_fd)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	unlinkat(dir_fd, "ctl.sock", 0);
	snprintf(a.sun_path, sizeof(a.sun_path), "/proc/self/fd/%d/ctl.sock", dir_fd);
	return bind(fd, (struct sockaddr *)&a, sizeof(a)) < 0 || listen(fd, 16) < 0 ? -1 : fd;
}

struct sandbox {
	struct job j;
	int dir_fd;
	struct link l;
};

static void sandbox_start(struct sandbox *s, bool refuse)
{
	struct err e = ERR_INIT;

	s->j = JOB("sleep", "1000");
	s->dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	s->j.io.listen_fd = listen_in(s->dir_fd);
	s->j.refuse_events = refuse;
	job_start(&s->j);
	close(s->j.io.listen_fd);
	CHECKF(link_open(&s->l, s->dir_fd, &e) == 0, "connected %s", e.msg);
}

static void run_linked(struct link *l, const char *const *argv, unsigned flags, struct proto_exit *x,
		       struct buf *out, struct err *e)
{
	char *const env[] = { (char *)"EXTRA=2", (char *)"BASE=over", NULL };
	const struct link_cmd c = { .argv = (char *const *)argv, .env = env, .cwd = "", .flags = flags };
	int p[2] = { -1, -1 }, r;
	struct link_io io = { .in = -1, .out = -1, .err = -1, .tty = -1 };

	*x = (struct proto_exit){ 99, 99, 99 };
	*e = ERR_INIT;
	if (out && pipe2(p, O_CLOEXEC) == 0)
		io.out = p[1];
	r = link_run(l, &c, &io, x, e);
	if (r < 0)
		printf("# %s\n", e->msg);
	fd_close(p[1]);
	if (out)
		read_all(p[0], out);
}

#define LINKED(l, x, out, e, ...) run_linked(l, (const char *const[]){ __VA_ARGS__, NULL }, 0, x, out, e)

static bool file_has(const char *path, const char *text)
{
	autobuf struct buf b = BUF_INIT;

	return fd_read_file(AT_FDCWD, path, 1u << 20, &b) == 0 && strstr(buf_cstr(&b), text);
}

static void test_exec(void)
{
	autobuf struct buf out = BUF_INIT;
	struct sandbox s;
	struct proto_exit x;
	struct err e = ERR_INIT;
	struct run_end end;

	sandbox_start(&s, false);
	LINKED(&s.l, &x, &out, &e, "sh", "-c", "echo $BASE $EXTRA $PATH; pwd; exit 5");
	CHECK(x.kind == PROTO_EXITED && x.value == 5);
	CHECK_STR(buf_cstr(&out), "over 2 /usr/bin:/bin\n/\n");
	LINKED(&s.l, &x, NULL, &e, "no-such-command");
	CHECK(proto_exit_code(&x) == 127);
	LINKED(&s.l, &x, NULL, &e, "sh", "-c", "kill -9 $$");
	CHECK(proto_exit_code(&x) == 137);
	CHECK(link_ping(&s.l, 2000, &e) == 0);
	buf_clear(&out);
	CHECK(link_stat(&s.l, &out, &e) == 0 && strstr(buf_cstr(&out), "\"commands\":1"));
	CHECKF(file_has(s.j.events, "exec.start {\"exec\":2,\"command\":[\"sh\",\"-c\",\"echo") &&
		       file_has(s.j.events, "exec.end {\"exec\":2,\"exit\":5"),
	       "what was executed is logged");
	CHECK(link_stop(&s.l, 5000, &e) == 0);
	end = job_wait(&s.j, NULL);
	CHECK(is_end(&end, CAUSE_STOPPED, 143));
	CHECK(file_has(s.j.events, "stop.request"));
	link_close(&s.l);
	CHECKF(link_open(&s.l, s.dir_fd, &e) == -ECONNREFUSED, "afterwards nobody listens");
	close(s.dir_fd);
}

static void test_exec_refused(void)
{
	struct sandbox s;
	struct proto_exit x;
	struct err e = ERR_INIT;
	char path[128], touch[160];
	int rc;

	snprintf(path, sizeof(path), "%s/forbidden", dir);
	snprintf(touch, sizeof(touch), "touch %s", path);
	sandbox_start(&s, true);
	LINKED(&s.l, &x, NULL, &e, "sh", "-c", touch);
	CHECKF(x.kind == 99 && strstr(e.msg, "audit log"), "what cannot be logged is refused: %s", e.msg);
	usleep(200000);
	CHECKF(access(path, F_OK) < 0, "and it was not started");
	kill(s.j.pid, SIGTERM);
	job_wait(&s.j, &rc);
	link_close(&s.l);
	close(s.dir_fd);
}

struct copied {
	size_t left, got;
};

static int produce(void *ctx, struct buf *out)
{
	struct copied *c = ctx;
	size_t n = c->left > 50000 ? 50000 : c->left;
	char *p = buf_reserve(out, n + 1);

	if (!p)
		return -ENOMEM;
	memset(p, 'z', n);
	out->len += n;
	c->left -= n;
	return c->left > 0;
}

static int consume(void *ctx, const void *data, size_t len)
{
	struct copied *c = ctx;

	(void)data;
	c->got += len;
	return 0;
}

static void test_transfer(void)
{
	static const char *const cat[] = { "cat", NULL };
	struct copied c = { .left = 5000000 };
	struct sandbox s;
	struct proto_exit x;
	struct err e = ERR_INIT;
	autobuf struct buf msg = BUF_INIT;
	const struct link_cmd cmd = { .argv = (char *const *)cat, .cwd = "" };
	const struct link_xfer xfer = { .produce = produce, .consume = consume, .ctx = &c, .messages = &msg };

	sandbox_start(&s, false);
	CHECK(link_transfer(&s.l, &cmd, &xfer, &x, &e) == 0 && x.kind == PROTO_EXITED && x.value == 0);
	CHECKF(c.got == 5000000, "5000000 bytes there and back (%zu)", c.got);
	CHECK(link_stop(&s.l, 0, &e) == 0);
	{
		struct run_end end = job_wait(&s.j, NULL);

		CHECKF(is_end(&end, CAUSE_STOPPED, 143), "stopped without grace");
	}
	link_close(&s.l);
	close(s.dir_fd);
}

/* A client that goes away hangs up on its command; others go on. */
static void test_hang_up(void)
{
	struct sandbox s;
	struct link other;
	struct err e = ERR_INIT;
	struct proto_exit x;
	struct proto_start st = { .argc = 3 };
	autobuf struct buf out = BUF_INIT;
	static const char body[] =
		"\0sh\0-c\0trap 'echo hup > $0.hup; exit' HUP; echo up > $0.up; while :; do sleep 0.05; done";
	char prefix[128], path[160];

	snprintf(prefix, sizeof(prefix), "%s/hang", dir);
	sandbox_start(&s, false);
	CHECK(link_open(&other, s.dir_fd, &e) == 0);
	buf_add(&out, body, sizeof(body));
	buf_add(&out, prefix, strlen(prefix) + 1);
	st.argc = 4;
	frame_add(&other.conn.out, PROTO_START_DATA, 1, out.data, (uint32_t)out.len);
	proto_add_start(&other.conn.out, 1, &st);
	CHECK(conn_flush(&other.conn) == 0);
	snprintf(path, sizeof(path), "%s.up", prefix);
	for (int i = 0; i < 100 && access(path, F_OK) < 0; i++)
		usleep(20000);
	CHECK(access(path, F_OK) == 0);
	link_close(&other);
	snprintf(path, sizeof(path), "%s.hup", prefix);
	for (int i = 0; i < 100 && access(path, F_OK) < 0; i++)
		usleep(20000);
	CHECKF(access(path, F_OK) == 0, "the command of a client that went away gets SIGHUP");
	LINKED(&s.l, &x, NULL, &e, "true");
	CHECKF(x.kind == PROTO_EXITED && x.value == 0, "another client's go on");
	usleep(100000);
	CHECK(file_has(s.j.events, "\"hung_up\":true"));
	CHECK(link_stop(&s.l, 1000, &e) == 0);
	job_wait(&s.j, NULL);
	link_close(&s.l);
	close(s.dir_fd);
}

/* Frames that a client may not send end its connection, and nothing else. */
static void test_bad_clients(void)
{
	static const struct {
		const char *what;
		uint8_t type;
		uint32_t chan;
		const char *data;
		uint32_t len;
	} cases[] = {
		{ "a frame of init's", PROTO_EXIT, 1, "\0\0\0\0\0\0\0\0\0\0\0\0", 12 },
		{ "an unknown type", 200, 0, "", 0 },
		{ "a start without a body", PROTO_START, 1, "\0\0\0\0\1\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 20 },
		{ "input for the main command", PROTO_STDIN, 1, "x", 1 },
		{ "a signal for the main command", PROTO_SIGNAL, 1, "\11\0\0\0", 4 },
		{ "a stop of the wrong size", PROTO_STOP, 0, "x", 1 },
		{ "too long a ping", PROTO_PING, 0,
		  "0123456789012345678901234567890123456789012345678901234567890123456789", 70 },
	};
	struct sandbox s;
	struct err e = ERR_INIT;
	struct proto_exit x;

	sandbox_start(&s, false);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		autolink struct link l = LINK_INIT;
		autobuf struct buf out = BUF_INIT;

		CHECK(link_open(&l, s.dir_fd, &e) == 0);
		frame_add(&l.conn.out, cases[i].type, cases[i].chan, cases[i].data, cases[i].len);
		CHECKF(link_stat(&l, &out, &e) < 0, "%s ends the connection", cases[i].what);
	}
	{
		/* a client may not claim to be the main command */
		autolink struct link l = LINK_INIT;
		autobuf struct buf out = BUF_INIT;
		const struct proto_start st = { .flags = PROTO_F_MAIN, .argc = 1 };

		CHECK(link_open(&l, s.dir_fd, &e) == 0);
		frame_add(&l.conn.out, PROTO_START_DATA, 1, "\0true", 6);
		proto_add_start(&l.conn.out, 1, &st);
		CHECK(link_stat(&l, &out, &e) < 0);
	}
	LINKED(&s.l, &x, NULL, &e, "true");
	CHECKF(x.kind == PROTO_EXITED && x.value == 0, "the sandbox lives on");
	CHECK(link_stop(&s.l, 1000, &e) == 0);
	job_wait(&s.j, NULL);
	link_close(&s.l);
	close(s.dir_fd);
}

static void test_latency(void)
{
	enum { N = 100 };
	static const char *const argv[] = { "/bin/true", NULL };
	static char *const none[] = { NULL };
	const struct link_cmd cmd = { .argv = (char *const *)argv, .cwd = "" };
	const struct link_xfer xfer = { 0 };
	struct sandbox s;
	struct proto_exit x;
	struct err e = ERR_INIT;
	volatile uint64_t mine = 0, floor = 0, t;

	sandbox_start(&s, false);
	for (int i = 0; i < N; i++) {
		pid_t pid;

		t = clock_nsec(CLOCK_MONOTONIC);
		if (link_transfer(&s.l, &cmd, &xfer, &x, &e) < 0)
			break;
		mine += clock_nsec(CLOCK_MONOTONIC) - t;
		t = clock_nsec(CLOCK_MONOTONIC);
		pid = vfork(); // NOLINT(clang-analyzer-security.insecureAPI.vfork): it is what we compare with
		if (pid == 0) {
			execve("/bin/true", none, none);
			_exit(1);
		}
		waitpid(pid, NULL, 0);
		floor += clock_nsec(CLOCK_MONOTONIC) - t;
	}
	printf("# exec from a connected client: %llu us, vfork+exec: %llu us, ratio %.2f\n",
	       (unsigned long long)(mine / N / 1000), (unsigned long long)(floor / N / 1000),
	       (double)mine / (double)floor);
	CHECKF(x.kind == PROTO_EXITED && x.value == 0, "%d commands one after another", N);
	CHECK(link_stop(&s.l, 1000, &e) == 0);
	job_wait(&s.j, NULL);
	link_close(&s.l);
	close(s.dir_fd);
}

int main(void)
{
	struct err e = ERR_INIT;

	signal(SIGPIPE, SIG_IGN);
	if (!mkdtemp(dir))
		return 1;
	test_ends();
	test_streams();
	test_files();
	test_output_limits();
	test_time();
	test_signals();
	test_kernel_says();
	test_disk();
	test_hostile();
	test_filter();
	test_tty();
	test_exec();
	test_exec_refused();
	test_transfer();
	test_hang_up();
	test_bad_clients();
	test_latency();
	if (fd_rm_rf(AT_FDCWD, dir, &e) < 0)
		printf("# %s\n", e.msg);
	return tap_done();
}
