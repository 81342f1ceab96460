/* SPDX-License-Identifier: Apache-2.0 */
/* Keys for SSH that a test makes itself, in OpenSSH's format, and messages of the ssh-agent protocol. */
#ifndef TESTS_SSHTEST_H
#define TESTS_SSHTEST_H

#include "base/cleanup.h"
#include "vault/serve/agent.h"
#include "vault/ssh/sshwire.h"

#include <sodium.h>
#include <stdio.h>
#include <string.h>

struct sshtest_key {
	uint8_t pub[32], sk[64];
	uint8_t blob[64];
	size_t blob_len;
	char text[1024]; /* the private key's file */
};

static inline struct slice sshtest_slice(const void *p, size_t len)
{
	return (struct slice){ p, len };
}

static inline void sshtest_key(struct sshtest_key *k, uint8_t seed_byte)
{
	uint8_t seed[32], file[512], priv[256];
	struct wire_out b = { .p = k->blob, .cap = sizeof(k->blob) }, w = { .p = file, .cap = sizeof(file) },
			p = { .p = priv, .cap = sizeof(priv) };
	char base64[700];

	memset(seed, seed_byte, sizeof(seed));
	crypto_sign_seed_keypair(k->pub, k->sk, seed);
	ssh_put_text(&b, "ssh-ed25519");
	ssh_put(&b, sshtest_slice(k->pub, 32));
	k->blob_len = b.len;
	ssh_put_u32(&p, 7);
	ssh_put_u32(&p, 7);
	ssh_put_text(&p, "ssh-ed25519");
	ssh_put(&p, sshtest_slice(k->pub, 32));
	ssh_put(&p, sshtest_slice(k->sk, 64));
	ssh_put_text(&p, "a test");
	for (uint8_t i = 1; p.len % 8; i++)
		ssh_put_byte(&p, i);
	wire_put_bytes(&w, "openssh-key-v1", 15);
	ssh_put_text(&w, "none");
	ssh_put_text(&w, "none");
	ssh_put_text(&w, "");
	ssh_put_u32(&w, 1);
	ssh_put(&w, sshtest_slice(k->blob, k->blob_len));
	ssh_put(&w, sshtest_slice(priv, p.len));
	BUG_ON(w.bad || p.bad);
	sodium_bin2base64(base64, sizeof(base64), file, w.len, sodium_base64_VARIANT_ORIGINAL);
	snprintf(k->text, sizeof(k->text),
		 "-----BEGIN OPENSSH PRIVATE KEY-----\n%.70s\n%s\n-----END OPENSSH PRIVATE KEY-----", base64,
		 base64 + 70);
}

static inline struct store_entry *sshtest_set(struct store *s, const char *name, const struct sshtest_key *k)
{
	struct store_set set = { .name = name, .now = 1000 };
	struct secmem m = SECMEM_INIT;
	struct store_entry *n = NULL;
	enum vault_fault fault;

	BUG_ON(secmem_new(&m, strlen(k->text), NULL) < 0 || secmem_add(&m, k->text, strlen(k->text)) < 0);
	BUG_ON(store_set(s, &set, &m, &n, &fault, NULL) < 0);
	return n;
}

/* Puts it into a store, bound to a host whose key is `server`. */
static inline struct store_entry *sshtest_put(struct store *s, const char *name, const struct sshtest_key *k,
					      const char *host, const char *as, const char *user,
					      const struct sshtest_key *server)
{
	autosshhosts struct sshhosts known = SSHHOSTS_INIT;
	struct binding b = { 0 };
	struct store_entry *n = store_find(s, name);

	if (!n)
		n = sshtest_set(s, name, k);
	BUG_ON(binding_parse_host(host, strlen(host), BINDING_ASKED, &b, NULL) < 0 ||
	       binding_parse_as(as, strlen(as), &b, NULL) < 0);
	b.port = b.port ? b.port : BINDING_PORT_SSH;
	BUG_ON(user && binding_set_user(&b, user, NULL) < 0);
	if (server)
		BUG_ON(sshhosts_add(&known, b.host, b.port, sshtest_slice(server->blob, server->blob_len)) <
		       0);
	BUG_ON(store_bind(n, &b, &known, NULL) < 0);
	return n;
}

/* session-bind@openssh.com, signed by that server. */
static inline size_t sshtest_bind(uint8_t *out, size_t cap, const struct sshtest_key *server,
				  struct slice session, bool forwarded)
{
	struct wire_out w = { .p = out, .cap = cap }, s;
	uint8_t raw[64], sig[128];

	s = (struct wire_out){ .p = sig, .cap = sizeof(sig) };
	crypto_sign_detached(raw, NULL, (const uint8_t *)session.p, session.len, server->sk);
	ssh_put_text(&s, "ssh-ed25519");
	ssh_put(&s, sshtest_slice(raw, sizeof(raw)));
	ssh_put_byte(&w, 27);
	ssh_put_text(&w, "session-bind@openssh.com");
	ssh_put(&w, sshtest_slice(server->blob, server->blob_len));
	ssh_put(&w, session);
	ssh_put(&w, sshtest_slice(sig, s.len));
	ssh_put_byte(&w, forwarded);
	BUG_ON(w.bad);
	return w.len;
}

static inline size_t sshtest_login(uint8_t *out, size_t cap, const struct sshtest_key *k,
				   struct slice session, const char *user, const struct sshtest_key *server)
{
	struct wire_out w = { .p = out, .cap = cap };

	ssh_put(&w, session);
	ssh_put_byte(&w, 50);
	ssh_put_text(&w, user);
	ssh_put_text(&w, "ssh-connection");
	ssh_put_text(&w, server ? "publickey-hostbound-v00@openssh.com" : "publickey");
	ssh_put_byte(&w, 1);
	ssh_put_text(&w, "ssh-ed25519");
	ssh_put(&w, sshtest_slice(k->blob, k->blob_len));
	if (server)
		ssh_put(&w, sshtest_slice(server->blob, server->blob_len));
	BUG_ON(w.bad);
	return w.len;
}

static inline size_t sshtest_sign(uint8_t *out, size_t cap, const struct sshtest_key *k, struct slice data)
{
	struct wire_out w = { .p = out, .cap = cap };

	ssh_put_byte(&w, 13);
	ssh_put(&w, sshtest_slice(k->blob, k->blob_len));
	ssh_put(&w, data);
	ssh_put_u32(&w, 0);
	BUG_ON(w.bad);
	return w.len;
}

#endif
