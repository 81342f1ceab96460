/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Metrics for Prometheus, on STATE/metrics.sock: `curl --unix-socket … http://coffer/metrics`. For each
 * running sandbox the counters of its coffer-egress, as its guard last stored them; the warm pool; the
 * position of the audit log.
 *
 * Invariants (cited elsewhere as metrics.M1 …)
 * M1  Only the owner of the state directory reaches the socket (its mode, the directory's mode, SO_PEERCRED).
 *     No request changes anything.
 * M2  A request has at most METRICS_ASK_MAX bytes and takes at most METRICS_WITHIN, there are at most
 *     METRICS_CLIENTS at a time, and each connection gets one response.
 * M3  Snapshots come from coffer-egress, which talks to hostile peers: their numbers become samples and their
 *     texts become escaped labels; they cannot add a line, a metric or a sandbox.
 */
#ifndef DAEMON_METRICS_H
#define DAEMON_METRICS_H

#include "approval/list/askcount.h"
#include "base/clock.h"
#include "ipc/loop.h"
#include "sandbox/state/state.h"
#include "web/wire/webproto.h"

#include <jansson.h>

#define METRICS_SOCKET "metrics.sock"
#define METRICS_SNAPSHOT_MAX 65536
#define METRICS_ASK_MAX 8192
#define METRICS_CLIENTS 16
#define METRICS_WITHIN (10 * NSEC_PER_SEC)

/* The state of the warm pool. */
struct pool_count {
	uint32_t ready, starting, templates;
	uint64_t held;
};

/* Counters of the API, since cofferd was started. */
struct metrics_web {
	struct web_stats stats;
	uint64_t deaths; /* of coffer-web */
};

struct metrics_env {
	struct state *st;
	struct loop *loop;
	void (*pool)(void *ctx, struct pool_count *ret);
	void (*web)(void *ctx, struct metrics_web *ret);
	void *ctx;
};

struct metrics;

int metrics_open(struct metrics **ret, const struct metrics_env *env, struct err *e) MUST_CHECK;
void metrics_close(struct metrics *m); /* NULL is fine */
/* The text of a response, made now; the argument is a struct metrics. */
int metrics_make_response(void *metrics, struct buf *out) MUST_CHECK;
/* Was there a request lately? Then a scraper will come again. */
bool metrics_is_wanted(const struct metrics *m, uint64_t now);

/* --- metrics_text.c, pure --- */

enum metrics_ask { METRICS_MORE, METRICS_TEXT, METRICS_HEAD, METRICS_REFUSE };

/* Parses the request received so far. METRICS_REFUSE: *ret_status is the response: 400, 404, 405, 431, 505. */
enum metrics_ask metrics_parse(const char *data, size_t len, unsigned *ret_status);

struct metrics_sandbox {
	const char *id, *name, *engine; /* name may be NULL */
	uint64_t started;		/* CLOCK_REALTIME ns */
	json_t *egress, *dial, *asks;	/* of metrics_snapshot(); NULL: none */
};

struct metrics_all {
	struct metrics_sandbox *sandboxes;
	size_t n;
	struct pool_count pool;
	uint64_t audit_seq;
	bool has_audit;
	struct metrics_web web;
};

json_t *metrics_snapshot(const char *data, size_t len); /* an object, or NULL */
void metrics_text(const struct metrics_all *a, struct buf *out);

#endif
