/* SPDX-License-Identifier: Apache-2.0 */
/* The real coffer-init, driven over its protocol. */
#include "base/clock.h"
#include "base/fd.h"
#include "initproc.h"
#include "tap.h"

#include <errno.h>
#include <sys/stat.h>

struct result {
	int status; /* 1: ended, 0: the stream ended first, -1: nothing came */
	struct proto_exit x;
	struct buf out, err;
	bool closed; /* it closed its stdin */
};

static struct result res;

static void take(struct initproc *p, const struct frame *f, uint32_t *cost)
{
	if (f->type == PROTO_STDOUT || f->type == PROTO_STDERR) {
		buf_add(f->type == PROTO_STDOUT ? &res.out : &res.err, f->data, f->len);
		*cost += f->len + FRAME_HEAD;
	}
	if (f->type == PROTO_STDIN_CLOSED)
		res.closed = true;
	if (*cost >= PROTO_CREDIT_STEP) {
		proto_add_u32(&p->c.out, PROTO_CREDIT, f->chan, *cost);
		*cost = 0;
	}
}

/* Waits for the end of a channel; frames of others are skipped. */
static void finish(struct initproc *p, uint32_t chan)
{
	struct frame f;
	uint32_t cost = 0;

	buf_clear(&res.out);
	buf_clear(&res.err);
	res.x = (struct proto_exit){ 99, 99, 99 };
	res.closed = false;
	while ((res.status = initproc_recv(p, &f)) > 0) {
		if (f.chan != chan)
			continue;
		if (f.type == PROTO_EXIT) {
			if (proto_get_exit(&f, &res.x) < 0)
				res.status = -1;
			return;
		}
		take(p, &f, &cost);
	}
}

static void run(struct initproc *p, const char *const *argv, const char *cwd, unsigned flags)
{
	finish(p, initproc_begin(p, argv, cwd, flags));
}

#define RUN(p, ...) run(p, (const char *const[]){ __VA_ARGS__, NULL }, "/", 0)
#define SH(p, script) RUN(p, "sh", "-c", script)

static bool ended(unsigned kind, unsigned value, unsigned what)
{
	bool ok = res.status == 1 && res.x.kind == kind && res.x.value == value && res.x.what == what;

	if (!ok)
		printf("# status %d, kind %u value %u what %u, out '%.200s' err '%.200s'\n", res.status,
		       res.x.kind, res.x.value, res.x.what, buf_cstr(&res.out), buf_cstr(&res.err));
	return ok;
}

static void test_ends(struct initproc *p)
{
	struct frame f;
	uint32_t v;

	CHECK(initproc_recv(p, &f) == 1 && f.type == PROTO_HELLO && f.chan == 0);
	CHECK(proto_get_u32(&f, &v) == 0 && v == PROTO_VERSION);
	RUN(p, "echo", "hi");
	CHECK(ended(PROTO_EXITED, 0, 0));
	CHECK_STR(buf_cstr(&res.out), "hi\n");
	SH(p, "echo oops >&2; exit 7");
	CHECK(ended(PROTO_EXITED, 7, 0));
	CHECK_STR(buf_cstr(&res.err), "oops\n");
	SH(p, "kill -9 $$");
	CHECK(ended(PROTO_SIGNALED, 9, 0));
}

static void test_not_started(struct initproc *p)
{
	RUN(p, "no-such-command");
	CHECK(ended(PROTO_NOT_STARTED, ENOENT, PROTO_WHAT_EXEC));
	RUN(p, "/no/such/command");
	CHECK(ended(PROTO_NOT_STARTED, ENOENT, PROTO_WHAT_EXEC));
	RUN(p, "");
	CHECK(ended(PROTO_NOT_STARTED, ENOENT, PROTO_WHAT_EXEC));
	RUN(p, "/etc/passwd");
	CHECK(ended(PROTO_NOT_STARTED, EACCES, PROTO_WHAT_EXEC));
	RUN(p, "/etc");
	CHECK(ended(PROTO_NOT_STARTED, EACCES, PROTO_WHAT_EXEC));
	run(p, (const char *const[]){ "true", NULL }, "/no/such/dir", 0);
	CHECK(ended(PROTO_NOT_STARTED, ENOENT, PROTO_WHAT_CWD));
	run(p, (const char *const[]){ "pwd", NULL }, "/usr", 0);
	CHECK_STR(buf_cstr(&res.out), "/usr\n");
	run(p, (const char *const[]){ "rm", NULL }, "/", PROTO_F_BUILTIN);
	CHECK(ended(PROTO_NOT_STARTED, EINVAL, PROTO_WHAT_REQUEST));
}

static void write_file(const char *path, const char *text, mode_t mode)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0700);

	if (fd < 0 || write(fd, text, strlen(text)) < 0 || fchmod(fd, mode) < 0)
		printf("# cannot write %s\n", path);
	close(fd);
}

static void test_scripts(struct initproc *p, const char *dir)
{
	char path[256];

	snprintf(path, sizeof(path), "%s/plain", dir);
	write_file(path, "echo \"$0 $1\"\n", 0755);
	RUN(p, path, "arg");
	CHECKF(ended(PROTO_EXITED, 0, 0) && strstr(buf_cstr(&res.out), "/plain arg\n"),
	       "a script without #! is given to the shell");
	snprintf(path, sizeof(path), "%s/badinterp", dir);
	write_file(path, "#!/no/such/interpreter\n", 0755);
	RUN(p, path);
	CHECK(ended(PROTO_NOT_STARTED, ENOENT, PROTO_WHAT_INTERP));
	snprintf(path, sizeof(path), "%s/binary", dir);
	write_file(path, "\177ELF garbage", 0755);
	RUN(p, path);
	CHECK(res.status == 1 && res.x.kind != PROTO_EXITED ? true : res.x.value != 0);
	write_file(path, "", 0755);
	RUN(p, path);
	CHECKF(ended(PROTO_EXITED, 0, 0), "an empty file is an empty script");
}

static void test_surroundings(struct initproc *p)
{
	SH(p,
	   "cd /proc/self/fd && for f in 0 1 2 3 4 5 6 7 8 9; do [ -e /proc/$$/fd/$f ] && echo -n $f; done");
	CHECK_STR(buf_cstr(&res.out), "012");
	SH(p, "cat /proc/self/status | grep -E '^Sig(Blk|Ign|Cgt)'");
	CHECK_STR(buf_cstr(&res.out),
		  "SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\nSigCgt:\t0000000000000000\n");
}

static void test_environment(struct initproc *p)
{
	SH(p, "readlink /proc/self/fd/0; env | grep -v -E '^(PWD|SHLVL|_|OLDPWD)=' | sort");
	CHECK_STR(buf_cstr(&res.out), "/dev/null\nPATH=/usr/bin:/bin\nTERM=dumb\n");
	SH(p, "ps -o pid=,pgid=,sid= -p $$ | awk '$1 == $2 && $2 == $3 { print \"leader\" }'");
	CHECK_STR(buf_cstr(&res.out), "leader\n");
	SH(p, "echo > /dev/tty");
	CHECKF(ended(PROTO_EXITED, 2, 0), "a command without a request for a terminal has none");
}

static void test_stdin(struct initproc *p)
{
	static char block[20000];
	uint32_t chan;
	struct frame f;
	size_t sent = 0, credit = PROTO_WINDOW, got = 0;
	uint32_t v;

	chan = initproc_begin(p, (const char *const[]){ "cat", NULL }, "/", PROTO_F_STDIN);
	frame_add(&p->c.out, PROTO_STDIN, chan, "hello", 5);
	frame_add(&p->c.out, PROTO_STDIN, chan, NULL, 0);
	finish(p, chan);
	CHECK(ended(PROTO_EXITED, 0, 0));
	CHECK_STR(buf_cstr(&res.out), "hello");

	/* 4 MB through a command that reads slowly at first: never past the credit */
	chan = initproc_begin(p, (const char *const[]){ "sh", "-c", "sleep 0.2; exec wc -c", NULL }, "/",
			      PROTO_F_STDIN);
	memset(block, 'x', sizeof(block));
	buf_clear(&res.out);
	while (initproc_recv(p, &f) > 0 && f.type != PROTO_EXIT) {
		if (f.type == PROTO_STDIN_CREDIT && proto_get_u32(&f, &v) == 0)
			credit += v;
		if (f.type == PROTO_STDOUT)
			buf_add(&res.out, f.data, f.len);
		while (sent < 4000000 && credit >= sizeof(block) + FRAME_HEAD) {
			frame_add(&p->c.out, PROTO_STDIN, chan, block, sizeof(block));
			sent += sizeof(block);
			credit -= sizeof(block) + FRAME_HEAD;
			if (sent == 4000000)
				frame_add(&p->c.out, PROTO_STDIN, chan, NULL, 0);
		}
	}
	got = strtoul(buf_cstr(&res.out), NULL, 10);
	CHECKF(got == 4000000, "4000000 bytes of input reach the command (%zu)", got);

	chan = initproc_begin(p, (const char *const[]){ "sh", "-c", "exec <&-; sleep 0.2", NULL }, "/",
			      PROTO_F_STDIN);
	finish(p, chan);
	CHECKF(ended(PROTO_EXITED, 0, 0) && res.closed, "the client is told when a command closes its stdin");
}

static void test_output(struct initproc *p)
{
	struct frame f;
	uint32_t chan;
	size_t got = 0;

	SH(p, "head -c 5000000 /dev/zero");
	CHECKF(ended(PROTO_EXITED, 0, 0) && res.out.len == 5000000,
	       "5000000 bytes of output reach the client");

	/* Without credit it stops, and nobody else is held up. */
	chan = initproc_begin(p, (const char *const[]){ "head", "-c", "2000000", "/dev/zero", NULL }, "/", 0);
	while (got + FRAME_HEAD < PROTO_WINDOW && initproc_recv(p, &f) > 0) {
		if (f.chan == chan && f.type == PROTO_STDOUT)
			got += f.len + FRAME_HEAD;
	}
	CHECKF(got <= PROTO_WINDOW && got + 2 * (size_t)FRAME_HEAD >= PROTO_WINDOW,
	       "output stops at the credit (%zu)", got);
	SH(p, "echo meanwhile");
	CHECK_STR(buf_cstr(&res.out), "meanwhile\n");
	proto_add_u32(&p->c.out, PROTO_CREDIT, chan, PROTO_WINDOW);
	finish(p, chan);
	CHECKF(ended(PROTO_EXITED, 0, 0) && res.out.len > 1700000,
	       "a command goes on to its end with new credit");

	/* Output is whole before the end is told, also of a command that ends with full pipes. */
	chan = initproc_begin(p,
			      (const char *const[]){ "sh", "-c",
						     "head -c 60000 /dev/zero; head -c 60000 /dev/zero >&2",
						     NULL },
			      "/", 0);
	finish(p, chan);
	CHECKF(ended(PROTO_EXITED, 0, 0) && res.out.len == 60000 && res.err.len == 60000,
	       "standard output and standard error both arrive whole");
}

static void test_background(struct initproc *p, const char *dir)
{
	char script[512];
	uint64_t began;

	snprintf(
		script, sizeof(script),
		"(trap 'echo pipe > %s/died' PIPE; while [ ! -e %s/go ]; do sleep 0.1; echo tick || exit; done;"
		" echo alive > %s/server) & echo started",
		dir, dir, dir);
	SH(p, script);
	CHECKF(ended(PROTO_EXITED, 0, 0), "the end of a command does not wait for its background processes");
	CHECK_STR(buf_cstr(&res.out), "started\n");
	snprintf(script, sizeof(script),
		 "sleep 1; touch %s/go; while [ ! -e %s/server ] && [ ! -e %s/died ]; do sleep 0.05; done;"
		 " cat %s/server; ls %s/died 2>/dev/null",
		 dir, dir, dir, dir, dir);
	SH(p, script);
	CHECK_STR(buf_cstr(&res.out), "alive\n");
	/* one that prints without end is drained, and holds nobody up */
	snprintf(script, sizeof(script), "yes & echo $! > %s/yes", dir);
	SH(p, script);
	CHECK(ended(PROTO_EXITED, 0, 0));
	began = clock_nsec(CLOCK_MONOTONIC);
	SH(p, "echo answered");
	CHECK_STR(buf_cstr(&res.out), "answered\n");
	CHECK(clock_nsec(CLOCK_MONOTONIC) - began < 30 * NSEC_PER_SEC);
	snprintf(script, sizeof(script), "kill $(cat %s/yes)", dir);
	SH(p, script);
	CHECK(ended(PROTO_EXITED, 0, 0));
}

static void test_signals(struct initproc *p)
{
	struct frame f;
	uint32_t chan = initproc_begin(
		p,
		(const char *const[]){
			"sh", "-c", "trap 'echo got; exit 5' INT; echo ready; while :; do sleep 0.05; done",
			NULL },
		"/", 0);

	while (initproc_recv(p, &f) > 0 && f.type != PROTO_STDOUT)
		;
	proto_add_u32(&p->c.out, PROTO_SIGNAL, chan, SIGINT);
	finish(p, chan);
	CHECK(ended(PROTO_EXITED, 5, 0));
	CHECK_STR(buf_cstr(&res.out), "got\n");
	/* the whole process group, not only the leader */
	chan = initproc_begin(
		p, (const char *const[]){ "sh", "-c", "sleep 100 & sleep 100; echo never", NULL }, "/", 0);
	proto_add_u32(&p->c.out, PROTO_SIGNAL, chan, SIGTERM);
	finish(p, chan);
	CHECK(ended(PROTO_SIGNALED, SIGTERM, 0));
	/* frames for a command that has ended are late, not wrong */
	proto_add_u32(&p->c.out, PROTO_SIGNAL, chan, SIGTERM);
	frame_add(&p->c.out, PROTO_STDIN, chan, "late", 4);
	frame_add(&p->c.out, PROTO_PING, 0, "x", 1);
	CHECK(initproc_recv(p, &f) == 1 && f.type == PROTO_PONG && f.len == 1 && f.data[0] == 'x');
}

static void test_tty(struct initproc *p)
{
	struct frame f;
	uint32_t chan;
	unsigned flags = PROTO_F_TTY | PROTO_F_STDIN;

	run(p,
	    (const char *const[]){ "sh", "-c",
				   "stty size; test -t 0 && test -t 1 && test -t 2 && echo tty; "
				   "echo seen > /dev/tty",
				   NULL },
	    "/", PROTO_F_TTY);
	CHECK_STR(buf_cstr(&res.out), "24 80\r\ntty\r\nseen\r\n");
	chan = initproc_begin(p,
			      (const char *const[]){ "sh", "-c",
						     "trap 'stty size; exit 3' WINCH; echo ready; "
						     "while :; do sleep 0.05; done",
						     NULL },
			      "/", flags);
	while (initproc_recv(p, &f) > 0 && f.type != PROTO_STDOUT)
		;
	proto_add_resize(&p->c.out, chan, 50, 132);
	finish(p, chan);
	CHECKF(ended(PROTO_EXITED, 3, 0) && strstr(buf_cstr(&res.out), "50 132"),
	       "a resize reaches the command");
	/* Ctrl-C typed at it */
	chan = initproc_begin(p, (const char *const[]){ "cat", NULL }, "/", flags);
	frame_add(&p->c.out, PROTO_STDIN, chan, "ready\n", 6);
	/* once by the terminal, and once by the command, which has begun then */
	buf_clear(&res.out);
	while (!strstr(buf_cstr(&res.out), "ready\r\nready") && initproc_recv(p, &f) > 0) {
		if (f.type == PROTO_STDOUT)
			buf_add(&res.out, f.data, f.len);
	}
	frame_add(&p->c.out, PROTO_STDIN, chan, "\003", 1);
	finish(p, chan);
	CHECK(ended(PROTO_SIGNALED, SIGINT, 0));
	chan = initproc_begin(p, (const char *const[]){ "cat", NULL }, "/", flags);
	frame_add(&p->c.out, PROTO_STDIN, chan, "line\n", 5);
	frame_add(&p->c.out, PROTO_STDIN, chan, NULL, 0);
	finish(p, chan);
	CHECKF(ended(PROTO_EXITED, 0, 0), "the end of input ends a command at a terminal");
	/* a signal goes to the job in the foreground, and what ends it ends the shell too */
	chan = initproc_begin(p, (const char *const[]){ "bash", "-i", NULL }, "/", flags);
	frame_add(&p->c.out, PROTO_STDIN, chan, "sleep 100\n", 10);
	while (initproc_recv(p, &f) > 0 &&
	       !(f.chan == chan && f.type == PROTO_STDOUT && memmem(f.data, f.len, "sleep", 5)))
		;
	usleep(200000);
	proto_add_u32(&p->c.out, PROTO_SIGNAL, chan, SIGHUP);
	finish(p, chan);
	CHECKF(res.status == 1 && res.x.kind != PROTO_NOT_STARTED, "a hang-up ends a shell with a job");
}

static int count_children(pid_t pid)
{
	char path[64], text[4096];
	int fd, n = 0;
	ssize_t len;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/children", pid, pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	len = fd < 0 ? -1 : read(fd, text, sizeof(text));
	close(fd);
	for (ssize_t i = 0; i < len; i++)
		n += text[i] == ' ';
	return len < 0 ? -1 : n;
}

/* Its children end, and are reaped, a moment after what they were started for. */
static bool await_no_children(pid_t pid)
{
	for (int i = 0; i < 6000 && count_children(pid) != 0; i++)
		usleep(10000);
	return count_children(pid) == 0;
}

/* It is not dumpable: only root sees its descriptors. */
static int count_fds(const struct initproc *p)
{
	char path[64];
	DIR *d;
	int n = -2; /* . and .. */

	snprintf(path, sizeof(path), "/proc/%d/fd", p->pid);
	d = opendir(path);
	while (d && readdir(d)) // NOLINT(concurrency-mt-unsafe): one thread
		n++;
	if (d)
		closedir(d);
	return n;
}

static void test_many(struct initproc *p)
{
	enum { N = 200 };
	uint32_t first = p->chan + 1;
	int ok = 0, ended_n = 0;
	struct frame f;
	struct proto_exit x;

	for (int i = 0; i < N; i++)
		initproc_begin(p, (const char *const[]){ "sh", "-c", "sleep 0.3; exit 3", NULL }, "/", 0);
	while (ended_n < N && initproc_recv(p, &f) > 0) {
		if (f.type != PROTO_EXIT || f.chan < first)
			continue;
		ended_n++;
		ok += proto_get_exit(&f, &x) == 0 && x.kind == PROTO_EXITED && x.value == 3;
	}
	CHECKF(ok == N, "%d of %d concurrent commands end as they should", ok, N);
	ok = 0;
	for (int i = 0; i < N; i++) {
		RUN(p, "true");
		ok += res.status == 1 && res.x.kind == PROTO_EXITED && res.x.value == 0;
	}
	CHECKF(ok == N, "%d of %d successive commands end as they should", ok, N);
	RUN(p, "true");
	CHECKF(await_no_children(p->pid), "no zombie is left after the commands (%d)",
	       count_children(p->pid));
	if (geteuid() == 0)
		CHECKF(count_fds(p) <= 9, "no descriptor is left after the commands (%d)", count_fds(p));
}

/* Frames that are not legal end it. */
static void test_illegal(void)
{
	static const struct {
		const char *what;
		uint8_t type;
		uint32_t chan;
		const char *data;
		uint32_t len;
	} cases[] = {
		{ "an unknown type", 99, 1, "", 0 },
		{ "a frame that only init sends", PROTO_STDOUT, 1, "x", 1 },
		{ "a start without a body", PROTO_START, 1, "\0\0\0\0\1\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 20 },
		{ "a body on channel 0", PROTO_START_DATA, 0, "x", 1 },
		{ "input for nobody", PROTO_STDIN, 7, "x", 1 },
		{ "a signal of the wrong size", PROTO_SIGNAL, 7, "x", 1 },
		{ "a ping that is too long", PROTO_PING, 0,
		  "0123456789012345678901234567890123456789012345678901234567890123456789", 70 },
		{ "a ping on a channel", PROTO_PING, 1, "x", 1 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct initproc p;
		struct frame f;

		if (!initproc_start(&p, 0))
			continue;
		frame_add(&p.c.out, cases[i].type, cases[i].chan, cases[i].data, cases[i].len);
		while (initproc_recv(&p, &f) > 0)
			;
		CHECKF(initproc_wait(&p) == 1, "init ends when it receives %s", cases[i].what);
		initproc_end(&p);
	}
}

static void test_illegal_for_command(void)
{
	static const struct {
		const char *what;
		uint8_t type;
		unsigned flags;
		const char *data;
		uint32_t len;
	} cases[] = {
		{ "input without leave", PROTO_STDIN, 0, "x", 1 },
		{ "a resize without a terminal", PROTO_RESIZE, 0, "\1\0\1\0", 4 },
		{ "signal 0", PROTO_SIGNAL, 0, "\0\0\0\0", 4 },
		{ "signal 65", PROTO_SIGNAL, 0, "\101\0\0\0", 4 },
		{ "credit past the window", PROTO_CREDIT, 0, "\0\20\0\0", 4 },
		{ "a second body", PROTO_START_DATA, 0, "x", 1 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct initproc p;
		struct frame f;
		uint32_t chan;

		if (!initproc_start(&p, 0))
			continue;
		chan = initproc_begin(&p, (const char *const[]){ "sleep", "5", NULL }, "/", cases[i].flags);
		frame_add(&p.c.out, cases[i].type, chan, cases[i].data, cases[i].len);
		while (initproc_recv(&p, &f) > 0)
			;
		CHECKF(initproc_wait(&p) == 1, "init ends when a running command receives %s", cases[i].what);
		initproc_end(&p);
	}
}

static void test_caps(void)
{
	static char piece[FRAME_MAX_PAYLOAD];
	struct initproc p;
	struct frame f;
	int r = 1;

	if (!initproc_start(&p, 0))
		return;
	for (int i = 0; i < 200 && r > 0; i++) {
		frame_add(&p.c.out, PROTO_START_DATA, 1, piece, sizeof(piece));
		frame_add(&p.c.out, PROTO_PING, 0, "x", 1);
		while ((r = initproc_recv(&p, &f)) > 0 && f.type != PROTO_PONG)
			;
	}
	CHECKF(initproc_wait(&p) == 1, "a start body over the limit ends init");
	initproc_end(&p);
}

static void test_main_and_eof(void)
{
	struct initproc p;
	struct frame f;
	uint32_t chan;

	if (!initproc_start(&p, 0))
		return;
	chan = initproc_begin(&p,
			      (const char *const[]){ "sh", "-c", "head -c 300000 /dev/zero; exit 9", NULL },
			      "/", PROTO_F_MAIN);
	finish(&p, chan);
	CHECK(ended(PROTO_EXITED, 9, 0));
	CHECKF(res.out.len == 300000, "all output of the main command comes before init's end");
	CHECKF(initproc_wait(&p) == 0, "init ends with its main command");
	initproc_end(&p);

	if (!initproc_start(&p, 0))
		return;
	while (initproc_recv(&p, &f) > 0 && f.type != PROTO_HELLO)
		;
	close(p.fd);
	p.fd = -1;
	CHECKF(initproc_wait(&p) == 0, "the end of its stream ends init");
	initproc_end(&p);
}

/* As pid 1: orphans are reaped, and everything goes with it. */
static void test_pid_1(void)
{
	struct initproc p;
	char path[64];
	uint32_t chan;
	struct frame f;

	if (!initproc_start(&p, geteuid() == 0 ? CLONE_NEWPID : CLONE_NEWPID | CLONE_NEWUSER)) {
		tap_skip("init runs as pid 1 of a namespace", "this user may not make a pid namespace");
		return;
	}
	SH(&p, "for i in 1 2 3 4 5 6 7 8; do (sleep 0.05 & ) ; done; sleep 0.3");
	CHECK(ended(PROTO_EXITED, 0, 0));
	CHECKF(await_no_children(p.pid), "orphans are reaped by init (%d)", count_children(p.pid));
	SH(&p, "kill -9 1; kill -TERM 1; kill -PIPE 1; kill -CHLD 1; echo still");
	CHECK_STR(buf_cstr(&res.out), "still\n");
	chan = initproc_begin(&p, (const char *const[]){ "sleep", "100", NULL }, "/", 0);
	while (initproc_recv(&p, &f) > 0 && !(f.type == PROTO_STARTED && f.chan == chan))
		;
	snprintf(path, sizeof(path), "/proc/%d/task/%d/children", p.pid, p.pid);
	CHECK(count_children(p.pid) == 1);
	close(p.fd);
	p.fd = -1;
	CHECKF(initproc_wait(&p) == 0,
	       "the end of its stream ends init as pid 1, and the kernel ends the rest");
	initproc_end(&p);
}

/* Copies by the builtins: out of one directory, into another. */
static void test_copy(struct initproc *p, const char *dir)
{
	char src[256], dst[256], script[2048];
	autobuf struct buf archive = BUF_INIT;
	uint32_t chan;
	size_t off = 0;

	snprintf(src, sizeof(src), "%s/tree", dir);
	snprintf(dst, sizeof(dst), "%s/copy", dir);
	snprintf(
		script, sizeof(script),
		"mkdir -p %s/sub/empty && cd %s && echo one > one && ln -s ../one sub/link && chmod 640 one && "
		"head -c 200000 /dev/urandom > sub/big && touch 'new\nline' && touch -d 2001-02-03 sub/empty one",
		src, src);
	SH(p, script);
	CHECK(ended(PROTO_EXITED, 0, 0));
	run(p, (const char *const[]){ "cp-out", src, NULL }, "/", PROTO_F_BUILTIN);
	CHECK(ended(PROTO_EXITED, 0, 0));
	buf_add(&archive, res.out.data, res.out.len);
	chan = initproc_begin(p, (const char *const[]){ "cp-in", dst, "tree", NULL }, "/",
			      PROTO_F_BUILTIN | PROTO_F_STDIN);
	while (off < archive.len) {
		size_t n = archive.len - off > 30000 ? 30000 : archive.len - off;

		frame_add(&p->c.out, PROTO_STDIN, chan, archive.data + off, (uint32_t)n);
		off += n;
	}
	frame_add(&p->c.out, PROTO_STDIN, chan, NULL, 0);
	finish(p, chan);
	CHECK(ended(PROTO_EXITED, 0, 0));
	snprintf(
		script, sizeof(script),
		"diff -r --no-dereference %s %s && cd %s && find . -printf '%%p %%y %%m %%TY %%l\\n' | sort > ../a && "
		"cd %s && find . -printf '%%p %%y %%m %%TY %%l\\n' | sort > ../b && cmp ../a ../b && echo same",
		src, dst, src, dst);
	SH(p, script);
	CHECK_STR(buf_cstr(&res.out), "same\n");
	run(p, (const char *const[]){ "cp-out", "/no/such", NULL }, "/", PROTO_F_BUILTIN);
	CHECK(ended(PROTO_EXITED, 1, 0));
	CHECK_STR(buf_cstr(&res.err), "cannot find /no/such: No such file or directory\n");
}

int main(void)
{
	char dir[] = "/tmp/coffer-test-init-XXXXXX";
	struct err e = ERR_INIT;
	struct initproc p;

	signal(SIGPIPE, SIG_IGN);
	if (!mkdtemp(dir) || !CHECK(initproc_start(&p, 0)))
		return tap_done();
	test_ends(&p);
	test_not_started(&p);
	test_scripts(&p, dir);
	test_surroundings(&p);
	test_environment(&p);
	test_stdin(&p);
	test_output(&p);
	test_background(&p, dir);
	test_signals(&p);
	test_tty(&p);
	test_copy(&p, dir);
	test_many(&p);
	initproc_end(&p);
	test_illegal();
	test_illegal_for_command();
	test_caps();
	test_main_and_eof();
	test_pid_1();
	buf_release(&res.out);
	buf_release(&res.err);
	CHECKF(fd_rm_rf(AT_FDCWD, dir, &e) == 0, "the directory of the test is removed %s", e.msg);
	return tap_done();
}
