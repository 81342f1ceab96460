/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The life of an exchange: creation, the pipes between front and back, retries, cleanup. Judges nothing; the
 * stages that do are listed in http_exch.h.
 */
#include "egress/exchange/http_exch.h"

#include "base/container.h"
#include "egress/exchange/http_ask.h"
#include "egress/exchange/http_capture.h"
#include "egress/exchange/http_secret.h"
#include "egress/exchange/http_watch.h"
#include "egress/exchange/inspect.h"
#include "egress/exchange/upstream.h"

static struct exch *exch_take_spare(struct inspect *in)
{
	struct exch *e = in->spare;

	if (!e)
		return calloc(1, sizeof(*e));
	in->spare = e->all_next;
	in->n_spare--;
	return e;
}

struct exch *exch_new(struct inspect *in, struct inspect_conn *conn, const struct exch_front *front)
{
	struct exch *e = in->n_exchs < INSPECT_EXCHANGES_MAX ? exch_take_spare(in) : NULL;

	if (!e)
		return NULL;
	in->n_exchs++;
	e->in = in;
	e->conn = conn;
	e->front = front;
	e->conn_id = conn->flow ? conn->flow->id : 0;
	e->id = ++in->next_request;
	e->began = e->active = in->eg->now;
	e->all_next = in->exchs;
	e->all_link = &in->exchs;
	if (in->exchs)
		in->exchs->all_link = &e->all_next;
	in->exchs = e;
	return e;
}

/* Resets it to the state after calloc(), but keeps memory that the next request can use. */
static void exch_reset(struct exch *e)
{
	struct http_req req = { .target = e->req.target };
	struct http_pipe up = e->up, down = e->down;

	http_fields_clear(&e->req.fields);
	http_fields_clear(&e->resp.fields);
	if (req.target.cap > 4096)
		buf_release(&req.target);
	buf_clear(&req.target);
	http_pipe_clear(&up);
	http_pipe_clear(&down);
	/* Everything before and after the two field lists, which are large and were emptied above. */
	memset(e, 0, offsetof(struct exch, req));
	memset(&e->req, 0, offsetof(struct http_req, fields));
	memset((char *)&e->req + offsetof(struct http_req, has_length), 0,
	       sizeof(e->req) - offsetof(struct http_req, has_length));
	e->req.target = req.target;
	e->resp.status = 0;
	memset((char *)&e->resp + offsetof(struct http_resp, has_length), 0,
	       sizeof(e->resp) - offsetof(struct http_resp, has_length));
	memset((char *)e + offsetof(struct exch, head_sent), 0,
	       sizeof(*e) - offsetof(struct exch, head_sent));
	e->up = up;
	e->down = down;
}

static void exch_really_free(struct exch *e)
{
	buf_release(&e->req.target);
	http_fields_release(&e->req.fields);
	http_fields_release(&e->resp.fields);
	http_pipe_release(&e->up);
	http_pipe_release(&e->down);
	free(e);
}

static void exch_bury(struct task *t)
{
	struct exch *e = CONTAINER_OF(t, struct exch, task);
	struct inspect *in = e->in;

	in->n_exchs--;
	capture_free(e);
	secret_free(e);
	if (in->n_spare >= INSPECT_SPARE_MAX) {
		exch_really_free(e);
		return;
	}
	exch_reset(e);
	e->all_next = in->spare;
	in->spare = e;
	in->n_spare++;
}

void exch_free_spares(struct inspect *in)
{
	while (in->spare) {
		struct exch *e = in->spare;

		in->spare = e->all_next;
		exch_really_free(e);
	}
	in->n_spare = 0;
}

static void exch_log_response(struct exch *e)
{
	struct journal *j = &e->in->eg->journal;
	struct json *l;

	if (!e->logged)
		return;
	l = journal_begin(j, "response");
	if (e->conn_id)
		json_u64(l, "c", e->conn_id);
	json_u64(l, "r", e->id);
	json_u64(l, "status", e->head_sent ? e->resp.status : 0);
	json_u64(l, "up", e->up.total);
	json_u64(l, "down", e->down.total);
	json_u64(l, "ms", (e->in->eg->now - e->began) / 1000000);
	egress_end_line(e->in->eg, e->is_first);
}

void exch_drop_trailers(struct exch *e)
{
	if (!e->trailers)
		return;
	http_fields_release(e->trailers);
	free(e->trailers);
	e->trailers = NULL;
}

/* http_exch.X4: frees it once front and back have released it. */
static void exch_maybe_free(struct exch *e)
{
	if (e->conn || e->up_conn || !e->all_link)
		return;
	exch_log_response(e);
	egress_undefer(&e->defer);
	ledger_unwait(&e->in->eg->ledger, &e->turn);
	exch_ask_forget(e);
	exch_hold_free(e);
	capture_free(e);
	secret_wipe(e);
	watch_free(e);
	http_pipe_clear(&e->up);
	exch_count(e);
	upstream_forget(e);
	buf_release(&e->act);
	exch_drop_trailers(e);
	*e->all_link = e->all_next;
	if (e->all_next)
		e->all_next->all_link = e->all_link;
	e->all_link = NULL;
	runq_bury(&e->in->q, &e->task, exch_bury);
}

void exch_begin(struct exch *e)
{
	e->in->requests++;
	if (e->req.why)
		exch_refuse(e, e->req.refusal, e->req.why);
	else
		exch_decide(e);
}

bool exch_wants_body(const struct exch *e)
{
	switch (e->state) {
	case EXCH_HOLD:
		return http_pipe_len(&e->up) < EXCH_HOLD_MAX;
	case EXCH_LIVE:
		return http_pipe_room(&e->up) > 0;
	default:
		return false;
	}
}

int exch_put(struct exch *e, const void *data, size_t len)
{
	int r;

	e->active = e->in->eg->now;
	if (e->state == EXCH_LOCAL) {
		e->up.total += len;
		return 0;
	}
	r = watch_put(e, data, len);
	if (r == 0)
		r = http_pipe_put(&e->up, data, len);
	if (r < 0)
		return r;
	if (e->state != EXCH_HOLD && watch_found(e, NULL)) {
		secret_cut(e);
	} else if (e->state == EXCH_HOLD) {
		e->counted = true;
		exch_count(e);
		exch_decide_body(e);
	} else if (e->back) {
		e->back->wake(e);
	}
	return 0;
}

void exch_put_end(struct exch *e)
{
	e->up.eof = true;
	if (e->state == EXCH_HOLD)
		exch_decide_body(e);
	else if (e->back)
		e->back->wake(e);
}

void exch_took_up(struct exch *e, size_t n)
{
	e->up_sent += n;
	e->active = e->in->eg->now;
	exch_count(e);
	if (e->conn)
		e->front->took(e, n);
}

void exch_took_down(struct exch *e, size_t n)
{
	e->active = e->in->eg->now;
	/* The bytes of a held response were consumed when they came. */
	if (e->back && !e->capture)
		e->back->took(e, n);
}

void exch_front_gone(struct exch *e)
{
	e->conn = NULL;
	e->front = NULL;
	if (e->up_conn && e->back)
		e->back->drop(e);
	exch_maybe_free(e);
}

bool exch_head(struct exch *e)
{
	e->active = e->in->eg->now;
	if (!secret_head(e) || !capture_head(e)) {
		e->over_status = 502;
		return false;
	}
	if (e->resp.status >= 200 || e->resp.tunnel)
		e->head_came = true;
	if (capture_holds(e) || capture_drops_head(e))
		return true;
	if (e->resp.status >= 200 || e->resp.tunnel)
		e->head_sent = true;
	if (e->conn)
		e->front->head(e);
	return true;
}

int exch_put_down(struct exch *e, const void *data, size_t len)
{
	int r;

	if (capture_holds(e))
		return capture_put_down(e, data, len);
	r = secret_scrubs(e) ? secret_put_down(e, data, len) : http_pipe_put(&e->down, data, len);

	e->active = e->in->eg->now;
	if (r == 0 && e->conn)
		e->front->wake(e);
	return r;
}

void exch_end_down(struct exch *e)
{
	int r;

	e->whole = true;
	if (capture_holds(e)) {
		capture_end_down(e);
		return;
	}
	r = secret_end_down(e);
	e->down.eof = true;
	if (e->conn && r < 0)
		e->front->fail(e);
	else if (e->conn)
		e->front->wake(e);
}

void exch_back_gone(struct exch *e)
{
	e->up_conn = NULL;
	e->back = NULL;
	secret_wipe(e);
	exch_maybe_free(e);
}

/* May the request be sent again over another connection? */
static bool exch_may_retry(const struct exch *e)
{
	static const char *const safe[] = { "GET", "HEAD", "OPTIONS", "PUT", "DELETE", "PROPFIND", "TRACE" };

	if (e->up_sent || e->head_sent || e->tries > 1 || e->over)
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(safe); i++) {
		if (strcmp(e->req.method, safe[i]) == 0)
			return true;
	}
	return false;
}

void exch_back_failed(struct exch *e, bool again, const char *why)
{
	e->up_conn = NULL;
	e->back = NULL;
	secret_wipe(e);
	if (!e->conn) {
		exch_maybe_free(e);
		return;
	}
	/* http_ask.Q6: an approval is for one sending, so an approved request is never retried. */
	if (!e->old_plan && !e->ask_used &&
	    ((again && !e->head_sent && !e->up_sent && e->tries <= 1) || exch_may_retry(e))) {
		e->fresh = true;
		capture_reset(e);
		upstream_get(e);
		return;
	}
	e->in->failed++;
	if (e->over && !e->head_sent)
		exch_refuse(e, e->over_status ? e->over_status : 403, e->over_why);
	else if (e->head_sent)
		e->front->fail(e);
	else
		exch_respond_failed(e, why);
}

void exch_cut(struct exch *e, const char *why)
{
	exch_ask_forget(e);
	egress_undefer(&e->defer);
	ledger_unwait(&e->in->eg->ledger, &e->turn);
	if (e->up_conn && e->back)
		e->back->drop(e);
	secret_wipe(e);
	if (e->head_sent)
		e->front->fail(e);
	else if (why)
		exch_refuse(e, 503, why);
	else
		exch_deny(e);
}

/* Bytes are granted before they are sent, so that parallel connections cannot exceed the limit together. */
long http_grant_up(struct exch *e, size_t want)
{
	struct egress *eg = e->in->eg;
	long n = limits_take(&eg->limits, e->limit, LIMIT_UP, want, eg->now);

	if (n == 0) {
		e->paused = e->in->paused = true;
		inspect_tick_on(e->in);
	} else if (n < 0) {
		e->over = true;
		e->over_why = "the limit of bytes_up is used up";
	}
	return n;
}

long http_grant_down(struct exch *e, size_t want)
{
	struct egress *eg = e->in->eg;
	long n = limits_bytes(&eg->limits, e->limit)
			 ? limits_take(&eg->limits, e->limit, LIMIT_DOWN, want, eg->now)
			 : (long)want;

	if (n == 0) {
		e->paused = e->in->paused = true;
		inspect_tick_on(e->in);
	}
	return n;
}
