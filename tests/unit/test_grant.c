/* SPDX-License-Identifier: Apache-2.0 */
/* The grants of a sandbox and the secrets that it gets: the vault's side of one client, without a process. */
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "crypto/seal.h"
#include "tap.h"
#include "vault/serve/grant.h"

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

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
	if (n < 0 || client_handle_message(c, &store, packed, (size_t)n, 0, &handles, now, mono, &out) < 0 ||
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
	CHECKF(strstr(got, "github") && !strstr(got, GITHUB),
	       "a refusal names the secret and not its value: %s", got);
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
	       "a host outside the secret's bindings is refused: %s", e.msg);
	CHECKF(grant(&c, "nosuch", NULL, &e) == -ENOENT, "a secret that does not exist is not granted: %s",
	       e.msg);
	CHECKF(grant(&c, "free", NULL, &e) == -EACCES && e.hint[0],
	       "a secret without a binding is not granted: %s", e.msg);
	CHECKF(grant(&c, "old", NULL, &e) == 0, "an expired secret does not prevent a grant of others: %s",
	       e.msg);
	CHECK(render(&c, handles, "d.example.com", 443, "/", got, &st) == VAULT_REFUSED &&
	      st == -EKEYEXPIRED);
	client_release(&c);
}

/* Changes of a secret while a grant exists. */
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
	       "an unbound secret is sent nowhere");
	client_release(&c);
}

#define JWT_HEAD "eyJhbGciOiJSUzI1NiJ9.eyJlbWFpbCI6ImFubkBleGFtcGxlLmNvbSJ9."

static int grant_issuer(struct client *c, const char *issue)
{
	autogrants struct vault_grants want = GRANTS_INIT;
	struct vault_grant *g = grants_add(&want);
	enum vault_fault fault = 0;
	struct err e = ERR_INIT;

	*c = (struct client){ .fd = -1 };
	g->kind = GRANT_ISSUER;
	snprintf(g->name, sizeof(g->name), "login");
	snprintf(g->issue, sizeof(g->issue), "%s", issue);
	g->n_bindings = 2;
	CHECK(binding_parse_host("api.example.com", 15, 0, &g->bindings[0], &e) == 0 &&
	      binding_parse_as("bearer", 6, &g->bindings[0], &e) == 0);
	CHECK(binding_parse_host("auth.example.com/oauth/token", 28, 0, &g->bindings[1], &e) == 0 &&
	      binding_parse_as("body", 4, &g->bindings[1], &e) == 0);
	return client_grant(c, &store, &want, &handles, &fault, &e);
}

#define ISSUE "POST auth.example.com:443/oauth/token access_token id_token=claims refresh_token=refresh"

static int capture(struct client *c, const char *member, const char *value, uint64_t expires_in,
		   uint32_t carried, char out[4097], int *ret_status)
{
	struct vault_msg m = { .type = VAULT_CAPTURE, .id = 6 };

	m.num[0] = c->grants.v[0].handle;
	m.num[1] = expires_in;
	m.num[2] = carried;
	m.text[0] = slice_of(value);
	m.text[1] = slice_of(member);
	return (int)ask(c, &m, out, 4097, ret_status);
}

static void test_capture(void)
{
	char placeholder[4097], got[4097];
	struct client c;
	int st = 0;

	CHECK(grant_issuer(&c, ISSUE) == 0 && c.grants.n == 1 && c.grants.v[0].placeholder_len == 0);
	CHECK(capture(&c, "access_token", "gho_ISSUEDBYTHESERVER0123456789abcdef012", 0, 0, placeholder,
		      NULL) == VAULT_CAPTURED &&
	      str_starts(placeholder, "gho_") && !strstr(placeholder, "ISSUED"));
	CHECK(c.issued.n == 1 && str_eq(c.issued.v[0]->grant.name, "login.access_token"));
	CHECK(render(&c, handles, "api.example.com", 443, "/", got, NULL) == VAULT_RENDERED);
	CHECK_STR(got, "gho_ISSUEDBYTHESERVER0123456789abcdef012");
	CHECKF(render(&c, handles, "evil.example.com", 443, "/", got, &st) == VAULT_REFUSED && st == -EACCES,
	       "an issued credential is refused where its issuer is not bound");
	CHECKF(render(&c, handles, "auth.example.com", 443, "/oauth/token", got, &st) == VAULT_REFUSED,
	       "an access token is not sent to the endpoint of its issuer");
	CHECKF(render(&c, c.grants.v[0].handle, "api.example.com", 443, "/", got, &st) == VAULT_REFUSED,
	       "an issuer cannot be rendered as a secret");
	CHECKF(capture(&c, "access_token", "gho_ISSUEDBYTHESERVER0123456789abcdef012", 0, 0, got, NULL) ==
			       VAULT_CAPTURED &&
		       str_eq(got, placeholder) && c.issued.n == 1,
	       "a repeated value keeps its placeholder");
	CHECK(capture(&c, "access_token", "with a\nline break in the middle", 0, 0, got, &st) ==
		      VAULT_REFUSED &&
	      st == -EINVAL);
	CHECK(capture(&c, "another", "a-credential-that-was-issued", 0, 0, got, &st) == VAULT_REFUSED &&
	      st == -ENOENT);
	client_release(&c);
}

static void test_claims(void)
{
	char placeholder[4097];
	struct client c;

	CHECK(grant_issuer(&c, ISSUE) == 0);
	CHECK(capture(&c, "id_token", JWT_HEAD "c2lnbmF0dXJlLXRoYXQtaXMtYS1zZWNyZXQtMDEyMzQ1Njc", 0, 0,
		      placeholder, NULL) == VAULT_CAPTURED);
	CHECKF(str_starts(placeholder, JWT_HEAD) && !strstr(placeholder, "c2lnbmF0dXJl") &&
		       strlen(placeholder) == strlen(JWT_HEAD) + 47,
	       "a placeholder of a JWT keeps the claims and has another signature: %s", placeholder);
	CHECK(capture(&c, "access_token", JWT_HEAD "c2lnbmF0dXJlLXRoYXQtaXMtYS1zZWNyZXQtMDEyMzQ1Njc", 0, 0,
		      placeholder, NULL) == VAULT_CAPTURED &&
	      !str_starts(placeholder, "eyJ"));
	CHECK(capture(&c, "id_token", "eyJ.not-a-signed-token.x", 0, 0, placeholder, NULL) ==
		      VAULT_CAPTURED &&
	      !str_starts(placeholder, "eyJ"));
	client_release(&c);
}

/* D2 */
static void test_issued_bounds(void)
{
	char placeholder[4097], got[4097], text[64];
	uint32_t first, old;
	struct client c;
	int st = 0;

	CHECK(grant_issuer(&c, ISSUE) == 0);
	CHECK(capture(&c, "refresh_token", "the-first-refresh-token-0123456789", 0, 0, placeholder, NULL) ==
	      VAULT_CAPTURED);
	first = handles;
	CHECK(render(&c, first, "auth.example.com", 443, "/oauth/token", got, NULL) == VAULT_RENDERED);
	CHECK(render(&c, first, "api.example.com", 443, "/", got, &st) == VAULT_REFUSED);
	CHECK(capture(&c, "refresh_token", "the-second-refresh-token-012345678", 0, first, placeholder,
		      NULL) == VAULT_CAPTURED &&
	      c.issued.n == 1);
	CHECKF(render(&c, first, "auth.example.com", 443, "/oauth/token", got, &st) == VAULT_REFUSED &&
		       st == -ENOENT,
	       "a rotated credential cannot be rendered");
	old = handles;
	for (int i = 0; i < 10000; i++) {
		snprintf(text, sizeof(text), "an-access-token-that-was-issued-%d", i);
		mono += NSEC_PER_SEC / 1000;
		if (capture(&c, "access_token", text, 3600, old, got, &st) != VAULT_CAPTURED)
			break;
	}
	CHECKF(c.issued.n == 1 + ISSUED_EACH, "only the newest credentials are kept: %zu", c.issued.n);
	CHECK(render(&c, handles, "api.example.com", 443, "/", got, NULL) == VAULT_RENDERED &&
	      str_eq(got, "an-access-token-that-was-issued-9999"));
	CHECK(render(&c, handles - ISSUED_EACH, "api.example.com", 443, "/", got, &st) == VAULT_REFUSED);
	CHECK(render(&c, old, "auth.example.com", 443, "/oauth/token", got, NULL) == VAULT_RENDERED);
	now += 3601;
	CHECKF(render(&c, handles, "api.example.com", 443, "/", got, &st) == VAULT_REFUSED && st == -ENOENT &&
		       c.issued.n == 1,
	       "an expired credential cannot be rendered");
	now -= 3601;
	client_release(&c);
}

/* R4 */
static void test_inherit(void)
{
	char placeholder[4097], got[4097];
	autogrants struct vault_grants all = GRANTS_INIT;
	struct client a, b, other;
	uint32_t handle;

	CHECK(grant_issuer(&a, ISSUE) == 0 && !client_park(&a));
	CHECK(capture(&a, "access_token", "an-access-token-that-was-issued", 0, 0, placeholder, NULL) ==
	      VAULT_CAPTURED);
	handle = handles;
	CHECK(client_park(&a) && a.fd == -1);
	CHECK(grant_issuer(&other, "POST auth.example.com:443/other access_token") == 0);
	CHECK(client_inherit(&other, &a, now) == 0);
	CHECKF(other.issued.n == 0 && a.issued.n == 1, "a different issuer inherits no credential");
	CHECK(grant_issuer(&b, ISSUE) == 0);
	CHECK(client_inherit(&b, &a, now) == 1);
	CHECK(b.issued.n == 1 && a.issued.n == 0 && b.issued.v[0]->grant.of == b.grants.v[0].handle);
	CHECK(client_grants(&b, &all) == 0 && all.n == 2 && all.v[1].kind == GRANT_ISSUED &&
	      str_eq(all.v[1].placeholder, placeholder));
	CHECK(render(&b, handle, "api.example.com", 443, "/", got, NULL) == VAULT_RENDERED);
	client_release(&a);
	client_release(&b);
	client_release(&other);
}

/* A second grant that fails after it has inherited. */
static void test_give_back(void)
{
	char got[4097], name[64];
	struct client a, b;
	struct issued_list was;
	uint32_t issuer;
	size_t n;

	CHECK(grant_issuer(&a, ISSUE) == 0);
	issuer = a.grants.v[0].handle;
	for (int i = 0; i < 3; i++) {
		snprintf(name, sizeof(name), "an-access-token-that-was-issued-%d", i);
		CHECK(capture(&a, "access_token", name, 0, 0, got, NULL) == VAULT_CAPTURED);
	}
	was = a.issued;
	CHECK(grant_issuer(&b, ISSUE) == 0);
	/* There is room for two, then the file of the second grant adds one. */
	while (b.grants.n < GRANTS_MAX - 2)
		BUG_ON(!grants_add(&b.grants));
	n = client_inherit(&b, &a, now);
	CHECK(n == 2 && a.issued.n == 1 && b.issued.n == 2);
	b.grants.n = 1;
	CHECK(capture(&b, "refresh_token", "a-refresh-token-from-the-file", 0, 0, got, NULL) ==
	      VAULT_CAPTURED);
	client_give_back(&b, &a, n);
	CHECKF(a.issued.n == 3 && a.issued.v[0] == was.v[0] && a.issued.v[1] == was.v[1] &&
		       a.issued.v[2] == was.v[2],
	       "the first grant has all credentials again, the oldest first");
	for (size_t i = 0; i < a.issued.n; i++)
		CHECK(a.issued.v[i]->grant.of == issuer &&
		      render(&a, a.issued.v[i]->grant.handle, "api.example.com", 443, "/", got, NULL) ==
			      VAULT_RENDERED);
	CHECKF(b.issued.n == 1 && b.issued.v[0]->how == ISSUE_REFRESH,
	       "credentials of the second grant's file stay with it");
	client_release(&b);
	client_release(&a);
}

/* The number of the save in one of the two places of a file. */
static uint64_t save_number(int fd, unsigned place)
{
	uint64_t n = 0;

	CHECK(pread(fd, &n, sizeof(n), (off_t)place * KEEP_PLACE + 8) == (ssize_t)sizeof(n));
	return n;
}

/* A second grant while the first one's file is older than its list (keep.K4). */
static void test_inherit_pending(void)
{
	autosecmem struct secmem key = SECMEM_INIT;
	int fd = memfd_create("keep", MFD_CLOEXEC);
	char got[4097];
	struct client a, b, next;
	uint64_t newest;

	CHECK(seal_key_new(&key, NULL) == 0 && grant_issuer(&a, ISSUE) == 0);
	a.keep = keep_new(dup(fd), &key);
	mono += 3600 * NSEC_PER_SEC;
	for (int i = 0; i < KEEP_BURST; i++)
		CHECK(keep_changed(a.keep, &a.issued, &a.grants, mono));
	mono -= NSEC_PER_SEC; /* capture() adds it */
	CHECK(capture(&a, "access_token", "an-access-token-that-was-issued", 0, 0, got, NULL) ==
	      VAULT_CAPTURED);
	CHECKF(keep_tick(a.keep, &a.issued, &a.grants, mono, false), "the save of the credential is pending");

	CHECK(grant_issuer(&b, ISSUE) == 0);
	b.keep = keep_new(dup(fd), &key);
	CHECK(client_inherit(&b, &a, now) == 1);
	keep_load(b.keep, &b.issued, &b.grants, &handles, now);
	client_release(&a);
	CHECK(b.issued.n == 1);

	CHECK(grant_issuer(&next, ISSUE) == 0);
	next.keep = keep_new(dup(fd), &key);
	keep_load(next.keep, &next.issued, &next.grants, &handles, now);
	CHECKF(next.issued.n == 1, "the file still has the credential after the second grant");
	client_release(&next);

	newest = save_number(fd, 0) > save_number(fd, 1) ? save_number(fd, 0) : save_number(fd, 1);
	CHECK(keep_changed(b.keep, &b.issued, &b.grants, mono));
	CHECKF(save_number(fd, 0) == newest || save_number(fd, 1) == newest,
	       "the next save does not overwrite the newest one");
	CHECK(save_number(fd, 0) == newest + 1 || save_number(fd, 1) == newest + 1);
	client_release(&b);
	close(fd);
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

		if (client_handle_message(&c, &store, packed, (size_t)n, 0, &handles, now, 77, &out) == 0 &&
		    vault_msg_parse(VAULT_TO_CLIENT, out.p, out.len, 0, &back) == 0)
			busy += back.type == VAULT_REFUSED && back.status == -EBUSY;
	}
	CHECKF(busy == 10, "requests beyond ten at once are refused: %u", busy);
	CHECK(client_handle_message(&c, &store, "nonsense", 8, 0, &handles, now, 78, &c.pending) == -EPROTO);
	CHECKF(client_handle_message(&c, &store, packed, (size_t)n, 1, &handles, now, 78, &c.pending) ==
		       -EPROTO,
	       "a message with a descriptor is refused");
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
	test_claims();
	test_issued_bounds();
	test_inherit();
	test_give_back();
	test_inherit_pending();
	test_rate();
	store_release(&store);
	return tap_done();
}
