/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The launcher's side of a sandbox in the warm pool (standby.h). It takes one command and never a second one
 * (standby.W1).
 */
#include "daemon/pool/standby.h"

#include "base/fd.h"
#include "ipc/fdpass.h"
#include "sandbox/init/proto.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

struct standby {
	int sock;
	unsigned flags;
	bool reported; /* the end was sent */
	int stdio[3];
};

/* Waits for a message, or the death of pid 1: a sandbox whose engine died must not be handed out. */
static int wait_for_go(const struct standby *sb, const struct run *r)
{
	struct pollfd p[] = { { .fd = sb->sock, .events = POLLIN }, { .fd = r->er.pidfd, .events = POLLIN } };

	while (poll(p, ARRAY_SIZE(p), -1) < 0) {
		if (errno != EINTR)
			return -errno;
	}
	return p[1].revents ? -ECANCELED : 0;
}

/* Copies the strings of the body into the spec. */
static int split_command_body(struct spec *s, char *body, const struct standby_go *go)
{
	const struct proto_start st = { .argc = go->argc, .envc = go->envc };
	struct proto_body b;
	int r = proto_body_split(body, go->body, &st, &b);

	if (r < 0)
		return r;
	free(s->cwd);
	s->cwd = strdup(b.cwd);
	strv_release(&s->argv);
	strv_release(&s->env);
	r = s->cwd ? 0 : -ENOMEM;
	for (uint32_t i = 0; r == 0 && i < go->argc; i++)
		r = strv_add(&s->argv, b.argv[i]);
	for (uint32_t i = 0; r == 0 && i < go->envc; i++)
		r = strv_add(&s->env, b.env[i]);
	proto_body_release(&b);
	return r;
}

static int read_command_body(struct spec *s, int fd, const struct standby_go *go)
{
	autofree char *body = NULL;

	if (go->magic != STANDBY_MAGIC || go->kind != STANDBY_GO || go->argc == 0 || go->body == 0 ||
	    go->body > PROTO_START_MAX || go->argc > PROTO_STRINGS_MAX || go->envc > PROTO_STRINGS_MAX)
		return -EPROTO;
	body = malloc(go->body);
	if (!body)
		return -ENOMEM;
	if (pread(fd, body, go->body, 0) != (ssize_t)go->body)
		return -EPROTO;
	return split_command_body(s, body, go);
}

static void send_ready(const struct standby *sb, const struct run *r)
{
	struct standby_ready m = { .magic = STANDBY_MAGIC, .kind = STANDBY_READY };
	struct cgroup_stat st = { 0 };

	cgroup_read_stat(&r->cg, &st);
	m.memory = st.has_memory ? st.memory_now : 0;
	memcpy(m.id, r->spec->id, sizeof(m.id));
	/* If the peer has gone, the wait that follows notices at once. */
	(void)!fdpass_send(sb->sock, &m, sizeof(m), NULL, 0);
}

static int on_wait_for_command(void *ctx, struct run *r, struct run_io *io, struct err *e)
{
	struct standby *sb = ctx;
	struct spec *s = r->spec;
	struct standby_go go = { 0 };
	int fds[4] = { -1, -1, -1, -1 }, ret;

	send_ready(sb, r);
	ret = wait_for_go(sb, r);
	if (ret == 0)
		ret = fdpass_recv(sb->sock, &go, sizeof(go), fds, ARRAY_SIZE(fds));
	if (ret < 0)
		return err_set(e, -ECANCELED, "no command came");
	ret = read_command_body(s, fds[0], &go);
	fd_close(fds[0]);
	memcpy(sb->stdio, fds + 1, sizeof(sb->stdio));
	if (ret < 0)
		return err_sys(e, ret, "the request for a sandbox was malformed");
	sb->flags = go.flags;
	memcpy(s->from, go.from, sizeof(s->from));
	s->from[RUN_ID_LEN] = '\0';
	s->limits.l[LIMIT_TIMEOUT].value = go.timeout;
	s->limits.l[LIMIT_TIMEOUT].named = go.timeout_named;
	s->limits.l[LIMIT_OUTPUT].value = go.output;
	s->limits.l[LIMIT_OUTPUT].named = go.output_named;
	io->in = sb->stdio[0];
	io->out = sb->stdio[1];
	io->err = sb->stdio[2];
	io->alive_fd = sb->sock;
	return 0;
}

static int make_report_file(const struct run *r)
{
	autobuf struct buf b = BUF_INIT;
	autoclose int fd = memfd_create("report", MFD_CLOEXEC);

	run_report(r, &b);
	if (fd < 0 || buf_error(&b) || fd_write_all(fd, b.data, b.len) < 0)
		return -1;
	return TAKE_FD(fd);
}

static void send_end(struct standby *sb, const struct run *r, bool report)
{
	struct standby_end m = { .magic = STANDBY_MAGIC, .kind = STANDBY_END, .end = r->end };
	autoclose int fd = report ? make_report_file(r) : -1;

	m.changes = r->changes;
	m.wiped = r->wiped;
	m.report = fd >= 0;
	snprintf(m.limits_off, sizeof(m.limits_off), "%s", r->limits_off);
	/* A client that has gone has thereby ended the sandbox. */
	(void)!fdpass_send(sb->sock, &m, sizeof(m), &fd, fd >= 0 ? 1 : 0);
	sb->reported = true;
}

/* The client waits for its command, not for our cleanup, unless it wants the report. */
static void on_command_ended(void *ctx, struct run *r)
{
	struct standby *sb = ctx;

	for (size_t i = 0; i < ARRAY_SIZE(sb->stdio); i++)
		sb->stdio[i] = fd_close(sb->stdio[i]);
	if (!(sb->flags & STANDBY_F_REPORT))
		send_end(sb, r, false);
}

int standby_serve(struct run *r, int sock, struct err *e)
{
	struct standby sb = { .sock = sock, .stdio = { -1, -1, -1 } };
	struct run_io io = RUN_IO_INIT;
	int ret;

	io.wait = on_wait_for_command;
	io.ended = on_command_ended;
	io.ctx = &sb;
	ret = run_execute(r, &io, e);
	if (ret == -ECANCELED)
		return 0;
	if (ret < 0 && sb.stdio[0] < 0 && !sb.reported) {
		struct standby_ready m = { .magic = STANDBY_MAGIC, .kind = STANDBY_FAILED };

		snprintf(m.why, sizeof(m.why), "%.255s", e->msg);
		(void)!fdpass_send(sock, &m, sizeof(m), NULL, 0);
	} else if (!sb.reported) {
		if (ret < 0) {
			r->end.cause = CAUSE_BROKEN;
			r->end.exit_code = 125;
			snprintf(r->end.broken, sizeof(r->end.broken), "%.150s", e->msg);
		}
		send_end(&sb, r, sb.flags & STANDBY_F_REPORT);
	}
	for (size_t i = 0; i < ARRAY_SIZE(sb.stdio); i++)
		fd_close(sb.stdio[i]);
	return ret;
}
