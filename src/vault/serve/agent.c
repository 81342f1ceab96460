/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Answers messages of a sandbox's ssh-agent: lists keys, binds sessions, and signs logins that a binding
 * allows (agent.h). Every message comes from inside the sandbox and is hostile. Keeps no secret: the store
 * does.
 */

#include "vault/serve/agent.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "crypto/hash.h"
#include "vault/ssh/sshwire.h"

#include <errno.h>
#include <stdio.h>

/* draft-ietf-sshm-ssh-agent */
enum {
	MSG_FAILURE = 5,
	MSG_SUCCESS = 6,
	MSG_REQUEST_IDENTITIES = 11,
	MSG_IDENTITIES_ANSWER = 12,
	MSG_SIGN_REQUEST = 13,
	MSG_SIGN_RESPONSE = 14,
	MSG_EXTENSION = 27,
};
#define USERAUTH_REQUEST 50
#define SESSION_MIN 16
#define DIGEST_LEN 16 /* characters of a session's digest in the log */

/* One message and its result. */
struct turn {
	struct agent *a;
	struct agent_conn *conn;
	const struct store *s;
	uint64_t now, mono;
	struct wire_out out; /* the response */
	bool allowed;	     /* by a person (agent.A7) */
	bool asks;	     /* a binding that covers it requires approval */
	enum vault_said said;
	const char *why; /* VAULT_SAID_REFUSED */
	char what[192];	 /* VAULT_SAID_ASKS */
	char name[VAULT_NAME_MAX + 1];
	char host[HOST_MAX + 1];
	uint16_t port;
	char user[AGENT_USER_MAX + 1];
	char print[SSHKEY_PRINT_LEN + 1];
	char session[DIGEST_LEN + 1];
};

void agent_release(struct agent *a)
{
	grants_release(&a->ask);
	secmem_release(&a->pending);
	a->fd = fd_close(a->fd);
}

/* Takes one token of a token bucket; false if it is empty. */
static bool bucket_take(struct agent_bucket *b, double rate, double burst, uint64_t mono)
{
	if (b->at == 0)
		b->tokens = burst;
	else if (mono > b->at)
		b->tokens += (double)(mono - b->at) * rate / (double)NSEC_PER_SEC;
	b->tokens = b->tokens > burst ? burst : b->tokens;
	b->at = mono ? mono : 1;
	if (b->tokens < 1)
		return false;
	b->tokens -= 1;
	return true;
}

static void respond_byte(struct turn *t, uint8_t type)
{
	t->out.len = 0;
	t->out.bad = false;
	ssh_put_byte(&t->out, type);
}

/* Fails the message; the reason goes to the log. */
static void refuse_message(struct turn *t, const char *why)
{
	t->said = VAULT_SAID_REFUSED;
	t->why = why;
	respond_byte(t, MSG_FAILURE);
}

/* --- which keys, and where ---------------------------------------------------------------------------------------- */

/* Does the sandbox's grant cover this binding of the secret? A grant without bindings covers all. */
static bool grant_covers(const struct vault_grant *g, const struct binding *own)
{
	struct binding b;

	for (size_t i = 0; i < g->n_bindings; i++) {
		if (binding_meet(own, &g->bindings[i], &b))
			return true;
	}
	return g->n_bindings == 0;
}

/* agent.A7: either the secret's own binding or the sandbox's narrower one may require approval. */
static bool needs_approval(const struct vault_grant *g, const struct binding *own)
{
	struct binding b;

	for (size_t i = 0; i < g->n_bindings; i++) {
		if (binding_meet(own, &g->bindings[i], &b) && binding_asks(&b))
			return true;
	}
	return binding_asks(own);
}

/* The next of the secret's bindings, from *at on, by which this sandbox may sign. */
static const struct binding *next_ssh_binding(const struct vault_grant *g, const struct store_entry *n,
					      size_t *at)
{
	for (; *at < n->n_bindings; ++*at) {
		const struct binding *b = &n->bindings[*at];

		if (b->as == BINDING_AS_SSH && grant_covers(g, b)) {
			++*at;
			return b;
		}
	}
	return NULL;
}

/* Is it the host key that was stored for the binding's host and port? */
static bool is_known_host_key(const struct store_entry *n, const struct binding *b, struct slice key)
{
	for (size_t i = 0; i < n->known.n; i++) {
		const struct sshhost *h = &n->known.v[i];

		if (h->port == b->port && str_eq(h->host, b->host) &&
		    slice_same(key, (struct slice){ (const char *)h->key, h->len }))
			return true;
	}
	return false;
}

/* The binding by which it signs for the server with that key; without a key, for any server. */
static const struct binding *binding_for_server(const struct vault_grant *g, const struct store_entry *n,
						struct slice key)
{
	const struct binding *b;
	size_t at = 0;

	while ((b = next_ssh_binding(g, n, &at))) {
		if (!key.len || is_known_host_key(n, b, key))
			return b;
	}
	return NULL;
}

/* The secret of a grant, if it exists, has not expired and may sign somewhere; otherwise NULL. */
static const struct store_entry *usable_key(const struct store *s, const struct vault_grant *g, uint64_t now)
{
	const struct store_entry *n = store_find(s, g->name);

	return n && !(n->expires && now >= n->expires) && binding_for_server(g, n, SLICE_NONE) ? n : NULL;
}

size_t agent_count(const struct agent *a, const struct store *s, uint64_t now)
{
	size_t count = 0;

	for (size_t i = 0; i < a->ask.n; i++)
		count += usable_key(s, &a->ask.v[i], now) != NULL;
	return count;
}

/* The host key of the server that the connection is bound to; empty if it is not bound. */
static struct slice bound_server_key(const struct agent_conn *c)
{
	return c->bound == AGENT_BOUND ? (struct slice){ (const char *)c->host, c->host_len } : SLICE_NONE;
}

/* --- asking for keys ---------------------------------------------------------------------------------------------- */

/* Once the session is bound to a server, only keys for that server are listed. */
static void put_identities(struct turn *t, struct wire_out *w, uint32_t *n)
{
	for (size_t i = 0; i < t->a->ask.n; i++) {
		const struct vault_grant *g = &t->a->ask.v[i];
		const struct store_entry *entry = usable_key(t->s, g, t->now);
		CLEANUP(sshkey_release) struct sshkey k = SSHKEY_INIT;

		if (!entry || !binding_for_server(g, entry, bound_server_key(t->conn)) ||
		    sshkey_parse(entry->value.p, entry->value.len, &k, NULL) < 0)
			continue;
		ssh_put(w, (struct slice){ (const char *)k.blob, k.blob_len });
		ssh_put_text(w, entry->name);
		++*n;
	}
}

/* SSH_AGENTC_REQUEST_IDENTITIES: lists the public keys that may be used. */
static void on_identities(struct turn *t, struct wire_in *in)
{
	struct wire_out head;
	uint32_t n = 0;
	size_t at;

	if (!ssh_is_done(in)) {
		respond_byte(t, MSG_FAILURE);
		return;
	}
	respond_byte(t, MSG_IDENTITIES_ANSWER);
	at = t->out.len;
	ssh_put_u32(&t->out, 0);
	if (t->conn->bound != AGENT_SPOILT)
		put_identities(t, &t->out, &n);
	head = (struct wire_out){ .p = t->out.p, .cap = t->out.cap, .len = at };
	ssh_put_u32(&head, n);
	if (t->out.bad)
		respond_byte(t, MSG_FAILURE);
}

/* --- binding a session -------------------------------------------------------------------------------------------- */

/* Keeps a digest of the session id for the log. */
static void record_session(struct turn *t, struct slice id)
{
	unsigned char sum[HASH_LEN];

	hash_sha256(id.p, id.len, sum);
	hash_hex(sum, DIGEST_LEN / 2, t->session);
}

/* agent.A3: the connection signs nothing any more. */
static void spoil_connection(struct turn *t, const char *why)
{
	t->conn->bound = AGENT_SPOILT;
	t->conn->why = why;
	refuse_message(t, why);
}

/* agent.A4: does any key of this sandbox sign for the server with that host key? */
static bool is_known_server(struct turn *t, struct slice key)
{
	for (size_t i = 0; i < t->a->ask.n && key.len; i++) {
		const struct vault_grant *g = &t->a->ask.v[i];
		const struct store_entry *n = usable_key(t->s, g, t->now);
		const struct binding *b = n ? binding_for_server(g, n, key) : NULL;

		if (b) {
			memcpy(t->host, b->host, sizeof(t->host));
			t->port = b->port;
			return true;
		}
	}
	return false;
}

static void bind_session(struct turn *t, struct slice key, struct slice id)
{
	struct agent_conn *c = t->conn;

	memcpy(c->host, key.p, key.len);
	c->host_len = key.len;
	memcpy(c->session, id.p, id.len);
	c->session_len = id.len;
	c->bound = AGENT_BOUND;
	respond_byte(t, MSG_SUCCESS);
}

static bool is_same_session(const struct agent_conn *c, struct slice key, struct slice id)
{
	return slice_same(key, bound_server_key(c)) &&
	       slice_same(id, (struct slice){ (const char *)c->session, c->session_len });
}

/* session-bind@openssh.com: binds the connection to one session with one server (agent.A2). */
static void on_session(struct turn *t, struct wire_in *in)
{
	struct slice key = ssh_get(in), id = ssh_get(in), sig = ssh_get(in);
	uint8_t forwarded = ssh_get_byte(in);

	if (!ssh_is_done(in) || id.len < SESSION_MIN || id.len > AGENT_SESSION_MAX) {
		spoil_connection(t, "the message that binds a session is malformed");
		return;
	}
	record_session(t, id);
	if (t->conn->bound == AGENT_SPOILT)
		refuse_message(t, t->conn->why);
	else if (forwarded)
		spoil_connection(t, "the agent was forwarded to a server; keys are not used from there");
	else if (t->conn->bound == AGENT_BOUND && !is_same_session(t->conn, key, id))
		spoil_connection(t, "one connection was bound to two sessions");
	else if (!is_known_server(t, key))
		spoil_connection(t, "the server's host key is not known for any host that a key is bound to");
	else if (!sshsign_check(key, sig, id))
		spoil_connection(t, "the server's signature over the session is wrong");
	else
		bind_session(t, key, id);
}

static void on_extension(struct turn *t, struct wire_in *in)
{
	if (slice_eq(ssh_get(in), "session-bind@openssh.com"))
		on_session(t, in);
	else
		respond_byte(t, MSG_FAILURE);
}

/* --- signing ------------------------------------------------------------------------------------------------------ */

/* The signed data of a login (RFC 4252, section 7), which the server will verify. */
struct login {
	struct slice session, user, algorithm, key, server;
	bool names_server; /* publickey-hostbound-v00@openssh.com */
};

/* Parses the data of a login; false unless it is exactly that. */
static bool parse_login(struct slice data, struct login *ret)
{
	struct wire_in in = { .p = (const uint8_t *)data.p, .left = data.len };
	struct login l = { .session = ssh_get(&in) };
	bool ok = ssh_get_byte(&in) == USERAUTH_REQUEST;
	struct slice method;

	l.user = ssh_get(&in);
	ok = slice_eq(ssh_get(&in), "ssh-connection") && ok;
	method = ssh_get(&in);
	l.names_server = slice_eq(method, "publickey-hostbound-v00@openssh.com");
	ok = ok && (l.names_server || slice_eq(method, "publickey")) && ssh_get_byte(&in) == 1;
	l.algorithm = ssh_get(&in);
	l.key = ssh_get(&in);
	if (l.names_server)
		l.server = ssh_get(&in);
	*ret = l;
	return ok && ssh_is_done(&in);
}

/* OpenSSH's PROTOCOL.sshsig, as git uses it to sign commits and tags. */
static bool is_git_signature(struct slice data)
{
	struct wire_in in = { .p = (const uint8_t *)data.p, .left = data.len };
	struct slice magic = wire_get_bytes(&in, 6), space = ssh_get(&in), reserved = ssh_get(&in),
		     hash = ssh_get(&in), sum = ssh_get(&in);

	return ssh_is_done(&in) && slice_eq(magic, "SSHSIG") && slice_eq(space, "git") && reserved.len == 0 &&
	       ((slice_eq(hash, "sha512") && sum.len == 64) || (slice_eq(hash, "sha256") && sum.len == 32));
}

/* A binding without a user allows every user. */
static bool allows_user(const struct binding *b, struct slice user)
{
	return !*b->user || slice_eq(user, b->user);
}

/* Only printable characters go to the log. */
static void record_user(struct turn *t, struct slice user)
{
	size_t n = user.len > AGENT_USER_MAX ? AGENT_USER_MAX : user.len;

	for (size_t i = 0; i < n; i++)
		t->user[i] = (char)(user.p[i] > 0x20 && user.p[i] < 0x7f ? user.p[i] : '?');
	t->user[n] = '\0';
}

static void record_host(struct turn *t, const struct binding *b)
{
	memcpy(t->host, b->host, sizeof(t->host));
	t->port = b->port;
}

/* In a bound session: a binding must name this server, and allow the user. */
static const char *judge_bound(struct turn *t, const struct vault_grant *g, const struct store_entry *n,
			       const struct login *l)
{
	const struct agent_conn *c = t->conn;
	const struct binding *b;
	bool is_host = false, is_user = false;
	size_t at = 0;

	if (!slice_same(l->session, (struct slice){ (const char *)c->session, c->session_len }))
		return "the login is for another session than the bound one";
	if (l->names_server && !slice_same(l->server, bound_server_key(c)))
		return "the login is for another server than the bound one";
	while ((b = next_ssh_binding(g, n, &at))) {
		if (!is_known_host_key(n, b, bound_server_key(c)))
			continue;
		if (!is_user)
			record_host(t, b);
		is_host = true;
		if (!allows_user(b, l->user))
			continue;
		is_user = true;
		t->asks = t->asks || needs_approval(g, b);
	}
	if (is_user) {
		snprintf(t->what, sizeof(t->what), "log in as %s", t->user);
		return NULL;
	}
	return is_host ? "the key is bound to another user" : "the key is not bound to this server";
}

/* In an unbound session the server is unknown: a binding must allow that explicitly. */
static const char *judge_unbound(struct turn *t, const struct vault_grant *g, const struct store_entry *n,
				 const struct login *l)
{
	const struct binding *b;
	bool is_fine = false;
	size_t at = 0;

	while ((b = next_ssh_binding(g, n, &at))) {
		if (!binding_allows_unbound(b) || !allows_user(b, l->user))
			continue;
		is_fine = true;
		t->asks = t->asks || needs_approval(g, b);
	}
	if (is_fine) {
		snprintf(t->what, sizeof(t->what), "log in as %s at a server that the program does not name",
			 t->user);
		return NULL;
	}
	return "the program did not say which server it is for (session-bind@openssh.com, OpenSSH 8.9 and later)";
}

static bool allows_sshsig(struct turn *t, const struct vault_grant *g, const struct store_entry *n)
{
	const struct binding *b;
	bool is_fine = false;
	size_t at = 0;

	while ((b = next_ssh_binding(g, n, &at))) {
		if (!binding_allows_sshsig(b))
			continue;
		is_fine = true;
		t->asks = t->asks || needs_approval(g, b);
	}
	return is_fine;
}

/* The approval shows only the digest of what is signed, and applies to that digest. */
static void record_signature(struct turn *t, struct slice data)
{
	unsigned char sum[HASH_LEN];
	char hex[HASH_HEX_LEN + 1];

	hash_sha256(data.p, data.len, sum);
	hash_hex(sum, HASH_LEN, hex);
	snprintf(t->what, sizeof(t->what), "sign a commit or tag of git's, sha256 %s", hex);
}

/* NULL: it may be signed; otherwise the reason why not. */
static const char *judge_signature(struct turn *t, const struct vault_grant *g, const struct store_entry *n,
				   const struct sshkey *k, struct slice data, const char *algorithm)
{
	struct login l;

	if (!algorithm)
		return "RSA with SHA-1 is not supported";
	if (t->conn->bound == AGENT_SPOILT)
		return t->conn->why;
	if (slice_starts(data, "SSHSIG")) {
		if (!allows_sshsig(t, g, n))
			return "it is a signature of a file, not a login, and the binding does not allow that";
		record_signature(t, data);
		return is_git_signature(data) ? NULL : "it is not a signature of a git object";
	}
	if (!parse_login(data, &l))
		return "the data to sign is not a login";
	record_user(t, l.user);
	record_session(t, l.session);
	if (!slice_same(l.key, (struct slice){ (const char *)k->blob, k->blob_len }) ||
	    !slice_eq(l.algorithm, algorithm))
		return "the login names another key or algorithm";
	return t->conn->bound == AGENT_BOUND ? judge_bound(t, g, n, &l) : judge_unbound(t, g, n, &l);
}

/* Signs if the bindings allow it; otherwise refuses, or reports that approval is needed. */
static void sign_or_refuse(struct turn *t, const struct vault_grant *g, const struct store_entry *n,
			   const struct sshkey *k, struct slice data, uint32_t flags)
{
	uint8_t sig[SSHSIGN_MAX];
	size_t len = 0;
	const char *why;

	memcpy(t->name, n->name, sizeof(t->name));
	why = judge_signature(t, g, n, k, data, sshsign_algorithm(k->kind, flags));
	if (!why && t->asks && !t->allowed) {
		t->said = VAULT_SAID_ASKS;
		t->why = t->what;
		respond_byte(t, MSG_FAILURE);
		return;
	}
	if (!why && sshsign(k, flags, data, sig, &len) < 0)
		why = "the key could not sign";
	if (why) {
		refuse_message(t, why);
		return;
	}
	t->said = VAULT_SAID_SIGNED;
	respond_byte(t, MSG_SIGN_RESPONSE);
	ssh_put(&t->out, (struct slice){ (const char *)sig, len });
}

/* SSH_AGENTC_SIGN_REQUEST: finds the key and signs with it. */
static void on_sign(struct turn *t, struct wire_in *in)
{
	struct slice key = ssh_get(in), data = ssh_get(in);
	uint32_t flags = ssh_get_u32(in);

	if (!ssh_is_done(in)) {
		refuse_message(t, "the message is not one of the ssh-agent protocol");
		return;
	}
	sshkey_print(key, t->print);
	/* A message that a person has allowed was counted when it came the first time. */
	if (!t->allowed && !bucket_take(&t->a->signatures, AGENT_SIGN_RATE, AGENT_SIGN_BURST, t->mono)) {
		refuse_message(t, "too many signatures were requested");
		return;
	}
	for (size_t i = 0; i < t->a->ask.n; i++) {
		const struct vault_grant *g = &t->a->ask.v[i];
		const struct store_entry *n = usable_key(t->s, g, t->now);
		CLEANUP(sshkey_release) struct sshkey k = SSHKEY_INIT;

		if (!n || sshkey_parse(n->value.p, n->value.len, &k, NULL) < 0 ||
		    !slice_same(key, (struct slice){ (const char *)k.blob, k.blob_len }))
			continue;
		sign_or_refuse(t, g, n, &k, data, flags);
		return;
	}
	refuse_message(t, "this sandbox was given no such key");
}

/* --- messages ----------------------------------------------------------------------------------------------------- */

static struct agent_conn *find_conn(struct agent *a, uint32_t id)
{
	for (size_t i = 0; id && i < AGENT_CONNS; i++) {
		if (a->conns[i].id == id)
			return &a->conns[i];
	}
	return NULL;
}

/* agent.A6: a new connection takes a free slot, or that of the connection that was silent longest, which then
 * counts as new. */
static struct agent_conn *conn_get(struct agent *a, uint32_t id)
{
	struct agent_conn *best = &a->conns[0];

	for (size_t i = 0; i < AGENT_CONNS; i++) {
		struct agent_conn *c = &a->conns[i];

		if (c->id == id) {
			c->used = ++a->turns;
			return c;
		}
		if (!c->id ? best->id != 0 : best->id && c->used < best->used)
			best = c;
	}
	*best = (struct agent_conn){ .id = id, .used = ++a->turns };
	return best;
}

/* Dispatches one message; everything else than these three types fails (agent.A5). */
static void handle_agent_request(struct turn *t, struct slice ask)
{
	struct wire_in in = { .p = (const uint8_t *)ask.p, .left = ask.len };

	if (!bucket_take(&t->a->messages, AGENT_RATE, AGENT_BURST, t->mono)) {
		refuse_message(t, "too many requests");
		return;
	}
	switch (ssh_get_byte(&in)) {
	case MSG_REQUEST_IDENTITIES:
		on_identities(t, &in);
		break;
	case MSG_SIGN_REQUEST:
		on_sign(t, &in);
		break;
	case MSG_EXTENSION:
		on_extension(t, &in);
		break;
	default:
		respond_byte(t, MSG_FAILURE);
	}
}

/* Packs the response and what the log must record about it. */
static int pack_result(const struct turn *t, uint32_t id, uint32_t conn, struct secmem *ret)
{
	struct vault_msg m = { .type = VAULT_SAID, .id = id, .num = { conn, t->said, t->port } };
	long n;

	m.text[0] = (struct slice){ (const char *)t->out.p, t->out.len };
	m.text[1] = slice_of(t->name);
	m.text[2] = slice_of(t->host);
	m.text[3] = slice_of(t->user);
	m.text[4] = slice_of(t->print);
	m.text[5] = slice_of(t->session);
	m.text[6] = slice_of(t->why ? t->why : "");
	if (secmem_new(ret, vault_msg_size(VAULT_TO_CLIENT, &m), NULL) < 0)
		return -ENOMEM;
	n = vault_msg_pack(VAULT_TO_CLIENT, &m, ret->p, ret->cap);
	ret->len = n < 0 ? 0 : (size_t)n;
	return n < 0 ? (int)n : 0;
}

int agent_handle_message(struct agent *a, const struct store *s, const void *data, size_t len, uint64_t now,
			 uint64_t mono, struct secmem *ret)
{
	uint8_t out[VAULT_ASK_MAX];
	struct turn t = { .a = a, .s = s, .now = now, .mono = mono, .out = { .p = out, .cap = sizeof(out) } };
	struct vault_msg m;
	uint32_t conn;

	if (vault_msg_parse(VAULT_FROM_CLIENT, data, len, 0, &m) < 0 || m.type != VAULT_ASK)
		return -EPROTO;
	conn = (uint32_t)m.num[0];
	t.allowed = m.num[1];
	/* An empty message ends the connection. An unknown one must not take another's slot. */
	if (m.text[0].len == 0) {
		t.conn = find_conn(a, conn);
		if (t.conn)
			t.conn->id = 0;
	} else {
		t.conn = conn_get(a, conn);
		handle_agent_request(&t, m.text[0]);
	}
	return pack_result(&t, m.id, conn, ret);
}
