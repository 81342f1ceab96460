/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Captures credentials that servers issue (http_capture.A1 to A3): holds the response, stores each credential
 * in the vault, logs it, and passes on placeholders. Any error drops the response. No byte of such a response
 * may pass before all its credentials are stored and logged.
 */
#include "egress/exchange/http_capture.h"

#include "base/clock.h"
#include "base/container.h"
#include "crypto/hash.h"
#include "egress/core/control.h"
#include "egress/credential/capture.h"
#include "egress/exchange/http_head.h"
#include "egress/exchange/http_secret_int.h"

#include <errno.h>
#include <stdio.h>

struct exch_capture {
	struct exch *e;
	char name[GRANTS_NAME_MAX + 1]; /* of the issuer: a new vault gives it another handle */
	struct issue spec;
	bool holds;
	struct buf body; /* as received, then as sent */
	struct capture json;
	size_t at; /* of json.v */
	struct vaultc_request store;
	struct task task;
	struct scrub_set issued, carried; /* forms that must not be in the response */
};

/* ---- The list of issuers. ---- */

int capture_read_issuers(struct http_secrets *s, struct err *e)
{
	free(s->issuers);
	s->issuers = calloc(s->grants.n ? s->grants.n : 1, sizeof(*s->issuers));
	s->n_issuers = 0;
	s->n_issued = 0;
	if (!s->issuers)
		return err_sys(e, -ENOMEM, "cannot keep the list of secrets");
	for (size_t i = 0; i < s->grants.n; i++) {
		struct secret_issuer *x = &s->issuers[s->n_issuers];

		s->n_issued += s->grants.v[i].kind == GRANT_ISSUED;
		if (s->grants.v[i].kind != GRANT_ISSUER)
			continue;
		if (issue_parse(s->grants.v[i].issue, &x->spec) < 0)
			return err_set(e, -EBADMSG, "the list of secrets cannot be read");
		x->at = (unsigned)i;
		s->n_issuers++;
	}
	if (s->n_issuers)
		capture_begin();
	return 0;
}

static void drop_issued(struct http_secrets *s, size_t i)
{
	secret_forget_plans(s->in, (long)i);
	s->grants.v[i] = (struct vault_grant){ .kind = GRANT_ISSUED };
	s->n_issued--;
}

/* A server rejects an expired credential by itself; its placeholder is an ordinary word from then on. */
void capture_drop_expired(struct http_secrets *s)
{
	uint64_t now;

	if (!s->n_issued)
		return;
	now = clock_nsec(CLOCK_REALTIME) / NSEC_PER_SEC;
	for (size_t i = 0; i < s->grants.n; i++) {
		const struct vault_grant *g = &s->grants.v[i];

		if (g->kind == GRANT_ISSUED && g->expires && g->expires <= now)
			drop_issued(s, i);
	}
}

static struct vault_grant *find_grant_by_handle(struct http_secrets *s, uint32_t handle)
{
	for (size_t i = 0; handle && i < s->grants.n; i++) {
		if (s->grants.v[i].handle == handle)
			return &s->grants.v[i];
	}
	return NULL;
}

static struct vault_grant *free_grant_slot(struct http_secrets *s)
{
	for (size_t i = 0; i < s->grants.n; i++) {
		if (s->grants.v[i].kind == GRANT_ISSUED && !s->grants.v[i].handle)
			return &s->grants.v[i];
	}
	return grants_add(&s->grants);
}

static bool is_unambiguous(const struct http_secrets *s, struct slice p)
{
	for (size_t i = 0; i < s->grants.n; i++) {
		const struct vault_grant *g = &s->grants.v[i];

		if (g->placeholder_len && (memmem(p.p, p.len, g->placeholder, g->placeholder_len) ||
					   memmem(g->placeholder, g->placeholder_len, p.p, p.len)))
			return false;
	}
	return true;
}

static const struct vault_grant *capture_issuer(const struct exch *e)
{
	const struct http_secrets *s = e->in->secrets;
	const struct vault_grant *g = s ? grants_by_name(&s->grants, e->capture->name) : NULL;

	return g && g->kind == GRANT_ISSUER ? g : NULL;
}

/* Adds a credential that the vault has stored to the grants of later requests. */
static int add_issued_grant(struct exch *e, const struct vaultc_request *a, struct slice placeholder)
{
	struct http_secrets *s = e->in->secrets;
	const struct issue_member *m =
		issue_find(&e->capture->spec, slice_of(e->capture->json.v[e->capture->at].member));
	struct vault_grant *g = find_grant_by_handle(s, a->dropped);
	struct vault_grant fresh = { .kind = GRANT_ISSUED, .handle = a->handle, .expires = a->expires };
	const struct vault_grant *issuer = capture_issuer(e);

	if (g && g->kind == GRANT_ISSUED)
		drop_issued(s, (size_t)(g - s->grants.v));
	g = find_grant_by_handle(s, a->handle);
	if (g) {
		g->expires = a->expires;
		return 0;
	}
	if (!issuer || !m || !is_unambiguous(s, placeholder))
		return -EINVAL;
	fresh.of = issuer->handle;
	grants_issue_bindings(issuer, m->how, &fresh);
	memcpy(fresh.name, a->name.p, a->name.len);
	memcpy(fresh.placeholder, placeholder.p, placeholder.len);
	fresh.placeholder_len = placeholder.len;
	g = free_grant_slot(s);
	if (!g)
		return -ENOSPC;
	*g = fresh;
	s->n_issued++;
	return 0;
}

/* ---- The request. ---- */

static bool is_issuing_endpoint(const struct exch *e, const struct issue *s)
{
	autobuf struct buf other = BUF_INIT;
	struct slice path = e->req.url.path_len ? urlpath_path(&e->req.target, &e->req.url) : slice_of("/");

	if (s->port != e->conn->port || !host_eq(&s->host, &e->conn->host))
		return false;
	if (issue_is_endpoint(s, e->req.method, path))
		return true;
	if (e->req.url.slash && urlpath_slashed(path, &other) == 0 &&
	    issue_is_endpoint(s, e->req.method, (struct slice){ other.data, other.len }))
		return true;
	return memchr(path.p, '%', path.len) && urlpath_folded(path, &other) == 1 &&
	       issue_is_endpoint(s, e->req.method, (struct slice){ other.data, other.len });
}

/* The rule captures credentials, and this sandbox cannot store them: deny. */
static bool deny_without_issuer(struct exch *e)
{
	const char *name = e->verdict.terms.capture;
	const struct vault_grants *g = http_secrets_grants(e->in);
	const struct vault_grant *found = name && g ? grants_by_name(g, name) : NULL;

	if (!name || (found && found->kind == GRANT_ISSUER))
		return false;
	e->verdict.action = POLICY_DENY;
	snprintf(e->verdict.why, sizeof(e->verdict.why),
		 "the rule captures credentials ('%s'), and this sandbox was started without that", name);
	e->verdict.hint = "Restart the sandbox: captured credentials are set up at its start.";
	exch_deny(e);
	return true;
}

bool capture_check(struct exch *e)
{
	struct http_secrets *s = e->in->secrets;
	const struct secret_issuer *x = NULL;

	if (deny_without_issuer(e))
		return false;
	for (size_t i = 0; s && i < s->n_issuers && !x; i++)
		x = is_issuing_endpoint(e, &s->issuers[i].spec) ? &s->issuers[i] : NULL;
	if (!x || e->capture)
		return true;
	if (!e->conn->tls || e->req.websocket) {
		exch_refuse(e, 403, "credentials are issued here, so only https requests are allowed");
		return false;
	}
	e->capture = calloc(1, sizeof(*e->capture));
	if (!e->capture) {
		exch_refuse(e, 503, "out of memory");
		return false;
	}
	e->capture->e = e;
	e->capture->spec = x->spec;
	e->capture->body.wipe = true;
	memcpy(e->capture->name, s->grants.v[x->at].name, sizeof(e->capture->name));
	return true;
}

/* ---- The response. ---- */

bool capture_drops_head(const struct exch *e)
{
	return e->capture && e->resp.status < 200 && e->resp.status != 100;
}

bool capture_holds(const struct exch *e)
{
	return e->capture && e->capture->holds;
}

size_t capture_held(const struct exch *e)
{
	return e->capture ? e->capture->body.len : 0;
}

static int capture_over(struct exch *e, const char *why, int r)
{
	e->over = true;
	e->over_status = 502;
	e->over_why = why;
	return r;
}

bool capture_head(struct exch *e)
{
	struct exch_capture *c = e->capture;

	if (!c)
		return true;
	e->resp.fields.text.wipe = true;
	if (e->resp.status < 200) {
		/* http_capture.A1: an interim head may carry a credential too. */
		http_fields_clear(&e->resp.fields);
		return true;
	}
	if (!e->resp.no_body && secret_is_encoded(&e->resp.fields)) {
		capture_over(
			e,
			"credentials are issued here, and the server encoded its response although it was told not to",
			0);
		return false;
	}
	if (e->resp.has_length && e->resp.length > CAPTURE_BODY_MAX && !e->resp.no_body) {
		capture_over(e, "credentials are issued here, and the response is too long to be searched",
			     0);
		return false;
	}
	c->holds = true;
	return true;
}

int capture_put_down(struct exch *e, const void *data, size_t len)
{
	struct exch_capture *c = e->capture;

	e->active = e->in->eg->now;
	if (c->body.len + len > CAPTURE_BODY_MAX)
		return capture_over(
			e, "credentials are issued here, and the response is too long to be searched",
			-EFBIG);
	buf_add(&c->body, data, len);
	exch_count(e);
	if (buf_error(&c->body))
		return capture_over(e, "out of memory", -ENOMEM);
	if (e->in->held > EXCH_HELD_MAX)
		return capture_over(
			e, "credentials are issued here, and too many bytes are held to search the response",
			-ENOBUFS);
	if (e->back)
		e->back->took(e, len);
	return 0;
}

static void refuse_response(struct exch *e, const char *what, const char *why)
{
	char text[VAULT_WHY_MAX + 160];

	snprintf(text, sizeof(text), "credentials are issued here, and the response is not passed on: %s%s",
		 what, why);
	egress_alert(e->in->eg, "capture", e->conn->host.text, "%s", text);
	if (e->up_conn && e->back)
		e->back->drop(e);
	capture_free(e);
	exch_refuse(e, 502, text);
}

/* Headers that describe the original bytes, which are rewritten. */
static bool describes_the_bytes(struct slice name)
{
	static const char *const list[] = { "etag",	   "content-md5", "digest",	  "content-digest",
					    "repr-digest", "signature",	  "content-range" };

	for (size_t i = 0; i < ARRAY_SIZE(list); i++) {
		if (slice_eq_nocase(name, list[i]))
			return true;
	}
	return false;
}

static int rewrite_fields(struct exch *e)
{
	struct http_fields *f = &e->resp.fields;
	unsigned n = 0;
	int r = 0;

	for (unsigned i = 0; i < f->n; i++) {
		if (!describes_the_bytes(http_fields_name(f, i)))
			f->v[n++] = f->v[i];
	}
	f->n = n;
	if (e->capture->issued.n)
		r = secret_scrub_fields(&e->capture->issued, f);
	return r;
}

static int scrub_held_body(struct exch_capture *c)
{
	long r = c->issued.n ? scrub_whole(&c->issued, c->body.data, c->body.len) : 0;

	if (r >= 0 && c->carried.n)
		r = scrub_whole(&c->carried, c->body.data, c->body.len);
	return r < 0 ? (int)r : 0;
}

/* http_capture.A1: its lines are in the journal. */
static void on_issued_written(struct egress *eg, struct defer *d, int status)
{
	struct exch *e = CONTAINER_OF(d, struct exch, defer);
	struct inspect *in = e->in;
	struct exch_capture *c = e->capture;

	(void)eg;
	runq_enter(&in->q);
	if (status == 0 && http_pipe_put(&e->down, c->body.data, c->body.len) == 0) {
		e->resp.has_length = !e->resp.no_body;
		e->resp.length = c->body.len;
		e->down.eof = e->head_sent = true;
		c->holds = false;
		e->front->head(e);
		e->front->wake(e);
		control_poke(in->eg);
	} else {
		refuse_response(e, "the journal cannot be written", "");
	}
	runq_leave(&in->q);
}

static void send_held_response(struct exch *e)
{
	exch_drop_trailers(e);
	if (rewrite_fields(e) < 0 || scrub_held_body(e->capture) < 0) {
		refuse_response(e, "out of memory", "");
		return;
	}
	e->defer.fn = on_issued_written;
	egress_defer(e->in->eg, &e->defer);
}

static void rewrite_response(struct exch *e)
{
	struct exch_capture *c = e->capture;
	int r;

	scrub_set_ready(&c->issued);
	buf_release(&c->body);
	c->body = (struct buf){ .wipe = true };
	r = capture_write(&c->json, &c->body);
	capture_release(&c->json);
	if (r < 0)
		refuse_response(e, "out of memory", "");
	else
		send_held_response(e);
}

/* One line for each credential; with a digest of the placeholder, by which later uses are found. */
static int log_issued_credential(const struct exch *e, const struct vaultc_request *a,
				 struct slice placeholder)
{
	struct slice path = urlpath_path(&e->req.target, &e->req.url);
	struct journal *j = &e->in->eg->journal;
	autobuf struct buf text = BUF_INIT;
	unsigned char sum[HASH_LEN];
	enum ledger_verdict known;
	struct json *l;
	char hex[17];

	hash_sha256(placeholder.p, placeholder.len, sum);
	hash_hex(sum, 8, hex);
	buf_add(&text, a->name.p, a->name.len);
	known = ledger_note(&e->in->eg->ledger, secret_key(e, LEDGER_ISSUED, buf_cstr(&text)));
	if (known == LEDGER_DENY)
		return -ENOSPC;
	l = journal_begin(j, "issued");
	if (e->conn_id)
		json_u64(l, "c", e->conn_id);
	json_u64(l, "r", e->id);
	journal_str(l, "secret", buf_cstr(&text), GRANTS_NAME_MAX);
	journal_str(l, "host", e->conn->host.text, HOST_MAX);
	json_u64(l, "port", e->conn->port);
	journal_str(l, "method", e->req.method, EXCH_METHOD_MAX);
	buf_clear(&text);
	if (e->req.url.path_len)
		http_path_log(&text, path, HTTP_PATH_LOGGED);
	journal_str(l, "path", buf_cstr(&text), HTTP_PATH_LOGGED);
	json_str(l, "digest", hex);
	egress_end_line(e->in->eg, known == LEDGER_FIRST);
	return 0;
}

static void store_next(struct exch *e);

static void on_stored(struct exch *e, const struct vaultc_request *a, struct slice placeholder)
{
	struct exch_capture *c = e->capture;
	struct slice value = c->json.v[c->at].value;
	int r = secret_add_forms(&c->issued, value, placeholder);

	if (r == 0)
		r = add_issued_grant(e, a, placeholder);
	if (r == 0)
		r = log_issued_credential(e, a, placeholder);
	if (r == 0 && !a->kept)
		egress_alert(e->in->eg, "issued", e->conn->host.text,
			     "the credential issued by %s is kept only while this vault runs: it "
			     "could not be stored, or another sandbox with the same home stores its "
			     "own",
			     e->conn->host.text);
	if (r == 0)
		r = capture_put(&c->json, c->at, placeholder);
	if (r < 0) {
		refuse_response(e, "the credential cannot be stored", "");
		return;
	}
	c->at++;
	store_next(e);
}

static void on_store_reply(struct vaultc_request *a, int status, struct slice placeholder, const char *why)
{
	struct exch *e = ((struct exch_capture *)a->ctx)->e;
	struct inspect *in = e->in;

	runq_enter(&in->q);
	if (!e->conn)
		capture_free(e);
	else if (status < 0)
		refuse_response(e, "the vault does not store the credential: ", why);
	else
		on_stored(e, a, placeholder);
	runq_leave(&in->q);
}

/* The credential of the same issuer that the request carried: the new one replaces it. */
static uint32_t carried_handle(const struct exch *e, const struct vault_grant *issuer)
{
	const struct exch_secret *x = e->secret;

	for (unsigned i = 0; x && i < x->plan.n; i++) {
		const struct vault_grant *g = &e->in->secrets->grants.v[x->plan.grant[i]];

		if (g->kind == GRANT_ISSUED && g->of == issuer->handle)
			return g->handle;
	}
	return 0;
}

static void store_next(struct exch *e)
{
	struct exch_capture *c = e->capture;
	const struct vault_grant *issuer = capture_issuer(e);
	const struct capture_hit *h = &c->json.v[c->at];
	struct vaultc_issued i = { 0 };

	if (c->at == c->json.n) {
		rewrite_response(e);
		return;
	}
	if (!issuer) {
		refuse_response(e, "the vault was replaced, and the new one does not store them", "");
		return;
	}
	i = (struct vaultc_issued){ .issuer = issuer->handle,
				    .carried = carried_handle(e, issuer),
				    .expires_in = h->expires_in,
				    .value = h->value,
				    .member = h->member };
	c->store.done = on_store_reply;
	c->store.ctx = c;
	if (vaultc_capture(&e->in->secrets->vault, &c->store, &i) < 0)
		refuse_response(e, "the vault is not running, or cannot store the credential", "");
}

/* Runs from the run queue, when the back that delivered the end has finished. */
static void run_capture(struct task *t)
{
	struct exch_capture *c = CONTAINER_OF(t, struct exch_capture, task);
	struct exch *e = c->e;

	if (!e->conn)
		return;
	if (c->body.len == 0)
		send_held_response(e);
	else if (capture_read(&c->json, &c->spec, (struct slice){ c->body.data, c->body.len }) < 0)
		refuse_response(e, c->json.why, "");
	else
		store_next(e);
}

/* The forms that the response is searched for are kept until it is sent. */
void capture_end_down(struct exch *e)
{
	struct exch_capture *c = e->capture;

	if (secret_scrubs(e)) {
		c->carried = e->secret->set;
		e->secret->set = (struct scrub_set){ 0 };
		e->secret->scrubs = false;
	}
	c->task.fn = run_capture;
	runq_add(&e->in->q, &c->task);
}

static void release_scrub_set(struct scrub_set *s)
{
	if (s->text.data)
		scrub_set_release(s);
	*s = (struct scrub_set){ 0 };
}

void capture_reset(struct exch *e)
{
	struct exch_capture *c = e->capture;

	e->head_came = e->whole = false;
	if (!c)
		return;
	if (e->in->secrets)
		vaultc_cancel(&e->in->secrets->vault, &c->store);
	runq_drop(&e->in->q, &c->task);
	capture_release(&c->json);
	buf_release(&c->body);
	c->body = (struct buf){ .wipe = true };
	release_scrub_set(&c->issued);
	release_scrub_set(&c->carried);
	c->holds = false;
	c->at = 0;
	exch_count(e);
}

void capture_free(struct exch *e)
{
	capture_reset(e);
	free(e->capture);
	e->capture = NULL;
}
