/* SPDX-License-Identifier: Apache-2.0 */
/* The ssh-agent: the logins that it signs, and all that it does not. */
#include "sshtest.h"
#include "tap.h"

#include "base/str.h"

#include <errno.h>

static struct sshtest_key deploy, other, server, evil;
static struct store store;
static struct agent agent;
static uint64_t mono = 1;
static struct vault_msg said;
static struct secmem answer;
static const struct slice one = { "session one, of 32 bytes or so..", 32 },
			  two = { "session two, of 32 bytes or so..", 32 };

/* The first byte of what it answers. */
static bool allowed; /* as if a person had said so */

static int ask(uint32_t conn, const void *data, size_t len)
{
	struct vault_msg m = { .type = VAULT_ASK, .id = 1, .num = { conn, allowed } };
	uint8_t packed[VAULT_ASK_MAX + 64];
	long n;

	m.text[0] = sshtest_slice(data, len);
	n = vault_msg_pack(VAULT_FROM_CLIENT, &m, packed, sizeof(packed));
	BUG_ON(n < 0);
	secmem_release(&answer);
	mono += 1000000000;
	if (agent_handle_message(&agent, &store, packed, (size_t)n, 2000, mono, &answer) < 0)
		return -1;
	BUG_ON(vault_msg_parse(VAULT_TO_CLIENT, answer.p, answer.len, 0, &said) < 0);
	BUG_ON(memmem(answer.p, answer.len, deploy.sk, 32));
	return said.text[0].len ? (uint8_t)said.text[0].p[0] : 0;
}

static int bind_to(uint32_t conn, const struct sshtest_key *to, struct slice session, bool forwarded)
{
	uint8_t m[512];

	return ask(conn, m, sshtest_bind(m, sizeof(m), to, session, forwarded));
}

static int sign_data(uint32_t conn, const struct sshtest_key *k, struct slice data)
{
	uint8_t m[1024];

	return ask(conn, m, sshtest_sign(m, sizeof(m), k, data));
}

static int sign_login(uint32_t conn, const struct sshtest_key *k, struct slice session, const char *user,
		      const struct sshtest_key *named)
{
	uint8_t d[512];
	size_t n = sshtest_login(d, sizeof(d), k, session, user, named);

	return sign_data(conn, k, sshtest_slice(d, n));
}

static bool why(const char *words)
{
	return said.num[1] == VAULT_SAID_REFUSED &&
	       memmem(said.text[6].p, said.text[6].len, words, strlen(words));
}

static unsigned keys(uint32_t conn)
{
	if (ask(conn, "\x0b", 1) != 12)
		return 99;
	return (uint8_t)said.text[0].p[4];
}

static void test_login(void)
{
	CHECK(keys(1) == 1 && said.num[1] == VAULT_SAID_NOTHING);
	CHECK(bind_to(1, &server, one, false) == 6 && keys(1) == 1);
	CHECK(sign_login(1, &deploy, one, "git", NULL) == 14 && said.num[1] == VAULT_SAID_SIGNED &&
	      said.num[2] == 22);
	CHECK(slice_eq(said.text[1], "deploy") && slice_eq(said.text[2], "git.example.com") &&
	      slice_eq(said.text[3], "git") && said.text[4].len == SSHKEY_PRINT_LEN &&
	      said.text[5].len == 16);
	CHECKF(sign_login(1, &deploy, one, "git", &server) == 14,
	       "a login whose data has the server's key is signed");
	CHECKF(sign_login(1, &deploy, two, "git", NULL) == 5 && why("another session"),
	       "a login for another session is refused");
	CHECKF(sign_login(1, &deploy, one, "root", NULL) == 5 && why("another user"),
	       "a login for another user is refused");
	CHECKF(sign_login(1, &deploy, one, "git", &evil) == 5 && why("another server"),
	       "a login for another server is refused");
	CHECKF(sign_login(1, &other, one, "git", NULL) == 5 && why("no such key"),
	       "a login with a key that was not granted is refused");
	CHECKF(bind_to(1, &server, one, false) == 6, "a repeated session-bind is accepted");
}

static void test_unbound(void)
{
	uint8_t d[512];
	size_t n = sshtest_login(d, sizeof(d), &deploy, one, "git", NULL);

	CHECKF(sign_login(2, &deploy, one, "git", NULL) == 5 && why("did not say which server"),
	       "a login without a session-bind is refused");
	CHECKF(sign_data(2, &deploy, slice_of("anything")) == 5 && why("not a login"),
	       "data that is no login is not signed");
	CHECKF(sign_data(2, &deploy, sshtest_slice(d, n - 1)) == 5 && why("not a login"),
	       "a cut login is not signed");
	d[n] = 0;
	CHECKF(sign_data(2, &deploy, sshtest_slice(d, n + 1)) == 5 && why("not a login"),
	       "a login with a byte more is not signed");
	d[n - deploy.blob_len] ^= 1;
	CHECKF(sign_data(2, &deploy, sshtest_slice(d, n)) == 5 && why("another key"),
	       "a login that names another key is not signed");
}

static void test_spoilt(void)
{
	uint8_t m[512];
	size_t n;

	CHECKF(bind_to(3, &evil, one, false) == 5 && why("not known"),
	       "a session-bind of an unknown server is refused");
	CHECKF(keys(3) == 0 && sign_login(3, &deploy, one, "git", NULL) == 5 && why("not known"),
	       "a connection to an unknown server lists no keys and signs nothing");
	CHECKF(bind_to(3, &server, one, false) == 5,
	       "a connection to an unknown server cannot be bound to a known one");
	CHECKF(bind_to(4, &server, one, true) == 5 && why("forwarded") &&
		       sign_login(4, &deploy, one, "git", NULL) == 5,
	       "a forwarded session-bind is refused, and then signs nothing");
	CHECK(bind_to(5, &server, one, false) == 6);
	CHECKF(bind_to(5, &server, two, false) == 5 && why("two sessions") &&
		       sign_login(5, &deploy, one, "git", NULL) == 5,
	       "a second session on one connection is refused, and then nothing is signed");
	n = sshtest_bind(m, sizeof(m), &server, one, false);
	m[n - 10] ^= 1;
	CHECKF(ask(6, m, n) == 5 && why("signature over the session is wrong"),
	       "a session-bind with a forged signature is refused");
	n = sshtest_bind(m, sizeof(m), &server, one, false);
	CHECKF(ask(7, m, n - 1) == 5 && why("malformed"), "a cut session-bind is refused");
	CHECKF(ask(3, "", 0) == 0 && bind_to(3, &server, one, false) == 6,
	       "a new connection with the number of an ended one can be bound");
}

static void test_rest(void)
{
	static const uint8_t types[] = { 0, 1, 12, 14, 17, 18, 19, 20, 21, 22, 23, 25, 26, 28, 255 };
	uint8_t m[64] = { 0 };
	unsigned taken = 0;

	for (size_t i = 0; i < sizeof(types); i++) {
		m[0] = types[i];
		taken += ask(1, m, sizeof(m)) != 5 || said.num[1] != VAULT_SAID_NOTHING;
	}
	CHECKF(taken == 0, "messages of every other type fail");
	for (uint32_t i = 100; i < 100 + 4 * AGENT_CONNS; i++)
		BUG_ON(keys(i) != 1);
	CHECKF(sign_login(1, &deploy, one, "git", NULL) == 5,
	       "the oldest connections are forgotten, and sign nothing");
	store_find(&store, "deploy")->expires = 1500;
	CHECKF(keys(1) == 0, "an expired key is not listed");
	store_find(&store, "deploy")->expires = 0;
	CHECK(bind_to(300, &server, one, false) == 6 && sign_login(300, &deploy, one, "git", NULL) == 14);
	CHECKF(store_unbind(store_find(&store, "deploy"), "git.example.com", 22) == 1 &&
		       !sshhosts_has(&store_find(&store, "deploy")->known, "git.example.com", 22) &&
		       sign_login(300, &deploy, one, "git", NULL) == 5,
	       "a key that was unbound does not sign");
	sshtest_put(&store, "deploy", &deploy, "git.example.com", "ssh:unbound", "git", NULL);
	CHECKF(sign_login(301, &deploy, one, "git", NULL) == 14 &&
		       sign_login(301, &deploy, one, "root", NULL) == 5,
	       "ssh:unbound signs without a session, and only for the user of the binding");
	sshtest_put(&store, "deploy", &deploy, "git.example.com", "ssh:sshsig", "git", &server);
	memcpy(m, "SSHSIG", 6); // NOLINT(bugprone-not-null-terminated-result): bytes, not text
	CHECKF(sign_data(301, &deploy, sshtest_slice(m, 40)) == 5 && why("not a signature of a git object"),
	       "ssh:sshsig signs objects of git and nothing else");
}

static bool asks(const char *words)
{
	return said.num[1] == VAULT_SAID_ASKS &&
	       memmem(said.text[6].p, said.text[6].len, words, strlen(words));
}

/* Bound so, and in no other way. */
static void rebind(const char *as)
{
	(void)store_unbind(store_find(&store, "deploy"), "git.example.com", 22);
	sshtest_put(&store, "deploy", &deploy, "git.example.com", as, "git", &server);
}

/* A7: nothing is signed without a person's word, and with it nothing that is not signed otherwise. */
static void test_asks(void)
{
	struct vault_grant *g = &agent.ask.v[0];

	rebind("ssh:ask");
	CHECK(bind_to(350, &server, one, false) == 6 && keys(350) == 1);
	CHECKF(sign_login(350, &deploy, one, "git", NULL) == 5 && asks("log in as git") &&
		       slice_eq(said.text[1], "deploy") && slice_eq(said.text[2], "git.example.com") &&
		       said.num[2] == 22,
	       "a login under ssh:ask becomes a question");
	allowed = true;
	CHECKF(sign_login(350, &deploy, one, "git", NULL) == 14 && said.num[1] == VAULT_SAID_SIGNED,
	       "a login is signed when it is allowed");
	CHECKF(sign_login(350, &deploy, two, "git", NULL) == 5 && why("another session") &&
		       sign_login(350, &deploy, one, "root", NULL) == 5 && why("another user") &&
		       sign_data(350, &deploy, slice_of("SSHSIG")) == 5 && why("does not allow"),
	       "an allowed login permits no other session, user or format");
	allowed = false;
	CHECKF(sign_login(350, &deploy, one, "root", NULL) == 5 && why("another user"),
	       "a login as another user is refused without a question");
	CHECK(store_bind(store_find(&store, "deploy"),
			 &(struct binding){ .host = "git.example.com",
					    .port = 22,
					    .as = BINDING_AS_SSH,
					    .path = "/",
					    .user = "git" },
			 NULL, NULL) == 0);
	CHECKF(sign_login(350, &deploy, one, "git", NULL) == 5 && asks("log in"),
	       "a login becomes a question when one of two bindings asks");
	rebind("ssh:ask,unbound");
	CHECKF(sign_login(351, &deploy, one, "git", NULL) == 5 && asks("does not name"),
	       "a login without a session becomes a question under ssh:ask,unbound");
	rebind("ssh");
	CHECK(bind_to(352, &server, one, false) == 6 && sign_login(352, &deploy, one, "git", NULL) == 14);
	g->bindings[0] = (struct binding){
		.host = "git.example.com", .as = BINDING_AS_SSH, .path = "/", .word = "ask"
	};
	g->n_bindings = 1;
	CHECKF(sign_login(352, &deploy, one, "git", NULL) == 5 && asks("log in"),
	       "a grant to the sandbox may ask where the key's own binding does not");
	g->n_bindings = 0;
	rebind("ssh");
}

static void test_end_of_unknown(void)
{
	for (uint32_t i = 0; i < AGENT_CONNS; i++)
		BUG_ON(bind_to(500 + i, &server, one, false) != 6);
	CHECKF(ask(9999, "", 0) == 0, "the end of a connection that the agent does not know is taken");
	CHECKF(sign_login(500, &deploy, one, "git", NULL) == 14,
	       "the connection that was silent longest stays bound");
	CHECKF(ask(500, "", 0) == 0 && sign_login(500, &deploy, one, "git", NULL) == 5,
	       "a connection is forgotten when it ends");
}

static void test_flood(void)
{
	unsigned n = 0;

	CHECK(bind_to(400, &server, one, false) == 6);
	for (int i = 0; i < 2 * AGENT_SIGN_BURST; i++) {
		mono -= 1000000000;
		n += sign_login(400, &deploy, one, "git", NULL) == 14;
	}
	CHECKF(n > 0 && n <= AGENT_SIGN_BURST && why("too many"),
	       "a flood of logins is limited: %u of %d were signed", n, 2 * AGENT_SIGN_BURST);
	CHECKF(agent_handle_message(&agent, &store, "x", 1, 2000, mono, &answer) == -EPROTO,
	       "a message that cannot be parsed ends the channel");
}

static void test_hosts(void)
{
	autosshhosts struct sshhosts h = SSHHOSTS_INIT, again = SSHHOSTS_INIT;
	autobuf struct buf text = BUF_INIT, packed = BUF_INIT, file = BUF_INIT;

	BUG_ON(sshhosts_add(&h, "git.example.com", 22, sshtest_slice(server.blob, server.blob_len)) < 0 ||
	       sshhosts_add(&h, "git.example.com", 2222, sshtest_slice(evil.blob, evil.blob_len)) < 0);
	sshhosts_text(&h, &text);
	CHECK(str_starts(buf_cstr(&text), "git.example.com ssh-ed25519 AAAA") &&
	      strstr(buf_cstr(&text), "\n[git.example.com]:2222 ssh-ed25519 AAAA"));
	CHECK(sshhosts_pack(&h, &packed) == 0 && sshhosts_unpack(&again, packed.data, packed.len) == 0 &&
	      again.n == 2);
	CHECK(sshhosts_unpack(&again, packed.data, packed.len - 1) == -EBADMSG);
	sshhosts_release(&again);
	CHECK(sshhosts_add_file(&again, "git.example.com", 2222, sshtest_slice(text.data, text.len), NULL) ==
		      1 &&
	      again.v[0].port == 2222);
	/* The same line, revoked: it is taken from nowhere. */
	buf_addf(&file, "@revoked * %s%s", strstr(buf_cstr(&text), "ssh-ed25519"), buf_cstr(&text));
	CHECKF(sshhosts_add_file(&again, "git.example.com", 22, sshtest_slice(file.data, file.len), NULL) ==
		       0,
	       "a file that revokes its key is taken");
	CHECK(sshhosts_add_file(&again, "com", 22, sshtest_slice(text.data, text.len), NULL) == 0);
	CHECK(!sshhosts_is_key(sshtest_slice(server.blob, server.blob_len - 1)) &&
	      !sshhosts_is_key(slice_of("")));
}

/* One line of known_hosts with the n-th of many keys. */
static void add_line(struct buf *file, const char *before, unsigned n)
{
	autosshhosts struct sshhosts one_key = SSHHOSTS_INIT;
	autobuf struct buf text = BUF_INIT;
	struct sshtest_key k = server;

	memcpy(k.blob + k.blob_len - sizeof(n), &n, sizeof(n));
	BUG_ON(sshhosts_add(&one_key, "h", 22, sshtest_slice(k.blob, k.blob_len)) < 0);
	sshhosts_text(&one_key, &text);
	buf_addf(file, "%s%s", before, strstr(buf_cstr(&text), "ssh-ed25519"));
}

static void test_many_revoked(void)
{
	autosshhosts struct sshhosts h = SSHHOSTS_INIT;
	autobuf struct buf file = BUF_INIT;

	for (unsigned i = 0; i < 100; i++)
		add_line(&file, "@revoked * ", i);
	add_line(&file, "git.example.com ", 99);
	add_line(&file, "git.example.com ", 100);
	CHECKF(sshhosts_add_file(&h, "git.example.com", 22, sshtest_slice(file.data, file.len), NULL) == 1,
	       "a file that revokes a hundred keys gives the one that it does not revoke");
}

static int parse(const char *text)
{
	CLEANUP(sshkey_release) struct sshkey k = SSHKEY_INIT;

	return sshkey_parse(text, strlen(text), &k, NULL);
}

static void test_keys(void)
{
	char text[1024];
	unsigned bad = 0, n = 0;

	CHECK(parse(deploy.text) == 0);
	for (size_t i = 0; deploy.text[i]; i++) {
		snprintf(text, sizeof(text), "%s", deploy.text);
		text[i] = text[i] == 'B' ? 'C' : 'B';
		bad += parse(text) < 0;
		n++;
	}
	/* The comment and two check numbers may change; one at a time of the latter may not. */
	CHECKF(bad > n - 40, "%u of %u changes of one character are refused", bad, n);
	for (size_t i = 0; i < strlen(deploy.text); i += 7) {
		snprintf(text, i + 1, "%s", deploy.text);
		BUG_ON(parse(text) == 0);
	}
	CHECK(parse("") == -EINVAL && parse("ssh-ed25519 AAAA") == -EINVAL &&
	      parse("-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----") ==
		      -EINVAL);
}

int main(void)
{
	BUG_ON(secmem_begin(NULL) < 0);
	sshtest_key(&deploy, 1);
	sshtest_key(&other, 2);
	sshtest_key(&server, 3);
	sshtest_key(&evil, 4);
	sshtest_put(&store, "deploy", &deploy, "git.example.com", "ssh", "git", &server);
	sshtest_put(&store, "other", &other, "git.example.com", "ssh", NULL, &server);
	agent.fd = -1;
	memcpy(grants_add(&agent.ask)->name, "deploy", 7);
	test_keys();
	test_hosts();
	test_many_revoked();
	test_login();
	test_unbound();
	test_spoilt();
	test_rest();
	test_asks();
	test_end_of_unknown();
	test_flood();
	secmem_release(&answer);
	agent_release(&agent);
	store_release(&store);
	return tap_done();
}
