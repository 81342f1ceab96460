/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Times a command in a running sandbox as a connected client sees it, each round side by side with vfork and
 * exec of the same program outside.
 *
 *   exec_client SOCKET ROUNDS PROGRAM
 *
 * Prints "exec-connected MEDIAN P95 FLOOR" in nanoseconds. One connection, one channel a command, from the
 * start request to its exit frame.
 */
#include "base/buf.h"
#include "base/cleanup.h"
#include "codec/frame.h"
#include "sandbox/init/proto.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>

static int64_t now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

static int connect_to(const char *path)
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (strlen(path) >= sizeof(sa.sun_path)) {
		errno = ENAMETOOLONG;
		return fd_close(fd);
	}
	memcpy(sa.sun_path, path, strlen(path));
	return connect(fd, (struct sockaddr *)&sa, sizeof(sa)) < 0 ? fd_close(fd) : fd;
}

static int64_t floor_once(const char *program)
{
	char *argv[] = { (char *)program, NULL };
	int64_t begin = now();
	int status = 0;
	/* NOLINTNEXTLINE(clang-analyzer-security.insecureAPI.vfork): the floor is what is measured */
	pid_t pid = vfork();

	if (pid == 0) {
		execve(program, argv, environ);
		_exit(127);
	}
	if (pid < 0 || waitpid(pid, &status, 0) < 0 || status != 0)
		return -1;
	return now() - begin;
}

/* Reads frames until the channel's exit; true when the command exited with 0. */
static bool wait_exit(int fd, uint32_t chan, struct buf *in)
{
	for (;;) {
		struct frame f;
		struct proto_exit x;
		uint8_t piece[65536];
		long took = frame_parse(in->data, in->len, &f);
		ssize_t n;

		if (took < 0)
			return false;
		if (took > 0) {
			bool ended = f.type == PROTO_EXIT && f.chan == chan;
			bool good = ended && proto_get_exit(&f, &x) == 0 && x.kind == PROTO_EXITED &&
				    x.value == 0;

			if (f.type == PROTO_ERROR)
				fprintf(stderr, "exec_client: %.*s\n", (int)f.len, (const char *)f.data);
			buf_consume(in, (size_t)took);
			if (ended || f.type == PROTO_ERROR)
				return good;
			continue;
		}
		n = read(fd, piece, sizeof(piece));
		if (n <= 0)
			return false;
		buf_add(in, piece, (size_t)n);
	}
}

static int64_t exec_once(int fd, uint32_t chan, const char *program, struct buf *in)
{
	autobuf struct buf out = BUF_INIT;
	struct proto_start s = { .argc = 1 };
	char body[4096];
	size_t n = strlen(program) + 2;
	int64_t begin = now();

	/* an empty working directory is the sandbox's own; no variables of ours */
	body[0] = '\0';
	memcpy(body + 1, program, n - 1);
	frame_add(&out, PROTO_START_DATA, chan, body, (uint32_t)n);
	proto_add_start(&out, chan, &s);
	if (write(fd, out.data, out.len) != (ssize_t)out.len || !wait_exit(fd, chan, in))
		return -1;
	return now() - begin;
}

static int by_value(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
	long rounds = argc == 4 ? strtol(argv[2], NULL, 10) : 0, warm = rounds / 10;
	autofree int64_t *inside = NULL, *outside = NULL;
	autobuf struct buf in = BUF_INIT;
	autoclose int fd = -1;

	if (rounds < 10 || strlen(argv[3]) > 4000) {
		fprintf(stderr, "usage: exec_client SOCKET ROUNDS PROGRAM\n");
		return 2;
	}
	fd = connect_to(argv[1]);
	inside = calloc((size_t)rounds, sizeof(*inside));
	outside = calloc((size_t)rounds, sizeof(*outside));
	if (fd < 0 || !inside || !outside) {
		fprintf(stderr, "exec_client: %s: %s\n", argv[1], strerror(errno));
		return 1;
	}
	for (long r = -warm; r < rounds; r++) {
		int64_t a = floor_once(argv[3]);
		int64_t b = exec_once(fd, (uint32_t)(r + warm + 1), argv[3], &in);

		if (a < 0 || b < 0) {
			fprintf(stderr, "exec_client: round %ld failed\n", r);
			return 1;
		}
		if (r >= 0) {
			outside[r] = a;
			inside[r] = b;
		}
	}
	qsort(inside, (size_t)rounds, sizeof(*inside), by_value);
	qsort(outside, (size_t)rounds, sizeof(*outside), by_value);
	printf("exec-connected %lld %lld %lld\n", (long long)inside[rounds / 2],
	       (long long)inside[rounds * 95 / 100], (long long)outside[rounds / 2]);
	return 0;
}
