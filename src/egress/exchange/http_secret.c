/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/exchange/http_secret.h"

#include "egress/exchange/http_ask.h"

#include "base/container.h"
#include "base/fd.h"
#include "crypto/hash.h"
#include "egress/core/control.h"
#include "egress/credential/theirs.h"
#include "egress/exchange/http_capture.h"
#include "egress/exchange/http_head.h"
#include "egress/exchange/http_secret_int.h"
#include "egress/exchange/http_watch.h"
#include "egress/exchange/upstream.h"

#include <stdio.h>

/* From the decision to the journal. */

static struct inject_dest dest_of(const struct exch *e)
{
	return (struct inject_dest){ .host = e->conn->host.text,
				     .port = e->conn->port,
				     .tls = e->conn->tls,
				     .rule_secret = e->verdict.terms.secret,
				     .by_line = e->in->secrets ? e->in->secrets->by_line : 0 };
}

void secret_refuse(struct exch *e, const char *why)
{
	egress_alert(e->in->eg, "secret", e->conn->host.text, "%s", why);
	exch_refuse(e, 403, why);
}

/* A rule that names a secret is of no use without it, and is not let through without. */
static bool lacks_secret(struct exch *e)
{
	const char *name = e->verdict.terms.secret;
	const struct vault_grants *g = http_secrets_grants(e->in);

	if (!name || (g && grants_by_name(g, name)))
		return false;
	e->verdict.action = POLICY_DENY;
	snprintf(e->verdict.why, sizeof(e->verdict.why),
		 "the rule wants the secret '%s', and this sandbox was not given it", name);
	e->verdict.hint =
		"Put it into the vault ('coffer secret set', 'coffer secret bind') and start again.";
	exch_deny(e);
	return true;
}

static bool plan(struct exch *e, const struct inject_plan *p)
{
	if (p->n == 0 && !e->capture)
		return true;
	e->secret = calloc(1, sizeof(*e->secret));
	if (!e->secret) {
		exch_refuse(e, 503, "out of memory");
		return false;
	}
	e->secret->e = e;
	e->secret->plan = *p;
	return true;
}

/* What was found, in words. */
static void say_found(const struct exch *e, const struct watch_hit *hit, const char *where,
		      char why[INJECT_WHY_MAX])
{
	struct inject_refusal no = { 0 };
	struct inject_dest d;

	if (!hit->grant) {
		watch_say_stale(e, where, why);
		return;
	}
	d = dest_of(e);
	inject_refuse(hit->grant, &d, &e->req, where, &no);
	memcpy(why, no.why, sizeof(no.why));
}

static void refuse_found(struct exch *e, const struct watch_hit *hit, const char *where)
{
	char why[INJECT_WHY_MAX];

	say_found(e, hit, where, why);
	secret_refuse(e, why);
}

bool secret_is_stale(struct exch *e)
{
	struct watch_hit hit = { 0 };

	if (!marks_any(&e->in->marks))
		return false;
	if (watch_head(e, &hit) < 0) {
		exch_refuse(e, 503, "out of memory");
		return true;
	}
	if (!hit.is_stale)
		return false;
	hit.grant = NULL;
	refuse_found(e, &hit, "its head");
	return true;
}

void secret_cut(struct exch *e)
{
	struct inject_refusal no = { 0 };
	struct watch_hit hit;

	if (e->failed || !watch_found(e, &hit))
		return;
	say_found(e, &hit, "the body", no.why);
	exch_ask_forget(e);
	egress_undefer(&e->defer);
	ledger_unwait(&e->in->eg->ledger, &e->turn);
	if (e->up_conn && e->back)
		e->back->drop(e);
	secret_wipe(e);
	if (!e->head_sent) {
		secret_refuse(e, no.why);
		return;
	}
	egress_alert(e->in->eg, "secret", e->conn->host.text, "%s", no.why);
	e->failed = true;
	e->front->fail(e);
}

static bool find(struct exch *e, struct slice body)
{
	const struct inject_dest d = dest_of(e);
	struct inject_refusal no = { 0 };
	struct watch_hit hit = { 0 };
	struct inject_plan p;

	if (inject_find(&e->in->secrets->grants, &d, &e->req, body, &p, &no) < 0) {
		secret_refuse(e, no.why);
		return false;
	}
	if (watch_head(e, &hit) < 0) {
		exch_refuse(e, 503, "out of memory");
		return false;
	}
	if (hit.grant || hit.is_stale) {
		refuse_found(e, &hit, hit.grant ? "the head, encoded" : "its head");
		return false;
	}
	if (watch_found(e, &hit)) {
		refuse_found(e, &hit, "the body");
		return false;
	}
	return plan(e, &p);
}

/* `credentials: only`: a body that was not looked into is not sent. */
static bool is_judged(const struct exch *e)
{
	return e->verdict.terms.credentials_only && theirs_wants_body(&e->req);
}

/* Of others one that is too long to be held goes as it is. */
static bool holds_body(const struct exch *e)
{
	struct inject_dest d;

	if (is_judged(e))
		return true;
	if (e->in->held > EXCH_HELD_MAX)
		return false;
	if (watch_wants_body(e) || !e->in->secrets)
		return watch_wants_body(e);
	d = dest_of(e);
	return inject_wants_body(&e->in->secrets->grants, &d, &e->req) &&
	       (!e->req.has_length || e->req.length <= EXCH_HOLD_MAX);
}

/* All is there that is waited for. True: go on. */
static bool settle(struct exch *e, struct slice body)
{
	struct theirs t = { .ours = http_secrets_grants(e->in),
			    .host = e->conn->host.text,
			    .port = e->conn->port };
	struct watch_hit hit;

	if (is_judged(e) && theirs_in_body(&t, &e->req, body)) {
		/* A placeholder that is not this sandbox's looks as the real thing would. */
		if (watch_is_stale(e))
			refuse_found(e, &(struct watch_hit){ .is_stale = true }, "the body");
		else
			exch_deny_theirs(e, t.what);
		return false;
	}
	if (e->in->secrets)
		return find(e, body);
	if (!watch_found(e, &hit))
		return true;
	refuse_found(e, &hit, "the body");
	return false;
}

bool secret_check(struct exch *e)
{
	const char *why = is_judged(e) ? theirs_why_not(&e->req) : NULL;

	if (lacks_secret(e) || !capture_check(e))
		return false;
	if (why) {
		exch_refuse(e, e->req.has_length && e->req.length > EXCH_HOLD_MAX ? 413 : 403, why);
		return false;
	}
	if (e->in->secrets)
		capture_drop_expired(e->in->secrets);
	if (!holds_body(e))
		return settle(e, SLICE_NONE);
	if (e->up.eof)
		return settle(e, http_pipe_peek(&e->up));
	e->state = EXCH_HOLD;
	exch_let_continue(e);
	return false;
}

void secret_body(struct exch *e)
{
	bool is_long = http_pipe_len(&e->up) > EXCH_HOLD_MAX ||
		       (!e->up.eof && http_pipe_len(&e->up) == EXCH_HOLD_MAX);
	bool whole = e->up.eof && !is_long;

	if (!whole && !is_long && e->in->held <= EXCH_HELD_MAX)
		return;
	e->state = EXCH_NEW;
	exch_hold_free(e);
	if (!whole && is_judged(e))
		exch_refuse(e, is_long ? 413 : 503,
			    is_long ? THEIRS_TOO_LONG
				    : "too many requests wait to be judged by their bodies");
	else if (settle(e, whole ? http_pipe_peek(&e->up) : SLICE_NONE))
		exch_send(e);
}

bool secret_is_planned(const struct exch *e)
{
	return e->secret != NULL;
}

static const struct vault_grant *grant_of(const struct exch *e, unsigned i)
{
	return &e->in->secrets->grants.v[e->secret->plan.grant[i]];
}

/* The plan does not say in which way each is sent: all are asked for in which it may be sent to the first path. */
static bool covers(const struct vault_grant *g, const struct exch *e, struct slice first, struct slice path)
{
	const char *host = e->conn->host.text;

	for (size_t i = 0; i < g->n_bindings; i++) {
		const struct binding *b = &g->bindings[i];

		if (binding_covers(b, host, e->conn->port, first) &&
		    !grants_binding(g, host, e->conn->port, path, (enum binding_as)b->as, b->word))
			return false;
	}
	return true;
}

bool secret_covers(const struct exch *e, struct slice path)
{
	struct slice first = e->req.url.path_len ? urlpath_path(&e->req.target, &e->req.url) : slice_of("/");

	for (unsigned i = 0; e->secret && i < e->secret->plan.n; i++) {
		if (!covers(grant_of(e, i), e, first, path))
			return false;
	}
	return true;
}

bool secret_has(const struct exch *e, const char *name)
{
	for (unsigned i = 0; e->secret && i < e->secret->plan.n; i++) {
		if (strcmp(grant_of(e, i)->name, name) == 0)
			return true;
	}
	return false;
}

/* By handle as well: a value that was rotated comes with another one, and is another credential. */
void secret_digest(const struct exch *e, unsigned char out[HASH_LEN])
{
	struct hash_stream h;
	uint64_t mask = 0;

	memset(out, 0, HASH_LEN);
	for (unsigned i = 0; e->secret && i < e->secret->plan.n; i++)
		mask |= 1ull << e->secret->plan.grant[i];
	if (!mask)
		return;
	hash_stream_init(&h);
	for (size_t i = 0; i < GRANTS_MAX; i++) {
		const struct vault_grant *g = mask >> i & 1 ? &e->in->secrets->grants.v[i] : NULL;

		if (!g)
			continue;
		hash_stream_add(&h, &g->handle, sizeof(g->handle));
		hash_stream_add(&h, g->placeholder, g->placeholder_len + 1);
	}
	hash_stream_end(&h, out);
}

void secret_names(const struct exch *e, struct buf *out)
{
	for (unsigned i = 0; e->secret && i < e->secret->plan.n; i++)
		buf_addf(out, "%s%s", i ? "," : "", grant_of(e, i)->name);
}

unsigned secret_count(const struct exch *e)
{
	return e->secret ? e->secret->plan.n : 0;
}

uint64_t secret_key(const struct exch *e, enum ledger_kind kind, const char *name)
{
	struct seen *s = &e->in->eg->ledger.seen;

	seen_begin(s, (unsigned char)kind);
	seen_adds(s, name);
	seen_add(s, e->conn->host.text, e->conn->host.len);
	seen_add(s, &e->conn->port, sizeof(e->conn->port));
	seen_adds(s, e->req.method);
	if (exch_key_path(e))
		seen_add(s, e->req.target.data, e->req.target.len);
	return seen_key(s);
}

/* S2: one line for each. The path has no query, and placeholders as they are. False: one of them cannot have its line. */
static bool log_use(struct exch *e)
{
	struct egress *eg = e->in->eg;
	struct journal *j = &eg->journal;

	for (unsigned i = 0; e->secret && i < e->secret->plan.n; i++) {
		const struct vault_grant *g = grant_of(e, i);
		struct slice path = urlpath_path(&e->req.target, &e->req.url);
		enum ledger_answer known = ledger_note(&eg->ledger, secret_key(e, LEDGER_SECRET, g->name));
		autobuf struct buf text = BUF_INIT;
		unsigned char sum[HASH_LEN];
		struct json *l;
		char hex[17];

		if (known == LEDGER_DENY)
			return false;
		l = journal_begin(j, "secret");
		hash_sha256(g->placeholder, g->placeholder_len, sum);
		hash_hex(sum, 8, hex);
		if (e->conn_id)
			json_u64(l, "c", e->conn_id);
		json_u64(l, "r", e->id);
		journal_str(l, "secret", g->name, GRANTS_NAME_MAX);
		journal_str(l, "host", e->conn->host.text, HOST_MAX);
		json_u64(l, "port", e->conn->port);
		journal_str(l, "method", exch_method(e), EXCH_METHOD_MAX);
		if (e->req.url.path_len)
			http_path_log(&text, path, HTTP_PATH_LOGGED);
		journal_str(l, "path", buf_cstr(&text), HTTP_PATH_LOGGED);
		json_str(l, "digest", hex);
		egress_end_line(eg, e->is_first || known == LEDGER_FIRST);
	}
	return true;
}

/* From a connection to what is sent over it. */

static void failed(struct exch *e, unsigned status, const char *why)
{
	char text[VAULT_WHY_MAX + 96];

	snprintf(text, sizeof(text), "%s", why);
	if (e->up_conn && e->back)
		e->back->drop(e);
	secret_wipe(e);
	if (e->conn)
		exch_refuse(e, status, text);
}

static int make_set(struct exch *e)
{
	struct exch_secret *x = e->secret;
	int r = 0;

	for (unsigned i = 0; i < x->plan.n && r == 0; i++) {
		const struct vault_grant *g = grant_of(e, i);

		r = secret_add_forms(&x->set, (struct slice){ x->value[i].data, x->value[i].len },
				     (struct slice){ g->placeholder, g->placeholder_len });
	}
	if (r == 0 && x->plan.n) {
		scrub_set_ready(&x->set);
		x->down.set = &x->set;
		x->scrubs = true;
	}
	return r;
}

static void put_body(struct exch *e)
{
	struct exch_secret *x = e->secret;

	if (!x->plan.in_body)
		return;
	x->asked_body = e->up.b;
	x->has_body = true;
	x->length = x->out.body.len;
	e->up.b = x->out.body;
	x->out.body = (struct buf){ .wipe = true };
	e->up.at = 0;
	e->counted = true;
	exch_count(e);
}

static void take_body_back(struct exch *e)
{
	struct exch_secret *x = e->secret;

	if (!x->has_body)
		return;
	buf_release(&e->up.b);
	/* Of what has gone there is no other try, and the client's window was opened for it once. */
	if (e->up_sent)
		buf_release(&x->asked_body);
	else
		e->up.b = x->asked_body;
	x->asked_body = BUF_INIT;
	e->up.at = 0;
	x->has_body = false;
	exch_count(e);
}

static void begin(struct exch *e)
{
	struct exch_secret *x = e->secret;

	put_body(e);
	x->is_rendered = true;
	/* The back says when it has begun (exch_ask_sent): one that finds no room for a stream leaves an approval for the next try. */
	e->back->begin(e);
	/* S3: both backs have taken what they need. */
	inject_out_release(&x->out);
	x->is_rendered = false;
	for (unsigned i = 0; i < INJECT_MAX; i++)
		buf_release(&x->value[i]);
}

#define IS_OLD "the secret was changed before it was sent; ask again"

static void use_written(struct egress *eg, struct defer *d, int status)
{
	struct exch_secret *x = CONTAINER_OF(d, struct exch_secret, use);
	struct exch *e = x->e;
	struct inspect *in = e->in;

	runq_enter(&in->q);
	if (status < 0)
		failed(e, 503, "the use of the secret could not be written down, so it is not sent");
	else if (x->is_old)
		failed(e, 503, IS_OLD);
	else
		begin(e);
	if (status == 0)
		control_poke(eg);
	runq_leave(&in->q);
}

static void render(struct exch *e)
{
	struct exch_secret *x = e->secret;
	const struct inject_dest d = dest_of(e);
	struct slice value[INJECT_MAX];
	int r;

	for (unsigned i = 0; i < x->n_values; i++)
		value[i] = (struct slice){ x->value[i].data, x->value[i].len };
	r = make_set(e);
	if (r == 0)
		r = inject_render(&e->in->secrets->grants, &d, &e->req, http_pipe_peek(&e->up), &x->plan,
				  value, &x->out);
	if (r < 0) {
		failed(e, r == -EINVAL ? 403 : 503,
		       r == -EINVAL ? "the secret has bytes that cannot stand in this place of a request"
				    : "the request with its secret is too large");
		return;
	}
	if (x->plan.n == 0) {
		begin(e);
		return;
	}
	if (!log_use(e)) {
		failed(e, 503, egress_ledger_why(e->in->eg));
		return;
	}
	x->use.fn = use_written;
	egress_defer(e->in->eg, &x->use);
}

static void ask_next(struct exch *e);

static void answered(struct vault_ask *a, int status, struct slice value, const char *why)
{
	struct exch *e = a->ctx;
	struct exch_secret *x = e->secret;
	struct inspect *in = e->in;
	char text[VAULT_WHY_MAX + 64];

	runq_enter(&in->q);
	if (status < 0) {
		snprintf(text, sizeof(text), "the vault does not render the secret: %s", why);
		egress_alert(in->eg, "secret", e->conn ? e->conn->host.text : NULL, "%s", text);
		failed(e, status == -EPIPE || status == -EBUSY ? 503 : 403, text);
	} else {
		struct buf *b = &x->value[x->n_values++];

		b->wipe = true;
		buf_add(b, value.p, value.len);
		if (buf_error(b))
			failed(e, 503, "out of memory");
		else
			ask_next(e);
	}
	runq_leave(&in->q);
}

/* S1: whatever the reason may be for which it is not so. */
static bool is_verified(const struct exch *e)
{
	const struct upstream *u = e->up_conn;

	return e->conn->tls && u->key.tls && u->verified && u->key.port == e->conn->port &&
	       host_eq(&u->key.host, &e->conn->host);
}

static void ask_next(struct exch *e)
{
	struct exch_secret *x = e->secret;
	int r;

	if (x->n_values == x->plan.n && !x->is_old) {
		render(e);
		return;
	}
	x->ask.done = answered;
	x->ask.ctx = e;
	r = !x->is_old ? vaultc_render(&e->in->secrets->vault, &x->ask, grant_of(e, x->n_values)->handle,
				       e->conn->host.text, e->conn->port,
				       e->req.url.path_len ? urlpath_path(&e->req.target, &e->req.url)
							   : slice_of("/"))
		       : -ESTALE;
	if (r < 0)
		failed(e, 503,
		       r == -EPIPE   ? "the vault is not there, so the secret cannot be rendered"
		       : r == -EBUSY ? "too many requests wait for the vault"
				     : "the vault cannot be asked for the secret");
}

/* From the run queue: a back that hands a request over is not entered from below. */
static void ask_task(struct task *t)
{
	struct exch *e = CONTAINER_OF(t, struct exch, ask_task);

	if (e->state != EXCH_RENDER || !e->conn || !e->up_conn)
		return;
	if (!is_verified(e)) {
		failed(e, 403, "the server was not verified, so no secret is sent to it");
		return;
	}
	ask_next(e);
}

void secret_ask(struct exch *e)
{
	secret_wipe(e);
	e->resp.fields.text.wipe = true;
	e->state = EXCH_RENDER;
	e->active = e->in->eg->now;
	e->ask_task.fn = ask_task;
	runq_add(&e->in->q, &e->ask_task);
}

const struct buf *secret_target(const struct exch *e)
{
	return e->secret && e->secret->is_rendered ? &e->secret->out.target : &e->req.target;
}

const struct http_fields *secret_fields(const struct exch *e)
{
	return e->secret && e->secret->is_rendered ? &e->secret->out.fields : &e->req.fields;
}

uint64_t secret_length(const struct exch *e)
{
	return e->secret && e->secret->has_body ? e->secret->length : e->req.length;
}

size_t secret_body_len(const struct exch *e)
{
	return e->secret ? e->secret->asked_body.len : 0;
}

void secret_wipe(struct exch *e)
{
	struct exch_secret *x = e->secret;

	if (!x)
		return;
	if (e->in->secrets)
		vaultc_cancel(&e->in->secrets->vault, &x->ask);
	egress_undefer(&x->use);
	runq_drop(&e->in->q, &e->ask_task);
	for (unsigned i = 0; i < INJECT_MAX; i++)
		buf_release(&x->value[i]);
	x->n_values = 0;
	x->is_rendered = false;
	inject_out_release(&x->out);
	take_body_back(e);
	secret_forget_forms(x);
}

void secret_free(struct exch *e)
{
	secret_wipe(e);
	free(e->secret);
	e->secret = NULL;
}
