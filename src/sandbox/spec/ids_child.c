/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Forks a child that works in other namespaces, maps its ids, and takes its report (ids_child.h). The child
 * executes nothing, and the caller never leaves its own namespaces.
 */
#include "sandbox/spec/ids_child.h"

#include "base/fd.h"
#include "ipc/fdpass.h"
#include "sys/spawn.h"

#include <errno.h>
#include <sched.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/wait.h>

#define OUT_MAX (2ULL << 30)

/* The first byte of each message of the child. */
enum { CHILD_MAP = 'm', CHILD_REPORT = 'r' };

struct report {
	int result;
	uint64_t len; /* of the bytes that follow */
	struct err err;
};

static int enter_user_namespace(struct err *e)
{
	return unshare(CLONE_NEWUSER) < 0 ? err_sys(e, -errno, "cannot make a user namespace") : 0;
}

/* In the child: has the parent map the ids of its new user namespace. Without an answer the parent reports why. */
static void ask_for_ids(int sock)
{
	char c = CHILD_MAP;

	if (fdpass_send(sock, &c, 1, NULL, 0) < 0 || fdpass_recv(sock, &c, 1, NULL, 0) < 0)
		_exit(1);
}

/* Always exits, so that nothing of the parent is released twice. */
static _Noreturn void run_in_child(const struct ids_child *c, int sock, pid_t parent)
{
	struct report rep = { .err = ERR_INIT };
	autobuf struct buf out = BUF_INIT;
	char first = CHILD_REPORT;
	bool has_fd;

	rep.result = c->enter ? c->enter(c->ctx, &rep.err) : enter_user_namespace(&rep.err);
	if (rep.result == 0 && c->ids)
		ask_for_ids(sock);
	/* Not earlier: a change of credentials resets it. Until then a parent that died shows as end of file. */
	spawn_die_with(parent);
	if (rep.result == 0)
		rep.result = c->work(c->ctx, &out, &rep.err);
	if (rep.result >= 0 && buf_error(&out))
		rep.result = err_set(&rep.err, -ENOMEM, "out of memory");
	rep.len = buf_error(&out) ? 0 : out.len;
	has_fd = c->fd && *c->fd >= 0;
	_exit(fdpass_send(sock, &first, 1, c->fd, has_fd) < 0 || fd_write_all(sock, &rep, sizeof(rep)) < 0 ||
	      fd_write_all(sock, buf_cstr(&out), (size_t)rep.len) < 0);
}

static int report_death(const struct ids_child *c, struct err *e)
{
	return err_set(e, -EIO, "the process that %s died", c->what);
}

static int take_report(const struct ids_child *c, int sock, struct err *e)
{
	struct report rep;
	char *p;

	if (fd_read_exact(sock, &rep, sizeof(rep)) < 0)
		return report_death(c, e);
	if (rep.len) {
		p = c->out && rep.len <= OUT_MAX ? buf_reserve(c->out, (size_t)rep.len) : NULL;
		if (!p)
			return err_set(e, -ENOMEM, "out of memory");
		if (fd_read_exact(sock, p, (size_t)rep.len) < 0)
			return report_death(c, e);
		c->out->len += (size_t)rep.len;
		c->out->data[c->out->len] = '\0';
	}
	if (rep.result < 0 && e)
		*e = rep.err;
	return rep.result < 0 ? rep.result : 0;
}

/* In the parent: maps the ids when the child asks, then takes its report. */
static int serve_child(const struct ids_child *c, int sock, pid_t pid, struct err *e)
{
	bool mapped = false;
	int fd, r;
	char first;

	for (;;) {
		fd = -1;
		r = fdpass_recv_stream(sock, &first, 1, &fd);
		if (c->fd)
			*c->fd = fd;
		else
			fd_close(fd);
		if (r == 1 && first == CHILD_REPORT)
			return take_report(c, sock, e);
		if (r != 1 || first != CHILD_MAP || !c->ids || mapped)
			return report_death(c, e);
		r = ids_write_maps(c->ids, pid, e);
		if (r < 0)
			return r;
		if (fdpass_send(sock, &first, 1, NULL, 0) < 0)
			return report_death(c, e);
		mapped = true;
	}
}

int ids_child_run(const struct ids_child *c, struct err *e)
{
	autoclose int ours = -1, theirs = -1;
	pid_t pid, self = getpid();
	int pair[2], r;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		return err_sys(e, -errno, "cannot make a socket");
	ours = pair[0];
	theirs = pair[1];
	pid = fork();
	if (pid < 0)
		return err_sys(e, -errno, "cannot start the process that %s", c->what);
	if (pid == 0) {
		fd_close(ours); /* so that the parent's death shows as end of file */
		run_in_child(c, theirs, self);
	}
	theirs = fd_close(theirs);
	r = serve_child(c, ours, pid, e);
	ours = fd_close(ours);
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
	return r;
}
