/* SPDX-License-Identifier: Apache-2.0 */
/* A log in a directory of its own, for the tests of room audit. */
#ifndef TESTS_TEST_AUDIT_LOG_H
#define TESTS_TEST_AUDIT_LOG_H

#include "audit/audit.h"
#include "audit/verify.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/str.h"
#include "tap.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

struct test_log {
	char path[64];
	int state_fd; /* the directory */
	int dir_fd;   /* its audit/, -1 until log_fill() */
};

__attribute__((unused)) static struct test_log log_new(void)
{
	struct test_log t = { .path = "/tmp/coffer-audit-XXXXXX", .dir_fd = -1 };

	if (!mkdtemp(t.path)) {
		printf("Bail out! mkdtemp\n");
		exit(1);
	}
	t.state_fd = open(t.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return t;
}

__attribute__((unused)) static void log_free(struct test_log *t)
{
	if (fd_rm_rf(AT_FDCWD, t->path, NULL) < 0)
		printf("# cannot remove %s\n", t->path);
	fd_close(t->dir_fd);
	fd_close(t->state_fd);
}

/* Appends n events "test.event"; the settings may be NULL. The first error ends it. */
__attribute__((unused)) static int log_fill(struct test_log *t, int n, const struct audit_settings *set,
					    struct err *e)
{
	CLEANUP(audit_freep) struct audit *a = NULL;
	int r = audit_open(&a, t->state_fd, e);

	if (r == 0 && set)
		audit_configure(a, set);
	for (int i = 0; r == 0 && i < n; i++) {
		autobuf struct buf fields = BUF_INIT;

		buf_addf(&fields, "\"n\":%d,\"text\":\"something that a sandbox did\"", i);
		r = audit_append(a, "test.event", "a1b2c3d4e5f6", &fields, e);
	}
	if (t->dir_fd < 0)
		t->dir_fd = openat(t->state_fd, "audit", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return r;
}

__attribute__((unused)) static struct test_log log_with(int n)
{
	struct test_log t = log_new();
	struct err e = ERR_INIT;

	if (log_fill(&t, n, NULL, &e) < 0) {
		printf("Bail out! %s\n", e.msg);
		exit(1);
	}
	return t;
}

__attribute__((unused)) static bool log_is_ok(struct test_log *t)
{
	CLEANUP(audit_verdict_release) struct audit_verdict v = AUDIT_VERDICT_INIT;
	struct err e = ERR_INIT;

	if (audit_verify(t->state_fd, &v, &e) < 0) {
		printf("# verify failed: %s\n", e.msg);
		return false;
	}
	for (size_t i = 0; i < v.n_findings; i++) {
		if (!v.findings[i].accepted_by)
			printf("# %s: %s\n", audit_break_name(v.findings[i].kind), v.findings[i].text);
	}
	return v.ok;
}

/* A file of the log as bytes; put it back with log_write(). */
__attribute__((unused)) static struct buf log_read(struct test_log *t, const char *name)
{
	struct buf b = BUF_INIT;

	if (fd_read_file(t->dir_fd, name, 64 << 20, &b) < 0)
		printf("# cannot read %s\n", name);
	return b;
}

__attribute__((unused)) static void log_write(struct test_log *t, const char *name, const void *data,
					      size_t len)
{
	autoclose int fd = openat(t->dir_fd, name, O_WRONLY | O_TRUNC | O_CREAT | O_CLOEXEC, 0600);

	if (fd < 0 || fd_write_all(fd, data, len) < 0)
		printf("# cannot write %s\n", name);
}

/* Start of line i (from 0), and its length with the newline. */
__attribute__((unused)) static char *line_at(const struct buf *b, int i, size_t *len)
{
	char *p = b->data;

	while (i-- > 0)
		p = strchr(p, '\n') + 1;
	*len = (size_t)(strchr(p, '\n') - p) + 1;
	return p;
}

#endif
