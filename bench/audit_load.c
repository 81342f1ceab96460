/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events into the audit log, by several writers at once:
 *
 *	audit_load STATE WRITERS EVENTS [BYTES]
 *
 * Prints seconds. Each event is as large as one of a decided request, or has a path of so many BYTES.
 */
#include "audit/audit.h"
#include "base/clock.h"
#include "base/json.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static void add_path(struct json *j, size_t bytes)
{
	autobuf struct buf path = BUF_INIT;

	if (!bytes)
		buf_adds(&path, "/v1/repos/owner/name/pulls");
	while (path.len < bytes)
		buf_addc(&path, '/');
	json_str(j, "path", buf_cstr(&path));
}

static int write_events(int state, unsigned long n, size_t bytes)
{
	CLEANUP(audit_freep) struct audit *a = NULL;
	autobuf struct buf b = BUF_INIT;
	struct json j = JSON_INIT(&b);
	struct err e = ERR_INIT;
	int r = audit_open(&a, state, &e);

	json_str(&j, "host", "api.example.com");
	json_u64(&j, "port", 443);
	json_str(&j, "method", "GET");
	add_path(&j, bytes);
	json_str(&j, "rule", "allow api.example.com:443");
	json_u64(&j, "status", 200);
	for (unsigned long i = 0; r == 0 && i < n; i++)
		r = audit_append(a, "net.request", "0123456789ab", &b, &e);
	if (r < 0)
		fprintf(stderr, "audit_load: %s\n", e.msg);
	return r < 0;
}

int main(int argc, char **argv)
{
	bool good = argc == 4 || argc == 5;
	int state = good ? open(argv[1], O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1, status, failed = 0;
	unsigned long writers = good ? strtoul(argv[2], NULL, 10) : 0,
		      n = good ? strtoul(argv[3], NULL, 10) : 0,
		      bytes = argc == 5 ? strtoul(argv[4], NULL, 10) : 0;
	uint64_t start = clock_nsec(CLOCK_MONOTONIC);

	if (state < 0 || !writers || !n) {
		fprintf(stderr, "audit_load STATE WRITERS EVENTS [BYTES]\n");
		return 2;
	}
	for (unsigned long i = 0; i < writers; i++) {
		pid_t pid = fork();

		if (pid == 0)
			_exit(write_events(state, n / writers, bytes));
		failed |= pid < 0;
	}
	while (wait(&status) > 0)
		failed |= status;
	printf("%.6f\n", (double)(clock_nsec(CLOCK_MONOTONIC) - start) / NSEC_PER_SEC);
	return failed != 0;
}
