/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tool calls from the pool, as a client sees them that is connected to cofferd already: asks for a sandbox, hands it the
 * command with its own stdio, waits for the end; the messages of `coffer call` without a process of its own.
 *
 *   call_client latency STATE COFFER ROUNDS OPTION… -- CMD…    interleaved with vfork+exec of CMD; a call is made when a
 *                                                              sandbox stands ready, and the wait for that is not counted
 *   call_client rate SECONDS N CMD…                            N at a time start CMD again and again: starts per second
 *
 * latency prints a line each for vfork+exec, the call, and of that the taking: name, median, 95th and 10th
 * percentile, in nanoseconds; on a machine that others use too the last is nearest to the work itself. rate prints how many a second, and how many failed.
 */
#include "base/cleanup.h"
#include "base/fd.h"
#include "cofferdc/cofferd_int.h"
#include "daemon/pool/standby.h"
#include "ipc/fdpass.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>

struct calls {
	int daemon;
	struct buf take, stat; /* the two questions */
	struct spec spec;
	int stdio[3];
};

static int64_t now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

static void rest(long usec)
{
	struct timespec ts = { .tv_nsec = usec * 1000 };

	nanosleep(&ts, NULL);
}

_Noreturn static void die(const char *what)
{
	fprintf(stderr, "call_client: %s: %s\n", what, strerror(errno));
	exit(1);
}

static int64_t spawn(char **argv)
{
	int64_t begin = now();
	int status;
	/* NOLINTNEXTLINE(clang-analyzer-security.insecureAPI.vfork): the floor is what is measured */
	pid_t pid = vfork();

	if (pid == 0) {
		execve(argv[0], argv, environ);
		_exit(127);
	}
	while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return pid > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0 ? now() - begin : -1;
}

static int question(struct calls *c, const struct buf *q, struct cofferd_reply *ret)
{
	int fd = -1;
	size_t len;

	if (fdpass_send(c->daemon, q->data, q->len, NULL, 0) < 0 ||
	    fdpass_recv_some(c->daemon, ret, sizeof(*ret), &len, &fd, 1) < 0 || len != sizeof(*ret))
		die("cofferd");
	return fd;
}

/* One is ready, and nobody works at the next: the machine is as quiet as for vfork+exec. */
static void await_ready(struct calls *c)
{
	struct cofferd_reply r = { 0 };
	int quiet = 0;

	for (int i = 0; i < 20000; i++) {
		fd_close(question(c, &c->stat, &r));
		if (r.ready && !r.starting)
			quiet++;
		else
			quiet = 0;
		if (quiet == 40)
			return;
		rest(1000);
	}
	die("no sandbox became ready");
}

static int64_t call(struct calls *c, int64_t *ret_taken)
{
	struct cofferd_reply reply;
	struct standby_end end;
	struct err e = ERR_INIT;
	int64_t begin = now();
	autoclose int sock = question(c, &c->take, &reply);
	int report = -1;

	*ret_taken = now() - begin;
	if (sock < 0)
		return -1;
	if (standby_use(sock, &c->spec, c->stdio, 0, &end, &report, &e) < 0 || end.end.exit_code != 0)
		return -1;
	return now() - begin;
}

static int by_value(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return (x > y) - (x < y);
}

static void print(const char *name, int64_t *ns, long n)
{
	qsort(ns, (size_t)n, sizeof(*ns), by_value);
	printf("%s %lld %lld %lld\n", name, (long long)ns[n / 2], (long long)ns[n * 95 / 100],
	       (long long)ns[n / 10]);
}

static void set_up(struct calls *c, char **argv, char ***ret_cmd)
{
	struct state st = { .path = argv[0], .fd = open(argv[0], O_PATH | O_DIRECTORY | O_CLOEXEC) };
	autoclose int coffer = open(argv[1], O_PATH | O_CLOEXEC);
	struct cofferd_ask head = { .magic = COFFERD_MAGIC, .want = COFFERD_TAKE };
	autostrv struct strv template = STRV_INIT;
	struct sockaddr_un a;
	char **v = argv + 3;

	for (; *v && strcmp(*v, "--") != 0; v++) {
		if (strv_add(&template, *v) < 0)
			die("memory");
	}
	if (!*v || !v[1])
		die("usage");
	*ret_cmd = v + 1;
	for (v = *ret_cmd; *v; v++) {
		if (strv_add(&c->spec.argv, *v) < 0)
			die("memory");
	}
	c->spec.cwd = strdup("/workspace");
	c->spec.limits.l[LIMIT_TIMEOUT].value = c->spec.limits.l[LIMIT_OUTPUT].value = LIMIT_NONE;
	if (strv_add(&c->spec.env, "PATH=/usr/bin:/bin") < 0 || cofferd_build(coffer, &head.build) < 0)
		die(argv[1]);
	buf_add(&c->take, &head, sizeof(head));
	if (cofferd_pack(&template, &c->take) < 0)
		die("memory");
	head.want = COFFERD_STAT;
	buf_add(&c->stat, &head, sizeof(head));
	c->daemon = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	cofferd_address(&st, &a);
	if (connect(c->daemon, (struct sockaddr *)&a, sizeof(a)) < 0)
		die("cofferd.sock");
	c->stdio[0] = c->stdio[1] = c->stdio[2] = open("/dev/null", O_RDWR | O_CLOEXEC);
}

static int latency(char **argv)
{
	struct calls c = { .spec = SPEC_INIT };
	long rounds = strtol(argv[2], NULL, 10), n = 0;
	int64_t *floor = calloc((size_t)rounds, sizeof(*floor)),
		*whole = calloc((size_t)rounds, sizeof(*whole)),
		*taken = calloc((size_t)rounds, sizeof(*taken));
	char **cmd;

	set_up(&c, argv, &cmd);
	for (long i = -rounds / 10; i < rounds; i++) {
		int64_t took, t, f;

		await_ready(&c);
		f = spawn(cmd);
		t = call(&c, &took);
		if (t < 0 || f < 0)
			die("a call failed");
		if (i < 0)
			continue;
		floor[n] = f;
		taken[n] = took;
		whole[n++] = t;
	}
	print("floor", floor, n);
	print("call-connected", whole, n);
	print("of-that-taking", taken, n);
	return 0;
}

/* N workers, each one call after the other. */
static int rate(char **argv)
{
	double seconds = strtod(argv[0], NULL);
	long workers = strtol(argv[1], NULL, 10);
	long *count = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int64_t begin = now(), end = begin + (int64_t)(seconds * 1e9);
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	if (count == MAP_FAILED || null < 0)
		die("memory");
	for (long i = 0; i < workers; i++) {
		if (fork() != 0)
			continue;
		dup2(null, 0);
		dup2(null, 1);
		while (now() < end)
			__atomic_add_fetch(&count[spawn(argv + 2) < 0], 1, __ATOMIC_RELAXED);
		_exit(0);
	}
	while (wait(NULL) > 0)
		;
	printf("%.1f %ld\n", (double)count[0] * 1e9 / (double)(now() - begin), count[1]);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc > 6 && strcmp(argv[1], "latency") == 0 && strtol(argv[4], NULL, 10) >= 10)
		return latency(argv + 2);
	if (argc > 4 && strcmp(argv[1], "rate") == 0)
		return rate(argv + 2);
	fprintf(stderr, "usage: call_client latency STATE COFFER ROUNDS OPTION… -- CMD…\n"
			"       call_client rate SECONDS N CMD…\n");
	return 2;
}
