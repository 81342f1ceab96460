/* SPDX-License-Identifier: Apache-2.0 */
/* Clients on a run's control socket: what they may ask for, and what happens to those that ask for more. */
#include "run/supervise/run_link.h"
#include "sandbox/state/compat.h"
#include "sandbox/state/state.h"
#include "supervise_job.h"

#include <sys/un.h>

static int listen_in(int dir_fd)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	unlinkat(dir_fd, "ctl.sock", 0);
	snprintf(a.sun_path, sizeof(a.sun_path), "/proc/self/fd/%d/ctl.sock", dir_fd);
	return bind(fd, (struct sockaddr *)&a, sizeof(a)) < 0 || listen(fd, 16) < 0 ? -1 : fd;
}

/* Which protocol the launcher is said to speak. */
static void write_protocol(int dir_fd, unsigned protocol)
{
	const struct run_meta m = { .id = "aa0000000001", .protocol = protocol };

	CHECK(state_meta_write(dir_fd, &m, NULL) == 0);
}

struct sandbox {
	struct job j;
	int dir_fd;
	struct run_link l;
};

static void sandbox_start_job(struct sandbox *s, struct job j)
{
	struct err e = ERR_INIT;

	s->j = j;
	s->dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	write_protocol(s->dir_fd, COMPAT_PROTOCOL);
	s->j.io.listen_fd = listen_in(s->dir_fd);
	job_start(&s->j);
	close(s->j.io.listen_fd);
	CHECKF(run_link_open(&s->l, s->dir_fd, &e) == 0, "a client connects to the sandbox %s", e.msg);
}

static void sandbox_start(struct sandbox *s, bool refuse)
{
	struct job j = JOB("sleep", "1000");

	j.refuse_events = refuse;
	sandbox_start_job(s, j);
}

static void run_linked(struct run_link *l, const char *const *argv, unsigned flags, struct proto_exit *x,
		       struct buf *out, struct err *e)
{
	char *const env[] = { (char *)"EXTRA=2", (char *)"BASE=over", NULL };
	const struct run_link_cmd c = { .argv = (char *const *)argv, .env = env, .cwd = "", .flags = flags };
	int p[2] = { -1, -1 }, r;
	struct run_link_io io = { .in = -1, .out = -1, .err = -1, .tty = -1 };

	*x = (struct proto_exit){ 99, 99, 99 };
	*e = ERR_INIT;
	if (out && pipe2(p, O_CLOEXEC) == 0)
		io.out = p[1];
	r = run_link_exec(l, &c, &io, x, e);
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
	CHECK(run_link_ping(&s.l, 2000, &e) == 0);
	buf_clear(&out);
	CHECK(run_link_stat(&s.l, -1, &out, &e) == 0 && strstr(buf_cstr(&out), "\"commands\":1"));
	CHECKF(file_has(s.j.events, "exec.start {\"exec\":2,\"command\":[\"sh\",\"-c\",\"echo") &&
		       file_has(s.j.events, "exec.end {\"exec\":2,\"exit\":5"),
	       "the begin and the end of a command are logged");
	CHECK(run_link_stop(&s.l, 5000, &e) == 0);
	end = job_wait(&s.j, NULL);
	CHECK(is_end(&end, CAUSE_STOPPED, 143));
	CHECK(file_has(s.j.events, "stop.request"));
	run_link_close(&s.l);
	CHECKF(run_link_open(&s.l, s.dir_fd, &e) == -ECONNREFUSED,
	       "nothing listens after the sandbox has ended");
	close(s.dir_fd);
}

/* Nobody waits for a detached command: its client leaves, and it goes on until it ends or the sandbox does. */
static void test_detach(void)
{
	const char *const argv[] = { "sh", "-c", "sleep 0.3; yes | head -c 1000000; exit 7", NULL };
	const char *const none[] = { "no-such-command", NULL }, *const lasts[] = { "sleep", "1000", NULL };
	struct run_link_cmd c = { .argv = (char *const *)argv, .cwd = "" };
	struct proto_exit x = { 99, 99, 99 };
	struct err e = ERR_INIT;
	struct sandbox s;
	bool started = false;

	sandbox_start(&s, false);
	CHECKF(run_link_detach(&s.l, &c, &started, &x, &e) == 0 && started,
	       "a detached command is started %s", e.msg);
	c.argv = (char *const *)none;
	CHECKF(run_link_detach(&s.l, &c, &started, &x, &e) == 0 && !started && proto_exit_code(&x) == 127,
	       "a detached command that cannot be started is reported with its code");
	c.argv = (char *const *)lasts;
	CHECK(run_link_detach(&s.l, &c, &started, &x, &e) == 0 && started);
	c.flags = PROTO_F_STDIN;
	CHECKF(run_link_detach(&s.l, &c, &started, &x, &e) < 0 && strstr(e.msg, "well formed"),
	       "a detached command with input is refused: %s", e.msg);
	run_link_close(&s.l);
	for (int i = 0; i < 600 && !file_has(s.j.events, "exec.end {\"exec\":2,"); i++)
		usleep(50000);
	CHECKF(file_has(s.j.events, "exec.end {\"exec\":2,\"exit\":7,") &&
		       file_has(s.j.events, "\"output\":1000000}"),
	       "a detached command's output is dropped, and its end is logged with its exit code");
	CHECKF(file_has(s.j.events, "\"detached\":true") && !file_has(s.j.events, "exec.end {\"exec\":4,"),
	       "a detached command goes on without its client");
	CHECK(run_link_open(&s.l, s.dir_fd, &e) == 0 && run_link_stop(&s.l, 5000, &e) == 0);
	job_wait(&s.j, NULL);
	CHECKF(file_has(s.j.events, "exec.end {\"exec\":4,\"exit\":137"),
	       "a detached command ends with the sandbox");
	run_link_close(&s.l);
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
	CHECKF(x.kind == 99 && strstr(e.msg, "audit log"), "a command that cannot be logged is refused: %s",
	       e.msg);
	usleep(200000);
	CHECKF(access(path, F_OK) < 0, "a command that cannot be logged is not started");
	kill(s.j.pid, SIGTERM);
	job_wait(&s.j, &rc);
	run_link_close(&s.l);
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
	const struct run_link_cmd cmd = { .argv = (char *const *)cat, .cwd = "" };
	const struct run_link_xfer xfer = {
		.produce = produce, .consume = consume, .ctx = &c, .messages = &msg
	};

	sandbox_start(&s, false);
	CHECK(run_link_transfer(&s.l, &cmd, &xfer, &x, &e) == 0 && x.kind == PROTO_EXITED && x.value == 0);
	CHECKF(c.got == 5000000, "5000000 bytes pass through a command and back (%zu)", c.got);
	CHECK(run_link_stop(&s.l, 0, &e) == 0);
	{
		struct run_end end = job_wait(&s.j, NULL);

		CHECKF(is_end(&end, CAUSE_STOPPED, 143), "a sandbox that is stopped without grace is killed");
	}
	run_link_close(&s.l);
	close(s.dir_fd);
}

/* A client that goes away hangs up on its command; others go on. */
static void test_hang_up(void)
{
	struct sandbox s;
	struct run_link other;
	struct err e = ERR_INIT;
	struct proto_exit x;
	struct proto_start st = { .argc = 3 };
	autobuf struct buf out = BUF_INIT;
	static const char body[] =
		"\0sh\0-c\0trap 'echo hup > $0.hup; exit' HUP; echo up > $0.up; while :; do sleep 0.05; done";
	char prefix[128], path[160];

	snprintf(prefix, sizeof(prefix), "%s/hang", dir);
	sandbox_start(&s, false);
	CHECK(run_link_open(&other, s.dir_fd, &e) == 0);
	buf_add(&out, body, sizeof(body));
	buf_add(&out, prefix, strlen(prefix) + 1);
	st.argc = 4;
	frame_add(&other.conn.out, PROTO_START_DATA, 1, out.data, (uint32_t)out.len);
	proto_add_start(&other.conn.out, 1, &st);
	CHECK(conn_flush(&other.conn) == 0);
	snprintf(path, sizeof(path), "%s.up", prefix);
	for (int i = 0; i < 3000 && access(path, F_OK) < 0; i++)
		usleep(20000);
	CHECK(access(path, F_OK) == 0);
	run_link_close(&other);
	snprintf(path, sizeof(path), "%s.hup", prefix);
	for (int i = 0; i < 3000 && access(path, F_OK) < 0; i++)
		usleep(20000);
	CHECKF(access(path, F_OK) == 0, "the command of a client that went away gets SIGHUP");
	LINKED(&s.l, &x, NULL, &e, "true");
	CHECKF(x.kind == PROTO_EXITED && x.value == 0,
	       "a new client's command runs after another client has gone");
	for (int i = 0; i < 3000 && !file_has(s.j.events, "\"hung_up\":true"); i++)
		usleep(20000);
	CHECK(file_has(s.j.events, "\"hung_up\":true"));
	CHECK(run_link_stop(&s.l, 1000, &e) == 0);
	job_wait(&s.j, NULL);
	run_link_close(&s.l);
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
		autolink struct run_link l = RUN_LINK_INIT;
		autobuf struct buf out = BUF_INIT;

		CHECK(run_link_open(&l, s.dir_fd, &e) == 0);
		frame_add(&l.conn.out, cases[i].type, cases[i].chan, cases[i].data, cases[i].len);
		CHECKF(run_link_stat(&l, -1, &out, &e) < 0, "%s ends the connection", cases[i].what);
	}
	{
		/* a client may not claim to be the main command */
		autolink struct run_link l = RUN_LINK_INIT;
		autobuf struct buf out = BUF_INIT;
		const struct proto_start st = { .flags = PROTO_F_MAIN, .argc = 1 };

		CHECK(run_link_open(&l, s.dir_fd, &e) == 0);
		frame_add(&l.conn.out, PROTO_START_DATA, 1, "\0true", 6);
		proto_add_start(&l.conn.out, 1, &st);
		CHECK(run_link_stat(&l, -1, &out, &e) < 0);
	}
	LINKED(&s.l, &x, NULL, &e, "true");
	CHECKF(x.kind == PROTO_EXITED && x.value == 0, "the sandbox goes on after bad clients");
	CHECK(run_link_stop(&s.l, 1000, &e) == 0);
	job_wait(&s.j, NULL);
	run_link_close(&s.l);
	close(s.dir_fd);
}

static void test_latency(void)
{
	enum { N = 100 };
	static const char *const argv[] = { "/bin/true", NULL };
	static char *const none[] = { NULL };
	const struct run_link_cmd cmd = { .argv = (char *const *)argv, .cwd = "" };
	const struct run_link_xfer xfer = { 0 };
	struct sandbox s;
	struct proto_exit x;
	struct err e = ERR_INIT;
	volatile uint64_t mine = 0, floor = 0, t;

	sandbox_start(&s, false);
	for (int i = 0; i < N; i++) {
		pid_t pid;

		t = clock_nsec(CLOCK_MONOTONIC);
		if (run_link_transfer(&s.l, &cmd, &xfer, &x, &e) < 0)
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
	CHECKF(x.kind == PROTO_EXITED && x.value == 0, "%d commands one after another succeed", N);
	CHECK(run_link_stop(&s.l, 1000, &e) == 0);
	job_wait(&s.j, NULL);
	run_link_close(&s.l);
	close(s.dir_fd);
}

/* A launcher of another release: no request but the one to stop reaches it. */
static void test_other_release(void)
{
	const char *const argv[] = { "true", NULL };
	const struct run_link_cmd c = { .argv = (char *const *)argv, .cwd = "" };
	const struct run_link_xfer none = { 0 };
	autobuf struct buf out = BUF_INIT;
	struct err e = ERR_INIT;
	struct proto_exit x;
	struct sandbox s;
	struct run_link newer;
	int layers = -1;
	unsigned how;

	sandbox_start(&s, false);
	write_protocol(s.dir_fd, COMPAT_PROTOCOL + 1);
	CHECK(run_link_open(&newer, s.dir_fd, &e) == 0);
	CHECKF(run_link_transfer(&newer, &c, &none, &x, &e) == -EPROTONOSUPPORT &&
		       strstr(e.msg, "newer coffer"),
	       "no command is sent to a launcher of a newer release: %s", e.msg);
	CHECK(run_link_stat(&newer, 1000, &out, &e) == -EPROTONOSUPPORT &&
	      run_link_ping(&newer, 1000, &e) == -EPROTONOSUPPORT);
	CHECK(run_link_freeze(&newer, 1000, &how, &layers, &e) == -EPROTONOSUPPORT &&
	      run_link_rollback(&newer, &e) == -EPROTONOSUPPORT && !conn_pending(&newer.conn));
	LINKED(&s.l, &x, NULL, &e, "true");
	CHECKF(x.kind == PROTO_EXITED && x.value == 0, "a command runs by a link of the same release");
	run_link_close(&s.l);
	CHECKF(run_link_stop(&newer, 1000, &e) == 0, "a launcher of a newer release is asked to stop %s",
	       e.msg);
	job_wait(&s.j, NULL);
	run_link_close(&newer);
	close(s.dir_fd);
}

/* The watched disk limit, while a client takes a checkpoint of a sandbox that cannot be frozen. */
static void test_disk_limit_unfrozen(void)
{
	char script[256];
	struct err e = ERR_INIT;
	struct run_end end;
	struct sandbox s;
	struct job j;
	unsigned how = PROTO_FROZEN_COUNT;
	int layers = -1;

	snprintf(
		script, sizeof(script),
		"i=0; while [ $i -lt 300 ]; do head -c 20000 /dev/zero > %s/f$i; i=$((i+1)); sleep 0.1; done",
		dir);
	j = SH(script);
	j.io.usage_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	j.spec.limits.l[LIMIT_DISK].value = 1000;
	fake_usage = 0;
	fake_usage_thereby = 2000;
	fake_freeze_result = -ETIMEDOUT;
	sandbox_start_job(&s, j);
	CHECKF(run_link_freeze(&s.l, PROTO_FREEZE_MAX, &how, &layers, &e) == 0 && how == PROTO_FROZEN_NOT,
	       "control: a sandbox that cannot be frozen runs on for its checkpoint %s", e.msg);
	end = job_wait(&s.j, NULL);
	CHECKF(is_end(&end, CAUSE_DISK, 137),
	       "the disk limit holds while a sandbox that runs on is checkpointed");
	fake_freeze_result = 0;
	fd_close(layers);
	close(j.io.usage_fd);
	run_link_close(&s.l);
	close(s.dir_fd);
}

int main(void)
{
	if (!supervise_job_begin())
		return 1;
	test_exec();
	test_detach();
	test_exec_refused();
	test_transfer();
	test_hang_up();
	test_bad_clients();
	test_other_release();
	test_disk_limit_unfrozen();
	test_latency();
	return supervise_job_done();
}
