/* SPDX-License-Identifier: Apache-2.0 */
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

/* One message and what comes of it. */
struct turn {
	struct agent *a;
	struct agent_conn *conn;
	const struct store *s;
	uint64_t now, mono;
	struct wire_out out; /* the answer */
	bool allowed;	     /* by a person (A7) */
	bool asks;	     /* what covers it wants one asked */
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

static bool take_token(struct agent_bucket *b, double rate, double burst, uint64_t mono)
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

static void answer_byte(struct turn *t, uint8_t type)
{
	t->out.len = 0;
	t->out.bad = false;
	ssh_put_byte(&t->out, type);
}

/* For the log too. */
static void refuse(struct turn *t, const char *why)
{
	t->said = VAULT_SAID_REFUSED;
	t->why = why;
	answer_byte(t, MSG_FAILURE);
}

/* --- which keys, and where ---------------------------------------------------------------------------------------- */

static bool is_asked(const struct vault_grant *g, const struct binding *own)
{
	struct binding b;

	for (size_t i = 0; i < g->n_bindings; i++) {
		if (binding_meet(own, &g->bindings[i], &b))
			return true;
	}
	return g->n_bindings == 0;
}

/* A7 */
static bool wants_ask(const struct vault_grant *g, const struct binding *own)
{
	struct binding b;

	for (size_t i = 0; i < g->n_bindings; i++) {
		if (binding_meet(own, &g->bindings[i], &b) && binding_asks(&b))
			return true;
	}
	return binding_asks(own);
}

/* The next of the secret's bindings that this sandbox may sign by; from *at on. */
static const struct binding *next_binding(const struct vault_grant *g, const struct store_entry *n,
					  size_t *at)
{
	for (; *at < n->n_bindings; ++*at) {
		const struct binding *b = &n->bindings[*at];

		if (b->as == BINDING_AS_SSH && is_asked(g, b)) {
			++*at;
			return b;
		}
	}
	return NULL;
}

static bool is_known_key(const struct store_entry *n, const struct binding *b, struct slice key)
{
	for (size_t i = 0; i < n->known.n; i++) {
		const struct sshhost *h = &n->known.v[i];

		if (h->port == b->port && str_eq(h->host, b->host) &&
		    slice_same(key, (struct slice){ (const char *)h->key, h->len }))
			return true;
	}
	return false;
}

/* By which binding it signs for the server with that key; any key of a server when there is none. */
static const struct binding *binding_for(const struct vault_grant *g, const struct store_entry *n,
					 struct slice key)
{
	const struct binding *b;
	size_t at = 0;

	while ((b = next_binding(g, n, &at))) {
		if (!key.len || is_known_key(n, b, key))
			return b;
	}
	return NULL;
}

static const struct store_entry *entry_of(const struct store *s, const struct vault_grant *g, uint64_t now)
{
	const struct store_entry *n = store_find(s, g->name);

	return n && !(n->expires && now >= n->expires) && binding_for(g, n, SLICE_NONE) ? n : NULL;
}

size_t agent_count(const struct agent *a, const struct store *s, uint64_t now)
{
	size_t count = 0;

	for (size_t i = 0; i < a->ask.n; i++)
		count += entry_of(s, &a->ask.v[i], now) != NULL;
	return count;
}

static struct slice server_key(const struct agent_conn *c)
{
	return c->bound == AGENT_BOUND ? (struct slice){ (const char *)c->host, c->host_len } : SLICE_NONE;
}

/* --- asking for keys ---------------------------------------------------------------------------------------------- */

/* Once it is known which server is spoken with, only what is for that one. */
static void put_identities(struct turn *t, struct wire_out *w, uint32_t *n)
{
	for (size_t i = 0; i < t->a->ask.n; i++) {
		const struct vault_grant *g = &t->a->ask.v[i];
		const struct store_entry *entry = entry_of(t->s, g, t->now);
		CLEANUP(sshkey_release) struct sshkey k = SSHKEY_INIT;

		if (!entry || !binding_for(g, entry, server_key(t->conn)) ||
		    sshkey_parse(entry->value.p, entry->value.len, &k, NULL) < 0)
			continue;
		ssh_put(w, (struct slice){ (const char *)k.blob, k.blob_len });
		ssh_put_text(w, entry->name);
		++*n;
	}
}

static void on_identities(struct turn *t, struct wire_in *in)
{
	struct wire_out head;
	uint32_t n = 0;
	size_t at;

	if (!ssh_is_done(in)) {
		answer_byte(t, MSG_FAILURE);
		return;
	}
	answer_byte(t, MSG_IDENTITIES_ANSWER);
	at = t->out.len;
	ssh_put_u32(&t->out, 0);
	if (t->conn->bound != AGENT_SPOILT)
		put_identities(t, &t->out, &n);
	head = (struct wire_out){ .p = t->out.p, .cap = t->out.cap, .len = at };
	ssh_put_u32(&head, n);
	if (t->out.bad)
		answer_byte(t, MSG_FAILURE);
}

/* --- binding a session -------------------------------------------------------------------------------------------- */

static void tell_session(struct turn *t, struct slice id)
{
	unsigned char sum[HASH_LEN];

	hash_sha256(id.p, id.len, sum);
	hash_hex(sum, DIGEST_LEN / 2, t->session);
}

static void spoil(struct turn *t, const char *why)
{
	t->conn->bound = AGENT_SPOILT;
	t->conn->why = why;
	refuse(t, why);
}

/* Does any key of this sandbox's sign for that server? (A4) */
static bool is_known_server(struct turn *t, struct slice key)
{
	for (size_t i = 0; i < t->a->ask.n && key.len; i++) {
		const struct vault_grant *g = &t->a->ask.v[i];
		const struct store_entry *n = entry_of(t->s, g, t->now);
		const struct binding *b = n ? binding_for(g, n, key) : NULL;

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
	answer_byte(t, MSG_SUCCESS);
}

static bool is_bound_so(const struct agent_conn *c, struct slice key, struct slice id)
{
	return slice_same(key, server_key(c)) &&
	       slice_same(id, (struct slice){ (const char *)c->session, c->session_len });
}

static void on_session(struct turn *t, struct wire_in *in)
{
	struct slice key = ssh_get(in), id = ssh_get(in), sig = ssh_get(in);
	uint8_t forwarded = ssh_get_byte(in);

	if (!ssh_is_done(in) || id.len < SESSION_MIN || id.len > AGENT_SESSION_MAX) {
		spoil(t, "a session was bound by what is no message for it");
		return;
	}
	tell_session(t, id);
	if (t->conn->bound == AGENT_SPOILT)
		refuse(t, t->conn->why);
	else if (forwarded)
		spoil(t, "the agent was forwarded to a server, and a key is not used from there");
	else if (t->conn->bound == AGENT_BOUND && !is_bound_so(t->conn, key, id))
		spoil(t, "one connection was bound to two sessions");
	else if (!is_known_server(t, key))
		spoil(t, "the server has a key that is not known for any host that a key is bound to");
	else if (!sshsign_check(key, sig, id))
		spoil(t, "the server's signature over the session is wrong");
	else
		bind_session(t, key, id);
}

static void on_extension(struct turn *t, struct wire_in *in)
{
	if (slice_eq(ssh_get(in), "session-bind@openssh.com"))
		on_session(t, in);
	else
		answer_byte(t, MSG_FAILURE);
}

/* --- signing ------------------------------------------------------------------------------------------------------ */

/* The data of a login, RFC 4252 7: what the server will check the signature against. */
struct login {
	struct slice session, user, algorithm, key, server;
	bool names_server; /* publickey-hostbound-v00@openssh.com */
};

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

/* OpenSSH's PROTOCOL.sshsig, as git signs commits and tags by it. */
static bool is_git_signature(struct slice data)
{
	struct wire_in in = { .p = (const uint8_t *)data.p, .left = data.len };
	struct slice magic = wire_get_bytes(&in, 6), space = ssh_get(&in), reserved = ssh_get(&in),
		     hash = ssh_get(&in), sum = ssh_get(&in);

	return ssh_is_done(&in) && slice_eq(magic, "SSHSIG") && slice_eq(space, "git") && reserved.len == 0 &&
	       ((slice_eq(hash, "sha512") && sum.len == 64) || (slice_eq(hash, "sha256") && sum.len == 32));
}

static bool has_user(const struct binding *b, struct slice user)
{
	return !*b->user || slice_eq(user, b->user);
}

/* In the log stands what can be printed. */
static void tell_user(struct turn *t, struct slice user)
{
	size_t n = user.len > AGENT_USER_MAX ? AGENT_USER_MAX : user.len;

	for (size_t i = 0; i < n; i++)
		t->user[i] = (char)(user.p[i] > 0x20 && user.p[i] < 0x7f ? user.p[i] : '?');
	t->user[n] = '\0';
}

static void tell_binding(struct turn *t, const struct binding *b)
{
	memcpy(t->host, b->host, sizeof(t->host));
	t->port = b->port;
}

/* In a session that was bound: by a binding for its server, and the user. */
static const char *judge_bound(struct turn *t, const struct vault_grant *g, const struct store_entry *n,
			       const struct login *l)
{
	const struct agent_conn *c = t->conn;
	const struct binding *b;
	bool is_host = false, is_user = false;
	size_t at = 0;

	if (!slice_same(l->session, (struct slice){ (const char *)c->session, c->session_len }))
		return "it is a login in another session than the one that was bound";
	if (l->names_server && !slice_same(l->server, server_key(c)))
		return "it is a login at another server than the one that was bound";
	while ((b = next_binding(g, n, &at))) {
		if (!is_known_key(n, b, server_key(c)))
			continue;
		if (!is_user)
			tell_binding(t, b);
		is_host = true;
		if (!has_user(b, l->user))
			continue;
		is_user = true;
		t->asks = t->asks || wants_ask(g, b);
	}
	if (is_user) {
		snprintf(t->what, sizeof(t->what), "log in as %s", t->user);
		return NULL;
	}
	return is_host ? "the key is bound to another user" : "the key is not bound to this server";
}

/* Nobody knows which server it is for: only where a binding says that this is fine. */
static const char *judge_unbound(struct turn *t, const struct vault_grant *g, const struct store_entry *n,
				 const struct login *l)
{
	const struct binding *b;
	bool is_fine = false;
	size_t at = 0;

	while ((b = next_binding(g, n, &at))) {
		if (!binding_allows_unbound(b) || !has_user(b, l->user))
			continue;
		is_fine = true;
		t->asks = t->asks || wants_ask(g, b);
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

	while ((b = next_binding(g, n, &at))) {
		if (!binding_allows_sshsig(b))
			continue;
		is_fine = true;
		t->asks = t->asks || wants_ask(g, b);
	}
	return is_fine;
}

/* What it is a signature of can only be told by its digest, which an answer is then bound to. */
static void tell_signature(struct turn *t, struct slice data)
{
	unsigned char sum[HASH_LEN];
	char hex[HASH_HEX_LEN + 1];

	hash_sha256(data.p, data.len, sum);
	hash_hex(sum, HASH_LEN, hex);
	snprintf(t->what, sizeof(t->what), "sign a commit or tag of git's, sha256 %s", hex);
}

/* NULL: it may be signed; else why not. */
static const char *judge(struct turn *t, const struct vault_grant *g, const struct store_entry *n,
			 const struct sshkey *k, struct slice data, const char *algorithm)
{
	struct login l;

	if (!algorithm)
		return "RSA with SHA-1 is not signed with";
	if (t->conn->bound == AGENT_SPOILT)
		return t->conn->why;
	if (slice_starts(data, "SSHSIG")) {
		if (!allows_sshsig(t, g, n))
			return "it is no login but a signature of a file, which the binding does not allow";
		tell_signature(t, data);
		return is_git_signature(data) ? NULL
					      : "it is a signature of something else than git's objects";
	}
	if (!parse_login(data, &l))
		return "what is to be signed is no login";
	tell_user(t, l.user);
	tell_session(t, l.session);
	if (!slice_same(l.key, (struct slice){ (const char *)k->blob, k->blob_len }) ||
	    !slice_eq(l.algorithm, algorithm))
		return "it is a login with another key or algorithm";
	return t->conn->bound == AGENT_BOUND ? judge_bound(t, g, n, &l) : judge_unbound(t, g, n, &l);
}

static void sign(struct turn *t, const struct vault_grant *g, const struct store_entry *n,
		 const struct sshkey *k, struct slice data, uint32_t flags)
{
	uint8_t sig[SSHSIGN_MAX];
	size_t len = 0;
	const char *why;

	memcpy(t->name, n->name, sizeof(t->name));
	why = judge(t, g, n, k, data, sshsign_algorithm(k->kind, flags));
	if (!why && t->asks && !t->allowed) {
		t->said = VAULT_SAID_ASKS;
		t->why = t->what;
		answer_byte(t, MSG_FAILURE);
		return;
	}
	if (!why && sshsign(k, flags, data, sig, &len) < 0)
		why = "the key could not sign";
	if (why) {
		refuse(t, why);
		return;
	}
	t->said = VAULT_SAID_SIGNED;
	answer_byte(t, MSG_SIGN_RESPONSE);
	ssh_put(&t->out, (struct slice){ (const char *)sig, len });
}

static void on_sign(struct turn *t, struct wire_in *in)
{
	struct slice key = ssh_get(in), data = ssh_get(in);
	uint32_t flags = ssh_get_u32(in);

	if (!ssh_is_done(in)) {
		refuse(t, "it is no message of an ssh-agent");
		return;
	}
	sshkey_print(key, t->print);
	/* What a person has allowed was counted when it came the first time. */
	if (!t->allowed && !take_token(&t->a->signatures, AGENT_SIGN_RATE, AGENT_SIGN_BURST, t->mono)) {
		refuse(t, "too many signatures were asked for");
		return;
	}
	for (size_t i = 0; i < t->a->ask.n; i++) {
		const struct vault_grant *g = &t->a->ask.v[i];
		const struct store_entry *n = entry_of(t->s, g, t->now);
		CLEANUP(sshkey_release) struct sshkey k = SSHKEY_INIT;

		if (!n || sshkey_parse(n->value.p, n->value.len, &k, NULL) < 0 ||
		    !slice_same(key, (struct slice){ (const char *)k.blob, k.blob_len }))
			continue;
		sign(t, g, n, &k, data, flags);
		return;
	}
	refuse(t, "this sandbox was given no such key");
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

/* One that is new takes a free place, or that of whoever was silent longest: that one is then like a new one (A6). */
static struct agent_conn *conn_of(struct agent *a, uint32_t id)
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

static void answer(struct turn *t, struct slice ask)
{
	struct wire_in in = { .p = (const uint8_t *)ask.p, .left = ask.len };

	if (!take_token(&t->a->messages, AGENT_RATE, AGENT_BURST, t->mono)) {
		refuse(t, "too many requests");
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
		answer_byte(t, MSG_FAILURE);
	}
}

static int pack(const struct turn *t, uint32_t id, uint32_t conn, struct secmem *ret)
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

int agent_take(struct agent *a, const struct store *s, const void *data, size_t len, uint64_t now,
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
	/* Its end. One that is not known has nothing to forget, and takes nobody's place. */
	if (m.text[0].len == 0) {
		t.conn = find_conn(a, conn);
		if (t.conn)
			t.conn->id = 0;
	} else {
		t.conn = conn_of(a, conn);
		answer(&t, m.text[0]);
	}
	return pack(&t, m.id, conn, ret);
}
