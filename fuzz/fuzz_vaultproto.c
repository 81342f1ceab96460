/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages to coffer-vault. First the bytes as one message of each side: what parses packs to the same bytes again.
 * Then a coffer-egress that was taken over: a row of raw messages and of well-formed requests for any handle, host and
 * path. A secret comes out only for the handle and the place that it is bound to; what was issued, only where its
 * issuer is bound to, and there is never more of it than there may be.
 */
#include "base/cleanup.h"
#include "base/str.h"
#include "vault/serve/grant.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define SECRET "ghp_0123456789abcdefghijklmnopqrstuvwxyz"
#define OTHER "another secret, which was never granted"

static struct store store;

static void add(const char *name, const char *value, const char *host)
{
	struct store_set set = { .name = name, .now = 1000 };
	struct binding b = { 0 };
	struct secmem m = SECMEM_INIT;
	struct store_entry *n = NULL;
	enum vault_fault fault;

	BUG_ON(secmem_new(&m, strlen(value), NULL) < 0 || secmem_add(&m, value, strlen(value)) < 0);
	BUG_ON(store_set(&store, &set, &m, &n, &fault, NULL) < 0);
	BUG_ON(binding_parse_host(host, strlen(host), 0, &b, NULL) < 0 ||
	       binding_parse_as("bearer", 6, &b, NULL) < 0);
	BUG_ON(store_bind(n, &b, NULL, NULL) < 0);
}

static void set_up(void)
{
	BUG_ON(secmem_begin(NULL) < 0);
	add("github", SECRET, "api.example.com/v1");
	add("other", OTHER, "other.example.com");
}

static void round_trip(unsigned side, unsigned fds, const uint8_t *data, size_t size)
{
	autofree uint8_t *again = malloc(size + 1);
	struct vault_msg m;

	if (vault_msg_parse(side, data, size, fds, &m) < 0)
		return;
	BUG_ON(vault_msg_size(side, &m) != size);
	BUG_ON(vault_msg_pack(side, &m, again, size) != (long)size || memcmp(again, data, size) != 0);
	BUG_ON(size && vault_msg_pack(side, &m, again, size - 1) >= 0);
}

static void one_message(const uint8_t *data, size_t size)
{
	for (unsigned side = VAULT_FROM_CLIENT; side <= VAULT_FROM_HOLDER; side++) {
		for (unsigned fds = 0; fds < 3; fds++)
			round_trip(side, fds, data, size);
	}
}

static void check_rendered(const struct vault_msg *m, const struct vault_msg *ask, uint32_t granted)
{
	if (slice_eq(m->text[0], SECRET)) {
		BUG_ON(ask->num[0] != granted || ask->num[1] != 443 ||
		       !slice_eq(ask->text[0], "api.example.com"));
		BUG_ON(!slice_eq(ask->text[1], "/v1") && !slice_starts(ask->text[1], "/v1/"));
	} else {
		BUG_ON(!slice_eq(ask->text[0], "evil.example.com") && !slice_eq(ask->text[0], "example.com"));
	}
}

static void check_answer(const struct secmem *out, const struct vault_msg *ask, uint32_t granted)
{
	struct vault_msg m;

	BUG_ON(vault_msg_parse(VAULT_TO_CLIENT, out->p, out->len, 0, &m) < 0);
	BUG_ON(memmem(out->p, out->len, OTHER, strlen(OTHER)) != NULL);
	if (m.type != VAULT_RENDERED)
		BUG_ON(memmem(out->p, out->len, SECRET, strlen(SECRET)) != NULL);
	if (m.type == VAULT_RENDERED && ask)
		check_rendered(&m, ask, granted);
	/* The issuer was granted right behind the secret. */
	if (m.type == VAULT_CAPTURED && ask)
		BUG_ON(ask->num[0] != granted + 1 || slice_eq(ask->text[1], "another"));
}

static void send_raw(struct client *c, uint32_t *handles, const uint8_t *data, size_t len,
		     const struct vault_msg *ask, uint32_t granted)
{
	autosecmem struct secmem out = SECMEM_INIT;
	static uint64_t mono = 1;

	mono += 1000000;
	if (client_handle_message(c, &store, data, len, 0, handles, 2000, mono, &out) == 0)
		check_answer(&out, ask, granted);
}

static void send_request(struct client *c, uint32_t *handles, const uint8_t *p, size_t len, uint32_t granted)
{
	static const char *const hosts[] = { "api.example.com", "evil.example.com", "example.com",
					     "api.example.com.evil.org" };
	static const char *const members[] = { "access_token", "id_token", "refresh_token", "another" };
	struct vault_msg m = { .type = p[0] & 1 ? VAULT_RENDER : VAULT_CAPTURE, .id = p[0] };
	uint8_t packed[8192];
	long n;

	m.num[0] = granted + (p[1] & 7) - 1;
	if (m.type == VAULT_RENDER) {
		m.num[1] = p[1] & 8 ? 443 : 8443;
		m.text[0] = slice_of(hosts[(p[1] >> 4) & 3]);
		m.text[1] = (struct slice){ (const char *)p + 2, len - 2 };
	} else {
		m.text[0] = (struct slice){ (const char *)p + 2, len - 2 };
		m.text[1] = slice_of(members[(p[1] >> 4) & 3]);
		m.num[1] = p[1] & 8 ? 3600 : 0;
		m.num[2] = granted + (p[0] >> 5);
	}
	n = vault_msg_pack(VAULT_FROM_CLIENT, &m, packed, sizeof(packed));
	if (n > 0)
		send_raw(c, handles, packed, (size_t)n, &m, granted);
}

/* Good for a host of its own; what goes back to the endpoint, for another. */
static void add_issuer(struct vault_grant *g)
{
	g->kind = GRANT_ISSUER;
	memcpy(g->name, "login", 6);
	snprintf(g->issue, sizeof(g->issue),
		 "POST example.com:443/t access_token id_token=claims refresh_token=refresh");
	g->n_bindings = 2;
	BUG_ON(binding_parse_host("evil.example.com", 16, 0, &g->bindings[0], NULL) < 0 ||
	       binding_parse_as("bearer", 6, &g->bindings[0], NULL) < 0);
	BUG_ON(binding_parse_host("example.com/t", 13, 0, &g->bindings[1], NULL) < 0 ||
	       binding_parse_as("body", 4, &g->bindings[1], NULL) < 0);
}

static void session(const uint8_t *data, size_t size)
{
	struct client c = { .fd = -1 };
	autogrants struct vault_grants ask = GRANTS_INIT;
	enum vault_fault fault;
	uint32_t handles = 0, granted;

	memcpy(grants_add(&ask)->name, "github", 7);
	add_issuer(grants_add(&ask));
	BUG_ON(client_grant(&c, &store, &ask, &handles, &fault, NULL) < 0);
	granted = c.grants.v[0].handle;
	while (size > 2) {
		size_t len = data[0] + 2u;

		len = len > size - 1 ? size - 1 : len;
		if (data[0] & 1)
			send_raw(&c, &handles, data + 1, len, NULL, granted);
		else if (len >= 3)
			send_request(&c, &handles, data + 1, len, granted);
		data += 1 + len;
		size -= 1 + len;
		BUG_ON(c.issued.n > ISSUED_MAX);
		BUG_ON(c.issued.n > (size_t)3 * ISSUED_EACH);
	}
	client_release(&c);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (!store.n)
		set_up();
	if (size > 8192)
		return 0;
	one_message(data, size);
	session(data, size);
	return 0;
}
