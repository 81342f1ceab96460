/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Revokes grants of a run (askback.h), by its ask server or as that server for a moment. Only revokes; it
 * cannot answer or grant.
 */
#include "approval/server/askback.h"

#include "approval/list/granted.h"
#include "approval/server/askserve.h"
#include "audit/audit.h"
#include "base/clock.h"

#include <errno.h>
#include <poll.h>
#include <unistd.h>

#define AGAIN_MS 50
#define AGAIN_MAX_MS 20000 /* retries while ask servers start and exit */

struct moment {
	struct loop loop;
	struct askserve serve;
	struct audit *audit;
	const char *run;
};

static int on_revoke_event(void *ctx, const char *type, const struct buf *fields, uint64_t *ret_seq)
{
	struct moment *m = ctx;

	return audit_append_seq(m->audit, type, m->run, fields, ret_seq, NULL);
}

/* -EADDRINUSE: another process is the ask server. */
static int become_ask_server(struct moment *m, struct state *st, int run_fd, const char *run, struct err *e)
{
	const struct askserve_owner o = { .event = on_revoke_event, .ctx = m };
	int r;

	*m = (struct moment){ .loop = LOOP_INIT, .serve = ASKSERVE_INIT, .run = run };
	r = audit_open(&m->audit, st->fd, e);
	if (r == 0)
		r = loop_open(&m->loop, e);
	if (r == 0)
		r = askserve_open(&m->serve, &m->loop, run_fd, run, 0, &o, e);
	return r < 0 ? r : askserve_listen(&m->serve, e);
}

static void stop_ask_server(struct moment *m)
{
	askserve_leave(&m->serve, "the process that served this sandbox's questions has exited");
	loop_close(&m->loop);
	audit_free(m->audit);
}

static json_t *ask_as_json(const struct asks *l, const char *id)
{
	autobuf struct buf b = BUF_INIT;
	struct json j = JSON_INIT(&b);
	const struct ask *a = asks_find(l, id);
	struct ask_view v;

	if (!a)
		return NULL;
	ask_view(l, a, &v);
	ask_json(&v, &j, NULL);
	return buf_error(&b) ? NULL : json_loadb(buf_cstr(&b), b.len, 0, NULL);
}

static int revoke_as_server(struct state *st, int run_fd, const char *run, const char *id,
			    const struct ask_who *who, json_t **ret, struct err *e)
{
	struct ask_who me = *who;
	struct moment m;
	int r = become_ask_server(&m, st, run_fd, run, e);

	/* The uid that the kernel would report if this were a client of the socket. */
	me.uid = geteuid();
	if (r == 0)
		r = asks_revoke(m.serve.asks, asks_clock(), id, &me, e);
	if (r == 0 && ret)
		*ret = ask_as_json(m.serve.asks, id);
	stop_ask_server(&m);
	return r;
}

int askback_revoke(struct state *st, int run_fd, const char *run, const char *id, const struct ask_who *who,
		   json_t **ret, struct err *e)
{
	int r = -EADDRINUSE;

	for (int ms = 0; r == -EADDRINUSE && ms < AGAIN_MAX_MS; ms += AGAIN_MS) {
		autoaskc struct askc c = ASKC_INIT;

		if (ms)
			poll(NULL, 0, AGAIN_MS);
		*e = ERR_INIT;
		r = askc_open(&c, run_fd, e);
		if (r == 0)
			return askc_revoke(&c, id, who, ret, e);
		if ((r != -ENOENT && r != -ECONNREFUSED) || !granted_exists(run_fd))
			return r;
		*e = ERR_INIT;
		r = revoke_as_server(st, run_fd, run, id, who, ret, e);
	}
	return r;
}

static int skip_ask(void *ctx, json_t *ask)
{
	(void)ctx;
	(void)ask;
	return 0;
}

/* Makes another process's ask server notice the end of the session: before it answers any request it checks
 * whether the session lives (askserve_frame) and lets the grants lapse. */
static void nudge_server(int run_fd)
{
	autoaskc struct askc c = ASKC_INIT;
	struct err ignored = ERR_INIT;

	if (askc_open(&c, run_fd, &ignored) == 0)
		(void)!askc_list(&c, false, skip_ask, NULL, &ignored);
}

int askback_end_session(struct state *st, int run_fd, const char *run, struct err *e)
{
	int r = granted_exists(run_fd) ? -EADDRINUSE : 0;

	for (int ms = 0; r == -EADDRINUSE && ms < AGAIN_MAX_MS; ms += AGAIN_MS) {
		struct moment m;

		if (ms)
			poll(NULL, 0, AGAIN_MS);
		*e = ERR_INIT;
		/* A starting ask server notices that the session has ended (granted.G1) and lets its grants
		 * lapse. */
		r = become_ask_server(&m, st, run_fd, run, e);
		stop_ask_server(&m);
		if (r == -EADDRINUSE) {
			nudge_server(run_fd);
			r = granted_exists(run_fd) ? r : 0;
		}
	}
	return r;
}
