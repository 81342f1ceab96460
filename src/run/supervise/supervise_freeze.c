/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Freezing the sandbox for a client that takes a checkpoint: from PROTO_FREEZE until the client disconnects or its time
 * is up. The control group's freezer is used where there is one; otherwise every process is stopped by a signal from
 * outside. If neither works the sandbox runs on, and the client is told so. Also the end of a sandbox for a rollback.
 */
#include "base/clock.h"
#include "base/fd.h"
#include "base/json.h"
#include "ipc/fdpass.h"
#include "run/supervise/supervise_int.h"

#include <errno.h>

static enum proto_frozen freeze_sandbox(struct supervision *sv)
{
	if (sv->cg && cgroup_freeze(sv->cg, true, NULL) == 0)
		return PROTO_FROZEN_GROUP;
	/* A half frozen group is thawed again. -EOPNOTSUPP: there is no freezer, so nothing was frozen. */
	if (sv->cg && cgroup_freeze(sv->cg, false, NULL) == -ETIMEDOUT)
		return PROTO_FROZEN_NOT;
	if (sv->run->pid > 1 && proctree_stop(&sv->freeze.tree, sv->run->pid, NULL) == 0)
		return PROTO_FROZEN_SIGNALS;
	return PROTO_FROZEN_NOT;
}

void supervise_thaw(struct supervision *sv)
{
	struct freeze *f = &sv->freeze;

	if (!f->by)
		return;
	f->by = NULL;
	loop_timer_off(&sv->loop, &f->t);
	if (f->how == PROTO_FROZEN_SIGNALS)
		proctree_continue(&f->tree);
	/* A sandbox that cannot be thawed is ended. */
	if (f->how == PROTO_FROZEN_GROUP && cgroup_freeze(sv->cg, false, NULL) < 0 && !sv->killed)
		supervise_broken(sv, "it cannot be thawed");
	f->how = PROTO_FROZEN_NOT;
}

static void on_freeze_timeout(struct timer *t)
{
	struct supervision *sv = t->ctx;
	struct client *c = sv->freeze.by;

	supervise_thaw(sv);
	if (c && supervise_refuse(c, "the pause took too long") == 0)
		supervise_client_flush(c);
}

/* The reply carries the descriptor of the layers, so it is sent by itself and not queued after other frames. */
static int send_frozen_reply(struct supervision *sv, struct client *c)
{
	autobuf struct buf b = BUF_INIT;
	int fd = sv->spec->layers_fd;

	proto_add_u32(&b, PROTO_FROZEN, 0, sv->freeze.how);
	if (buf_error(&b))
		return -ENOMEM;
	if (conn_flush(&c->conn) != 0)
		return -EPROTO;
	return c->w.fd < 0 ? 0 : fdpass_send(c->w.fd, b.data, b.len, &fd, fd >= 0);
}

int supervise_freeze(struct supervision *sv, struct client *c, const struct frame *f)
{
	uint32_t ms;
	int r;

	if (proto_get_u32(f, &ms) < 0 || ms == 0 || ms > PROTO_FREEZE_MAX)
		return -EPROTO;
	if (sv->freeze.by)
		return supervise_refuse(c, "the sandbox is already paused by another client");
	if (sv->killed || sv->ended)
		return supervise_refuse(c, "it is ending");
	sv->freeze.how = freeze_sandbox(sv);
	sv->freeze.by = c;
	sv->freeze.t = (struct timer){ .fn = on_freeze_timeout, .ctx = sv };
	loop_timer(&sv->loop, &sv->freeze.t, clock_nsec(CLOCK_MONOTONIC) + ms * NSEC_PER_MSEC);
	r = send_frozen_reply(sv, c);
	if (r < 0)
		supervise_thaw(sv);
	return r;
}

int supervise_rollback(struct supervision *sv, struct client *c, const struct frame *f)
{
	autobuf struct buf fields = BUF_INIT;
	struct json j = JSON_INIT(&fields);
	int r;

	if (f->len)
		return -EPROTO;
	json_bool(&j, "rollback", true);
	json_i64(&j, "client_pid", c->pid);
	json_u64(&j, "client_uid", c->uid);
	r = buf_error(&fields) ? -ENOMEM : supervise_event(sv, "stop.request", &fields);
	if (r == 0) {
		sv->rolled = true;
		supervise_kill(sv, CAUSE_ROLLED);
	}
	return 0;
}
