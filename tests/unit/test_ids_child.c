/* SPDX-License-Identifier: Apache-2.0 */
/* A child that works in other namespaces: its bytes, its descriptor and its error come back, and nothing else stays. */
#include "base/fd.h"
#include "base/str.h"
#include "sandbox/spec/ids_child.h"
#include "tap.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

struct job {
	int fd;
	int result;
	bool dies;
	size_t len;
	pid_t parent;
};

static int enter_nothing(void *ctx, struct err *e)
{
	(void)ctx;
	(void)e;
	return 0;
}

static int enter_fails(void *ctx, struct err *e)
{
	(void)ctx;
	return err_set(e, -ENOSPC, "there is no namespace left");
}

static int work(void *ctx, struct buf *out, struct err *e)
{
	struct job *j = ctx;

	if (j->dies)
		_exit(3);
	j->fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	for (size_t i = 0; i < j->len; i++)
		buf_addc(out, (char)('a' + i % 26));
	buf_addc(out, getpid() == j->parent ? '!' : '.');
	return j->result < 0 ? err_set(e, j->result, "the work failed") : 0;
}

static int run(struct job *j, int (*enter)(void *ctx, struct err *e), const struct ids *ids, struct buf *out,
	       struct err *e)
{
	const struct ids_child c = { .what = "is tested",
				     .ids = ids,
				     .enter = enter,
				     .work = work,
				     .ctx = j,
				     .out = out,
				     .fd = &j->fd };
	int r;

	*e = ERR_INIT;
	j->fd = -1;
	j->parent = getpid();
	r = ids_child_run(&c, e);
	CHECKF(waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD, "no child is left over");
	return r;
}

int main(void)
{
	autobuf struct buf out = BUF_INIT;
	struct job j = { .len = 300000 };
	struct ids ids = IDS_INIT;
	struct err e;

	CHECKF(run(&j, enter_nothing, NULL, &out, &e) == 0, "the work of the child succeeds %s", e.msg);
	CHECKF(out.len == j.len + 1 && str_starts(out.data, "abc") && out.data[j.len] == '.',
	       "all bytes of the child come back");
	CHECKF(j.fd >= 0 && (fcntl(j.fd, F_GETFD) & FD_CLOEXEC), "the child's descriptor comes back");
	fd_close(j.fd);

	buf_release(&out);
	j = (struct job){ .result = -EDOM };
	CHECKF(run(&j, enter_nothing, NULL, &out, &e) == -EDOM && str_eq(e.msg, "the work failed"),
	       "the child's error comes back: %s", e.msg);
	CHECKF(str_eq(buf_cstr(&out), "."), "the bytes of a child that failed come back");
	fd_close(j.fd);

	buf_release(&out);
	j = (struct job){ .dies = true };
	CHECKF(run(&j, enter_nothing, NULL, &out, &e) == -EIO &&
		       str_eq(e.msg, "the process that is tested died") && j.fd == -1 && out.len == 0,
	       "a child that dies is an error: %s", e.msg);

	j = (struct job){ 0 };
	CHECKF(run(&j, enter_fails, &ids, &out, &e) == -ENOSPC && str_eq(e.msg, "there is no namespace left"),
	       "no ids are mapped for a child that could not enter its namespaces: %s", e.msg);
	CHECK(j.fd == -1 && out.len == 0);
	return tap_done();
}
