/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Secrets of one request: found and planned after judging, fetched from the vault once a verified connection
 * exists, rendered, logged, sent and zeroed (http_secret.S1 to S5). Never logs or compares secret bytes.
 */
#include "egress/exchange/http_secret.h"

#include "egress/exchange/http_ask.h"

#include "base/container.h"
#include "base/fd.h"
#include "crypto/hash.h"
#include "egress/core/control.h"
#include "egress/credential/foreign_cred.h"
#include "egress/exchange/http_capture.h"
#include "egress/exchange/http_head.h"
#include "egress/exchange/http_secret_int.h"
#include "egress/exchange/http_watch.h"
#include "egress/exchange/upstream.h"

#include <stdio.h>

/* ---- From the verdict to the journal. ---- */

static struct inject_dest inject_dest_of(const struct exch *e)
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

/* A rule that names a secret does not let requests through without it. */
static bool deny_without_secret(struct exch *e)
{
	const char *name = e->verdict.terms.secret;
	const struct vault_grants *g = http_secrets_grants(e->in);

	if (!name || (g && grants_by_name(g, name)))
		return false;
	e->verdict.action = POLICY_DENY;
	snprintf(e->verdict.why, sizeof(e->verdict.why),
		 "the rule requires the secret '%s', which this sandbox was not given", name);
	e->verdict.hint =
		"Put it into the vault ('coffer secret set', 'coffer secret bind') and start again.";
	exch_deny(e);
	return true;
}

static bool make_plan(struct exch *e, const struct inject_plan *p)
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

/* Describes a placeholder that was found, for people. */
static void describe_found(const struct exch *e, const struct watch_hit *hit, const char *where,
			   char why[INJECT_WHY_MAX])
{
	struct inject_refusal no = { 0 };
	struct inject_dest d;

	if (!hit->grant) {
		watch_say_stale(e, where, why);
		return;
	}
	d = inject_dest_of(e);
	inject_refuse(hit->grant, &d, &e->req, where, &no);
	memcpy(why, no.why, sizeof(no.why));
}

static void refuse_placeholder(struct exch *e, const struct watch_hit *hit, const char *where)
{
	char why[INJECT_WHY_MAX];

	describe_found(e, hit, where, why);
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
	refuse_placeholder(e, &hit, "its head");
	return true;
}

void secret_cut(struct exch *e)
{
	struct inject_refusal no = { 0 };
	struct watch_hit hit;

	if (e->failed || !watch_found(e, &hit))
		return;
	describe_found(e, &hit, "the body", no.why);
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

static bool find_and_plan(struct exch *e, struct slice body)
{
	const struct inject_dest d = inject_dest_of(e);
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
		refuse_placeholder(e, &hit, hit.grant ? "the head, encoded" : "its head");
		return false;
	}
	if (watch_found(e, &hit)) {
		refuse_placeholder(e, &hit, "the body");
		return false;
	}
	return make_plan(e, &p);
}

/* `credentials: only`: a body that was not searched is not sent. */
static bool body_is_judged(const struct exch *e)
{
	return e->verdict.terms.credentials_only && foreign_cred_wants_body(&e->req);
}

/* Other bodies are sent as they are when they are too long to be held. */
static bool must_hold_body(const struct exch *e)
{
	struct inject_dest d;

	if (body_is_judged(e))
		return true;
	if (e->in->held > EXCH_HELD_MAX)
		return false;
	if (watch_wants_body(e) || !e->in->secrets)
		return watch_wants_body(e);
	d = inject_dest_of(e);
	return inject_wants_body(&e->in->secrets->grants, &d, &e->req) &&
	       (!e->req.has_length || e->req.length <= EXCH_HOLD_MAX);
}

/* Everything that was waited for has arrived. True: continue. */
static bool check_whole_body(struct exch *e, struct slice body)
{
	struct foreign_cred t = { .ours = http_secrets_grants(e->in),
				  .host = e->conn->host.text,
				  .port = e->conn->port };
	struct watch_hit hit;

	if (body_is_judged(e) && foreign_cred_in_body(&t, &e->req, body)) {
		/* A placeholder of another sandbox looks like a real credential. */
		if (watch_is_stale(e))
			refuse_placeholder(e, &(struct watch_hit){ .is_stale = true }, "the body");
		else
			exch_deny_foreign(e, t.what);
		return false;
	}
	if (e->in->secrets)
		return find_and_plan(e, body);
	if (!watch_found(e, &hit))
		return true;
	refuse_placeholder(e, &hit, "the body");
	return false;
}

bool secret_check(struct exch *e)
{
	const char *why = body_is_judged(e) ? foreign_cred_why_not(&e->req) : NULL;

	if (deny_without_secret(e) || !capture_check(e))
		return false;
	if (why) {
		exch_refuse(e, e->req.has_length && e->req.length > EXCH_HOLD_MAX ? 413 : 403, why);
		return false;
	}
	if (e->in->secrets)
		capture_drop_expired(e->in->secrets);
	if (!must_hold_body(e))
		return check_whole_body(e, SLICE_NONE);
	if (e->up.eof)
		return check_whole_body(e, http_pipe_peek(&e->up));
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
	if (!whole && body_is_judged(e))
		exch_refuse(e, is_long ? 413 : 503,
			    is_long ? FOREIGN_CRED_TOO_LONG
				    : "too many requests wait to be judged by their bodies");
	else if (check_whole_body(e, whole ? http_pipe_peek(&e->up) : SLICE_NONE))
		exch_send(e);
}

bool secret_is_planned(const struct exch *e)
{
	return e->secret != NULL;
}

static const struct vault_grant *planned_grant(const struct exch *e, unsigned i)
{
	return &e->in->secrets->grants.v[e->secret->plan.grant[i]];
}

/*
 * The plan does not say in which way each secret is sent: every way allowed for the first path must be
 * allowed for this one.
 */
static bool grant_covers_path(const struct vault_grant *g, const struct exch *e, struct slice first,
			      struct slice path)
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
		if (!grant_covers_path(planned_grant(e, i), e, first, path))
			return false;
	}
	return true;
}

bool secret_has(const struct exch *e, const char *name)
{
	for (unsigned i = 0; e->secret && i < e->secret->plan.n; i++) {
		if (strcmp(planned_grant(e, i)->name, name) == 0)
			return true;
	}
	return false;
}

/* Includes the handle: a rotated value has another handle, and is another credential. */
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
		buf_addf(out, "%s%s", i ? "," : "", planned_grant(e, i)->name);
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

/*
 * http_secret.S2: one line for each secret. The path has no query, and placeholders unrendered. False: the
 * ledger denies one of the lines.
 */
static bool log_secret_use(struct exch *e)
{
	struct egress *eg = e->in->eg;
	struct journal *j = &eg->journal;

	for (unsigned i = 0; e->secret && i < e->secret->plan.n; i++) {
		const struct vault_grant *g = planned_grant(e, i);
		struct slice path = urlpath_path(&e->req.target, &e->req.url);
		enum ledger_verdict known = ledger_note(&eg->ledger, secret_key(e, LEDGER_SECRET, g->name));
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

/* ---- From a connection to the bytes that are sent over it. ---- */

static void fail_render(struct exch *e, unsigned status, const char *why)
{
	char text[VAULT_WHY_MAX + 96];

	snprintf(text, sizeof(text), "%s", why);
	if (e->up_conn && e->back)
		e->back->drop(e);
	secret_wipe(e);
	if (e->conn)
		exch_refuse(e, status, text);
}

static int make_scrub_set(struct exch *e)
{
	struct exch_secret *x = e->secret;
	int r = 0;

	for (unsigned i = 0; i < x->plan.n && r == 0; i++) {
		const struct vault_grant *g = planned_grant(e, i);

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

static void put_rendered_body(struct exch *e)
{
	struct exch_secret *x = e->secret;

	if (!x->plan.in_body)
		return;
	x->original_body = e->up.b;
	x->has_body = true;
	x->length = x->out.body.len;
	e->up.b = x->out.body;
	x->out.body = (struct buf){ .wipe = true };
	e->up.at = 0;
	e->counted = true;
	exch_count(e);
}

static void restore_original_body(struct exch *e)
{
	struct exch_secret *x = e->secret;

	if (!x->has_body)
		return;
	buf_release(&e->up.b);
	/* Sent bytes cannot be sent again, and the client's window was opened for them once. */
	if (e->up_sent)
		buf_release(&x->original_body);
	else
		e->up.b = x->original_body;
	x->original_body = BUF_INIT;
	e->up.at = 0;
	x->has_body = false;
	exch_count(e);
}

static void begin_send(struct exch *e)
{
	struct exch_secret *x = e->secret;

	put_rendered_body(e);
	x->is_rendered = true;
	/*
	 * The back says when it has begun (exch_ask_sent): one that finds no room for a stream leaves an
	 * approval for the next try.
	 */
	e->back->begin(e);
	/* http_secret.S3: both backs have copied what they need. */
	inject_out_release(&x->out);
	x->is_rendered = false;
	for (unsigned i = 0; i < INJECT_MAX; i++)
		buf_release(&x->value[i]);
}

#define IS_OLD "the secret was changed before it was sent; send the request again"

static void on_use_written(struct egress *eg, struct defer *d, int status)
{
	struct exch_secret *x = CONTAINER_OF(d, struct exch_secret, use);
	struct exch *e = x->e;
	struct inspect *in = e->in;

	runq_enter(&in->q);
	if (status < 0)
		fail_render(e, 503, "the journal cannot be written, so the secret is not sent");
	else if (x->is_old)
		fail_render(e, 503, IS_OLD);
	else
		begin_send(e);
	if (status == 0)
		control_poke(eg);
	runq_leave(&in->q);
}

static void render_request(struct exch *e)
{
	struct exch_secret *x = e->secret;
	const struct inject_dest d = inject_dest_of(e);
	struct slice value[INJECT_MAX];
	int r;

	for (unsigned i = 0; i < x->n_values; i++)
		value[i] = (struct slice){ x->value[i].data, x->value[i].len };
	r = make_scrub_set(e);
	if (r == 0)
		r = inject_render(&e->in->secrets->grants, &d, &e->req, http_pipe_peek(&e->up), &x->plan,
				  value, &x->out);
	if (r < 0) {
		fail_render(e, r == -EINVAL ? 403 : 503,
			    r == -EINVAL
				    ? "the secret has bytes that are not allowed in this place of a request"
				    : "the request with its secret is too large");
		return;
	}
	if (x->plan.n == 0) {
		begin_send(e);
		return;
	}
	if (!log_secret_use(e)) {
		fail_render(e, 503, egress_ledger_why(e->in->eg));
		return;
	}
	x->use.fn = on_use_written;
	egress_defer(e->in->eg, &x->use);
}

static void fetch_next(struct exch *e);

static void on_vault_reply(struct vaultc_request *a, int status, struct slice value, const char *why)
{
	struct exch *e = a->ctx;
	struct exch_secret *x = e->secret;
	struct inspect *in = e->in;
	char text[VAULT_WHY_MAX + 64];

	runq_enter(&in->q);
	if (status < 0) {
		snprintf(text, sizeof(text), "the vault does not render the secret: %s", why);
		egress_alert(in->eg, "secret", e->conn ? e->conn->host.text : NULL, "%s", text);
		fail_render(e, status == -EPIPE || status == -EBUSY ? 503 : 403, text);
	} else {
		struct buf *b = &x->value[x->n_values++];

		b->wipe = true;
		buf_add(b, value.p, value.len);
		if (buf_error(b))
			fail_render(e, 503, "out of memory");
		else
			fetch_next(e);
	}
	runq_leave(&in->q);
}

/* http_secret.S1, checked here whatever upstream.c has done. */
static bool upstream_is_verified(const struct exch *e)
{
	const struct upstream *u = e->up_conn;

	return e->conn->tls && u->key.tls && u->verified && u->key.port == e->conn->port &&
	       host_eq(&u->key.host, &e->conn->host);
}

static void fetch_next(struct exch *e)
{
	struct exch_secret *x = e->secret;
	int r;

	if (x->n_values == x->plan.n && !x->is_old) {
		render_request(e);
		return;
	}
	x->fetch.done = on_vault_reply;
	x->fetch.ctx = e;
	r = !x->is_old
		    ? vaultc_render(&e->in->secrets->vault, &x->fetch, planned_grant(e, x->n_values)->handle,
				    e->conn->host.text, e->conn->port,
				    e->req.url.path_len ? urlpath_path(&e->req.target, &e->req.url)
							: slice_of("/"))
		    : -ESTALE;
	if (r < 0)
		fail_render(e, 503,
			    r == -EPIPE	  ? "the vault is not running, so the secret cannot be rendered"
			    : r == -EBUSY ? "too many requests wait for the vault"
					  : "the secret cannot be requested from the vault");
}

/* Runs from the run queue: a back that hands a request over must not be re-entered. */
static void run_fetch(struct task *t)
{
	struct exch *e = CONTAINER_OF(t, struct exch, fetch_task);

	if (e->state != EXCH_RENDER || !e->conn || !e->up_conn)
		return;
	if (!upstream_is_verified(e)) {
		fail_render(e, 403, "the server was not verified, so no secret is sent to it");
		return;
	}
	fetch_next(e);
}

void secret_fetch(struct exch *e)
{
	secret_wipe(e);
	e->resp.fields.text.wipe = true;
	e->state = EXCH_RENDER;
	e->active = e->in->eg->now;
	e->fetch_task.fn = run_fetch;
	runq_add(&e->in->q, &e->fetch_task);
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
	return e->secret ? e->secret->original_body.len : 0;
}

void secret_wipe(struct exch *e)
{
	struct exch_secret *x = e->secret;

	if (!x)
		return;
	if (e->in->secrets)
		vaultc_cancel(&e->in->secrets->vault, &x->fetch);
	egress_undefer(&x->use);
	runq_drop(&e->in->q, &e->fetch_task);
	for (unsigned i = 0; i < INJECT_MAX; i++)
		buf_release(&x->value[i]);
	x->n_values = 0;
	x->is_rendered = false;
	inject_out_release(&x->out);
	restore_original_body(e);
	secret_forget_forms(x);
}

void secret_free(struct exch *e)
{
	secret_wipe(e);
	free(e->secret);
	e->secret = NULL;
}
