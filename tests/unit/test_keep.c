/* SPDX-License-Identifier: Apache-2.0 */
/* Issued credentials in their file: the issuers that get them back, the effect of damage, and what is not written.
 * K1 to K4 of keep.h. */
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "crypto/seal.h"
#include "tap.h"
#include "vault/serve/keep.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define ISSUE "POST auth.example.com:443/oauth/token access_token refresh_token=refresh"
#define OTHER "POST auth.example.com:443/other access_token"
#define NOW 1000u

static struct secmem key;
static uint32_t handles;
static uint64_t mono;

static void add_issuer(struct vault_grants *g, const char *name, const char *issue, const char *host)
{
	struct vault_grant *x = grants_add(g);
	struct err e = ERR_INIT;

	BUG_ON(!x);
	x->kind = GRANT_ISSUER;
	x->handle = ++handles;
	snprintf(x->name, sizeof(x->name), "%s", name);
	snprintf(x->issue, sizeof(x->issue), "%s", issue);
	x->n_bindings = 2;
	CHECK(binding_parse_host(host, strlen(host), 0, &x->bindings[0], &e) == 0 &&
	      binding_parse_as("bearer", 6, &x->bindings[0], &e) == 0);
	CHECK(binding_parse_host("auth.example.com/oauth/token", 28, 0, &x->bindings[1], &e) == 0 &&
	      binding_parse_as("body", 4, &x->bindings[1], &e) == 0);
}

static void issue(struct issued_list *l, const struct vault_grants *g, const char *member, const char *value,
		  uint64_t expires_in)
{
	struct vault_msg m = { .type = VAULT_CAPTURE, .num = { g->v[0].handle, expires_in } };
	const struct issued *x;
	const char *why = "";
	uint32_t dropped;

	m.text[0] = slice_of(value);
	m.text[1] = slice_of(member);
	CHECKF(issued_capture(l, g, &m, &handles, NOW, &x, &dropped, &why) == 0,
	       "the credential %s is issued: %s", member, why);
}

static bool has(const struct issued_list *l, const char *value)
{
	for (size_t i = 0; i < l->n; i++) {
		if (secmem_eq(&l->v[i]->value, value, strlen(value)))
			return true;
	}
	return false;
}

static size_t load_from(int fd, const struct vault_grants *g, const struct secmem *with,
			struct issued_list *l, uint64_t now)
{
	struct keep *k = keep_new(dup(fd), with);

	keep_load(k, l, g, &handles, now);
	keep_free(k);
	return l->n;
}

/* The number of credentials that come back from the file. */
static size_t count(int fd, const struct vault_grants *g)
{
	struct issued_list l = { .n = 0 };
	size_t n = load_from(fd, g, &key, &l, NOW);

	issued_release(&l);
	return n;
}

static void flip(int fd, off_t at)
{
	char c = 0;

	CHECK(pread(fd, &c, 1, at) == 1);
	c ^= 1;
	CHECK(pwrite(fd, &c, 1, at) == 1);
}

static void test_again(void)
{
	autogrants struct vault_grants g = GRANTS_INIT, again = GRANTS_INIT;
	struct issued_list l = { .n = 0 }, back = { .n = 0 };
	int fd = memfd_create("keep", MFD_CLOEXEC);
	struct keep *k = keep_new(dup(fd), &key);

	add_issuer(&g, "login", ISSUE, "api.example.com");
	keep_load(k, &l, &g, &handles, NOW);
	CHECKF(l.n == 0, "an empty file holds no credentials");
	issue(&l, &g, "access_token", "the-access-token-0123456789abcdef", 60);
	issue(&l, &g, "refresh_token", "the-refresh-token-0123456789abcde", 0);
	CHECK(keep_changed(k, &l, &g, mono));
	keep_free(k);
	add_issuer(&again, "login", ISSUE, "api.example.com");
	CHECK(load_from(fd, &again, &key, &back, NOW) == 2 &&
	      has(&back, "the-access-token-0123456789abcdef"));
	CHECKF(str_eq(back.v[0]->grant.placeholder, l.v[0]->grant.placeholder) &&
		       str_eq(back.v[0]->grant.name, "login.access_token") &&
		       back.v[0]->grant.expires == NOW + 60,
	       "a credential comes back under its placeholder, name and expiry");
	CHECKF(back.v[0]->grant.of == again.v[0].handle && back.v[0]->grant.handle != l.v[0]->grant.handle &&
		       back.v[0]->grant.n_bindings == 1 &&
		       str_eq(back.v[0]->grant.bindings[0].host, "api.example.com"),
	       "a credential comes back with the bindings and the handle of the present issuer");
	CHECKF(back.v[1]->how == ISSUE_REFRESH &&
		       str_eq(back.v[1]->grant.bindings[0].host, "auth.example.com"),
	       "a refresh token comes back as one, bound to its endpoint");
	CHECKF(load_from(fd, &again, &key, &back, NOW) == 2,
	       "a credential that is there already is not loaded twice");
	issued_release(&back);
	CHECKF(load_from(fd, &again, &key, &back, NOW + 60) == 1, "an expired credential does not come back");
	issued_release(&back);
	issued_release(&l);
	close(fd);
}

/* K2 */
static void test_others(void)
{
	autogrants struct vault_grants g = GRANTS_INIT, wider = GRANTS_INIT, other = GRANTS_INIT,
				       renamed = GRANTS_INIT;
	struct issued_list l = { .n = 0 };
	int fd = memfd_create("keep", MFD_CLOEXEC);
	struct keep *k = keep_new(dup(fd), &key);

	add_issuer(&g, "login", ISSUE, "api.example.com");
	add_issuer(&wider, "login", ISSUE, "evil.example.com");
	add_issuer(&other, "login", OTHER, "api.example.com");
	add_issuer(&renamed, "logout", ISSUE, "api.example.com");
	issue(&l, &g, "access_token", "the-access-token-0123456789abcdef", 0);
	CHECK(keep_changed(k, &l, &g, mono));
	keep_free(k);
	issued_release(&l);
	CHECKF(count(fd, &wider) == 0 && count(fd, &other) == 0 && count(fd, &renamed) == 0,
	       "an issuer with more bindings, another endpoint or another name gets no credential");
	k = keep_new(dup(fd), &key);
	keep_load(k, &l, &other, &handles, NOW);
	issue(&l, &other, "access_token", "of-the-other-issuer-0123456789abc", 0);
	CHECK(keep_changed(k, &l, &other, mono));
	keep_free(k);
	issued_release(&l);
	CHECKF(count(fd, &other) == 1 && count(fd, &g) == 1,
	       "saving for another issuer keeps the first one's credentials");
	close(fd);
}

/* K1, K3 */
static void test_damage(void)
{
	autogrants struct vault_grants g = GRANTS_INIT;
	struct issued_list l = { .n = 0 };
	autosecmem struct secmem wrong = SECMEM_INIT;
	int fd = memfd_create("keep", MFD_CLOEXEC);
	struct keep *k = keep_new(dup(fd), &key);
	char all[200];
	bool good = true;

	add_issuer(&g, "login", ISSUE, "api.example.com");
	issue(&l, &g, "access_token", "the-access-token-0123456789abcdef", 0);
	CHECK(keep_changed(k, &l, &g, mono));
	issue(&l, &g, "access_token", "the-second-token-0123456789abcdef", 0);
	CHECK(keep_changed(k, &l, &g, mono) && count(fd, &g) == 2);
	keep_free(k);
	CHECK(seal_key_new(&wrong, NULL) == 0);
	issued_release(&l);
	CHECKF(load_from(fd, &g, &wrong, &l, NOW) == 0, "a store does not open with another key");
	/* The second save went to the second place. Wherever it is cut off or changed, the first one counts. */
	for (off_t at = 0; at < 160; at++) {
		flip(fd, KEEP_PLACE + at);
		good = good && count(fd, &g) == 1;
		flip(fd, KEEP_PLACE + at);
	}
	CHECKF(good && count(fd, &g) == 2, "a damaged save is ignored, and the save before it counts");
	for (off_t at = 0; at < 160; at++)
		CHECK(ftruncate(fd, KEEP_PLACE + at) == 0 && count(fd, &g) == 1);
	CHECKF(pread(fd, all, sizeof(all), 0) == (ssize_t)sizeof(all) &&
		       !memmem(all, sizeof(all), "login", 5) && !memmem(all, sizeof(all), "token", 5),
	       "neither names nor values can be read in the file");
	flip(fd, 100);
	CHECKF(count(fd, &g) == 0, "a store with both saves damaged is empty");
	k = keep_new(dup(fd), &key);
	keep_load(k, &l, &g, &handles, NOW);
	issue(&l, &g, "access_token", "the-third-token-0123456789abcdefg", 0);
	CHECKF(keep_changed(k, &l, &g, mono) && count(fd, &g) == 1, "a damaged store can be written again");
	keep_free(k);
	issued_release(&l);
	close(fd);
}

/* K4 */
static void test_rate(void)
{
	autogrants struct vault_grants g = GRANTS_INIT;
	struct issued_list l = { .n = 0 };
	int fd = memfd_create("keep", MFD_CLOEXEC), ro = -1;
	struct keep *k = keep_new(dup(fd), &key);
	char path[64], text[64];

	add_issuer(&g, "login", ISSUE, "api.example.com");
	issue(&l, &g, "refresh_token", "the-refresh-token-0123456789abcde", 0);
	mono += 3600 * NSEC_PER_SEC;
	for (int i = 0; i < KEEP_BURST; i++)
		CHECK(keep_changed(k, &l, &g, mono) && !keep_tick(k, &l, &g, mono, false));
	snprintf(text, sizeof(text), "the-access-token-0123456789abcdef");
	issue(&l, &g, "access_token", text, 0);
	CHECKF(keep_changed(k, &l, &g, mono) && count(fd, &g) == 1, "a save waits after KEEP_BURST saves");
	CHECK(keep_tick(k, &l, &g, mono, false));
	mono += KEEP_EVERY * NSEC_PER_MSEC;
	CHECKF(!keep_tick(k, &l, &g, mono, false) && count(fd, &g) == 2,
	       "a waiting save is made when KEEP_EVERY has passed");
	issue(&l, &g, "access_token", "another-token-0123456789abcdefghi", 0);
	CHECK(keep_changed(k, &l, &g, mono) && count(fd, &g) == 2);
	CHECKF(!keep_tick(k, &l, &g, mono, true) && count(fd, &g) == 3,
	       "the last change is saved at the end");
	keep_free(k);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	ro = open(path, O_RDONLY | O_CLOEXEC);
	k = keep_new(ro, &key);
	CHECKF(ro >= 0 && !keep_changed(k, &l, &g, mono),
	       "a store that cannot be written reports a failed save");
	keep_free(k);
	CHECK(!keep_changed(NULL, &l, &g, mono) && !keep_tick(NULL, &l, &g, mono, true));
	issued_release(&l);
	close(fd);
}

int main(void)
{
	struct err e = ERR_INIT;

	CHECK(secmem_begin(&e) == 0 && seal_key_new(&key, &e) == 0);
	test_again();
	test_others();
	test_damage();
	test_rate();
	secmem_release(&key);
	return tap_done();
}
