/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Times commands side by side: in each round every contestant is started once (vfork, exec) and waited for,
 * so that whatever else the machine does falls on all of them alike.
 *
 *   spawn ROUNDS == NAME [VARIABLE=VALUE…] CMD… == NAME [VARIABLE=VALUE…] CMD… …
 *
 * CMD is an absolute path. A variable of one contestant is set for the later ones too, so either all have it or none.
 * Prints one line a contestant: name, median, 95th percentile and fastest in nanoseconds, how often it
 * failed. The first tenth of the rounds warms up and is not counted.
 */
#include "base/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

#define MAX_CONTESTANTS 16

struct contestant {
	const char *name;
	char **variables; /* up to argv */
	char **argv;
	int64_t *ns;
	long failed;
};

static int64_t now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

/* The command's wall time, or -1 when it did not exit with 0. */
static int64_t run_once(char **argv)
{
	int64_t begin = now();
	int status;
	/* NOLINTNEXTLINE(clang-analyzer-security.insecureAPI.vfork): the floor is what is measured */
	pid_t pid = vfork();

	if (pid == 0) {
		execve(argv[0], argv, environ);
		_exit(127);
	}
	if (pid < 0)
		return -1;
	while (waitpid(pid, &status, 0) < 0) {
		if (errno != EINTR)
			return -1;
	}
	return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? now() - begin : -1;
}

static int by_value(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return (x > y) - (x < y);
}

/* Splits the arguments at "=="; returns how many contestants there are, or -1. */
static int parse(char **argv, struct contestant *c)
{
	int n = 0;

	for (; *argv; argv++) {
		if (strcmp(*argv, "==") != 0)
			continue;
		*argv = NULL;
		if (n == MAX_CONTESTANTS || !argv[1] || !argv[2])
			return -1;
		c[n].name = argv[1];
		c[n].variables = c[n].argv = argv + 2;
		n++;
	}
	for (int i = 0; i < n; i++) {
		while (*c[i].argv && **c[i].argv != '/' && strchr(*c[i].argv, '='))
			c[i].argv++;
		if (!*c[i].argv)
			return -1;
	}
	return n;
}

static void quiet(void)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	dup2(null, STDIN_FILENO);
	dup2(null, STDERR_FILENO);
}

int main(int argc, char **argv)
{
	static struct contestant c[MAX_CONTESTANTS];
	long rounds = argc > 2 ? strtol(argv[1], NULL, 10) : 0;
	long warm = rounds / 10;
	autoclose int out = dup(STDOUT_FILENO);
	int n = argc > 2 ? parse(argv + 2, c) : -1;

	if (n < 1 || rounds < 10) {
		fprintf(stderr, "usage: spawn ROUNDS == NAME [VARIABLE=VALUE…] CMD… == NAME …\n");
		return 2;
	}
	quiet();
	dup2(STDERR_FILENO, STDOUT_FILENO);
	for (int i = 0; i < n; i++)
		c[i].ns = calloc((size_t)rounds, sizeof(int64_t));
	for (long r = -warm; r < rounds; r++) {
		for (int i = 0; i < n; i++) {
			int64_t t;

			for (char **v = c[i].variables; v < c[i].argv; v++)
				putenv(*v);
			t = run_once(c[i].argv);
			if (t < 0)
				c[i].failed++;
			if (r >= 0)
				c[i].ns[r] = t < 0 ? 0 : t;
		}
	}
	for (int i = 0; i < n; i++) {
		qsort(c[i].ns, (size_t)rounds, sizeof(int64_t), by_value);
		dprintf(out, "%s %lld %lld %lld %ld\n", c[i].name, (long long)c[i].ns[rounds / 2],
			(long long)c[i].ns[rounds * 95 / 100], (long long)c[i].ns[0], c[i].failed);
		free(c[i].ns);
	}
	return 0;
}
