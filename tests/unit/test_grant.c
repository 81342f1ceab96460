/* SPDX-License-Identifier: Apache-2.0 */
/* What a sandbox is granted and what it gets: the vault's side of one client, without a process. */
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "tap.h"
#include "vault/grant.h"

#include <errno.h>

#define GITHUB "ghp_1a2B3c4D5e6F7g8H9i0J1k2L3m4N5o6P7q8R"
#define FREE "a secret that is bound nowhere"

static struct store store;
static uint32_t handles;
static uint64_t now = 2000, mono = 1;

static void add(const char *name, const char *value, const char *host, uint64_t expires)
{
	struct store_set set = { .name = name, .now = 1000, .expires = expires };
	struct secmem m = SECMEM_INIT;
	struct store_entry *n;
	struct binding b = { 0 };
	enum vault_fault f;

	BUG_ON(secmem_new(&m, strlen(value), NULL) < 0 || secmem_add(&m, value, strlen(value)) < 0 ||
	       store_set(&store, &set, &m, &n, &f, NULL) < 0);
	if (!host)
		return;
	BUG_ON(binding_parse_host(host, strlen(host), 0, &b, NULL) < 0 ||
	       binding_parse_as("bearer", 6, &b, NULL) < 0 || store_bind(n, &b, NULL, NULL) < 0);
}

static int grant(struct client *c, const char *name, const char *host, struct err *e)
{
	autogrants struct vault_grants ask = GRANTS_INIT;
	struct vault_grant *g = grants_add(&ask);
	enum vault_fault f;

	*c = (struct client){ .fd = -1 };
	snprintf(g->name, sizeof(g->name), "%s", name);
	if (host) {
		BUG_ON(binding_parse_host(host, strlen(host), BINDING_ASKED, &g->bindings[0], NULL) < 0);
		g->n_bindings = 1;
	}
	*e = ERR_INIT;
	return client_grant(c, &store, &ask, &handles, &f, e);
}

/* The answer's type; a secret's bytes in *ret. */
static uint32_t ask(struct client *c, const struct vault_msg *m, char *ret, size_t size, int *ret_status)
{
	autosecmem struct secmem out = SECMEM_INIT;
	uint8_t packed[4096];
	struct vault_msg back;
	long n = vault_msg_pack(VAULT_FROM_CLIENT, m, packed, sizeof(packed));

	mono += NSEC_PER_SEC;
	if (n < 0 || client_take(c, &store, packed, (size_t)n, 0, &handles, now, mono, &out) < 0 ||
	    vault_msg_parse(VAULT_TO_CLIENT, out.p, out.len, 0, &back) < 0 || back.id != m->id)
		return 0;
	snprintf(ret, size, "%.*s", (int)back.text[0].len, back.text[0].p);
	if (ret_status)
		*ret_status = back.status;
	return back.type;
}

static uint32_t render(struct client *c, uint32_t handle, const char *host, uint16_t port, const char *path,
		       char *ret, int *ret_status)
{
	struct vault_msg m = { .type = VAULT_RENDER, .id = 5, .num = { handle, port } };

	m.text[0] = slice_of(host);
	m.text[1] = slice_of(path);
	return ask(c, &m, ret, 256, ret_status);
}

static void test_render(void)
{
	struct client c;
	struct err e;
	char got[256];
	uint32_t h;
	int st = 0;

	CHECK(grant(&c, "github", NULL, &e) == 0 && c.grants.n == 1);
	h = c.grants.v[0].handle;
	CHECK(str_starts(c.grants.v[0].placeholder, "ghp_") && c.grants.v[0].placeholder_len == 40 &&
	      !strstr(c.grants.v[0].placeholder, "1a2B"));
	CHECK(render(&c, h, "api.github.com", 443, "/user", got, NULL) == VAULT_RENDERED);
	CHECK_STR(got, GITHUB);
	CHECK(render(&c, h, "evil.example.com", 443, "/user", got, &st) == VAULT_REFUSED && st == -EACCES);
	CHECKF(strstr(got, "github") && !strstr(got, GITHUB), "why, and not the secret: %s", got);
	CHECK(render(&c, h, "api.github.com", 8443, "/user", got, &st) == VAULT_REFUSED && st == -EACCES);
	CHECK(render(&c, h + 1, "api.github.com", 443, "/user", got, &st) == VAULT_REFUSED && st == -ENOENT);
	client_release(&c);
}

static void test_narrow(void)
{
	struct client c;
	struct err e;
	char got[256];
	int st = 0;

	CHECK(grant(&c, "github", "api.github.com/repos/acme", &e) == 0);
	CHECK(render(&c, handles, "api.github.com", 443, "/repos/acme/x", got, NULL) == VAULT_RENDERED);
	CHECK(render(&c, handles, "api.github.com", 443, "/repos/other", got, &st) == VAULT_REFUSED &&
	      st == -EACCES);
	client_release(&c);
	CHECKF(grant(&c, "github", "other.example.com", &e) == -EACCES && strstr(e.msg, "api.github.com"),
	       "%s", e.msg);
	CHECKF(grant(&c, "nosuch", NULL, &e) == -ENOENT, "%s", e.msg);
	CHECKF(grant(&c, "free", NULL, &e) == -EACCES && e.hint[0], "%s", e.msg);
	CHECKF(grant(&c, "old", NULL, &e) == 0, "one that has expired takes no other with it: %s", e.msg);
	CHECK(render(&c, handles, "d.example.com", 443, "/", got, &st) == VAULT_REFUSED &&
	      st == -EKEYEXPIRED);
	client_release(&c);
}

/* What changes under a grant that is there. */
static void test_later(void)
{
	struct client c;
	struct err e;
	char got[256];
	int st = 0;

	CHECK(grant(&c, "free", "b.example.com", &e) == 0);
	CHECK(render(&c, handles, "b.example.com", 443, "/", got, NULL) == VAULT_RENDERED);
	client_release(&c);
	CHECK(grant(&c, "later", NULL, &e) == 0);
	CHECK(render(&c, handles, "c.example.com", 443, "/", got, NULL) == VAULT_RENDERED);
	now = 9000;
	CHECK(render(&c, handles, "c.example.com", 443, "/", got, &st) == VAULT_REFUSED &&
	      st == -EKEYEXPIRED);
	now = 2000;
	store_unbind(store_find(&store, "later"), "", 0);
	CHECKF(render(&c, handles, "c.example.com", 443, "/", got, &st) == VAULT_REFUSED && st == -EACCES,
	       "one that was unbound is sent nowhere");
	client_release(&c);
}

static void test_capture(void)
{
	struct vault_msg m = { .type = VAULT_CAPTURE, .id = 6 };
	struct client c;
	struct err e;
	char placeholder[256], got[256];
	size_t n;
	int st = 0;

	CHECK(grant(&c, "github", NULL, &e) == 0);
	m.num[0] = c.grants.v[0].handle;
	m.text[0] = slice_of("gho_ISSUEDBYTHESERVER0123456789abcdef012");
	m.text[1] = slice_of("access_token");
	CHECK(ask(&c, &m, placeholder, sizeof(placeholder), NULL) == VAULT_CAPTURED &&
	      str_starts(placeholder, "gho_"));
	CHECK(c.grants.n == 2 && str_eq(c.grants.v[1].name, "github.access_token"));
	CHECK(render(&c, handles, "api.github.com", 443, "/", got, NULL) == VAULT_RENDERED);
	CHECK_STR(got, "gho_ISSUEDBYTHESERVER0123456789abcdef012");
	CHECKF(render(&c, handles, "evil.example.com", 443, "/", got, &st) == VAULT_REFUSED,
	       "bound as its secret is");
	CHECK(ask(&c, &m, got, sizeof(got), NULL) == VAULT_CAPTURED && str_eq(got, placeholder) &&
	      c.grants.n == 2);
	m.text[0] = slice_of("with a\nline break in the middle");
	CHECK(ask(&c, &m, got, sizeof(got), &st) == VAULT_REFUSED && st == -EINVAL);
	for (n = 0; n < GRANT_CAPTURES_MAX + 1; n++) {
		char text[64];

		snprintf(text, sizeof(text), "a-credential-that-was-issued-%zu", n);
		m.text[0] = slice_of(text);
		if (ask(&c, &m, got, sizeof(got), &st) == VAULT_REFUSED)
			break;
	}
	CHECKF(n == GRANT_CAPTURES_MAX - 1 && st == -ENOSPC, "there is an end to it");
	m = (struct vault_msg){ .type = VAULT_GRANTS, .id = 7 };
	CHECK(ask(&c, &m, got, sizeof(got), NULL) == VAULT_GRANTED);
	client_release(&c);
}

static void test_rate(void)
{
	struct vault_msg m = { .type = VAULT_GRANTS, .id = 1 };
	uint8_t packed[64];
	long n = vault_msg_pack(VAULT_FROM_CLIENT, &m, packed, sizeof(packed));
	struct vault_msg back;
	struct client c;
	struct err e;
	unsigned busy = 0;

	CHECK(grant(&c, "github", NULL, &e) == 0);
	for (unsigned i = 0; i < GRANT_BURST + 10; i++) {
		autosecmem struct secmem out = SECMEM_INIT;

		if (client_take(&c, &store, packed, (size_t)n, 0, &handles, now, 77, &out) == 0 &&
		    vault_msg_parse(VAULT_TO_CLIENT, out.p, out.len, 0, &back) == 0)
			busy += back.type == VAULT_REFUSED && back.status == -EBUSY;
	}
	CHECKF(busy == 10, "so many at once and no more: %u", busy);
	CHECK(client_take(&c, &store, "nonsense", 8, 0, &handles, now, 78, &c.pending) == -EPROTO);
	CHECKF(client_take(&c, &store, packed, (size_t)n, 1, &handles, now, 78, &c.pending) == -EPROTO,
	       "nor a descriptor");
	client_release(&c);
}

int main(void)
{
	CHECK(secmem_begin(NULL) == 0);
	add("github", GITHUB, "api.github.com", 0);
	add("free", FREE, NULL, 0);
	add("old", "a secret that has expired", "d.example.com", 1500);
	add("later", "a secret that will expire", "c.example.com", 8000);
	test_render();
	test_narrow();
	test_later();
	test_capture();
	test_rate();
	store_release(&store);
	return tap_done();
}
