/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cleanup.h"
#include "base/str.h"
#include "tap.h"
#include "vault/serve/store.h"

#include <errno.h>
#include <stdlib.h>

static struct err last;
static enum vault_fault fault;

static int put(struct store *s, const char *name, const char *value, size_t len, unsigned flags)
{
	struct store_set set = { .name = name, .flags = flags, .now = 1000 };
	struct store_entry *n = NULL;
	autosecmem struct secmem m = SECMEM_INIT;

	last = ERR_INIT;
	fault = VAULT_FAULT_OTHER;
	BUG_ON(secmem_new(&m, len, NULL) < 0 || secmem_add(&m, value, len) < 0);
	return store_set(s, &set, &m, &n, &fault, &last);
}

static struct binding at(const char *host, const char *as)
{
	struct binding b = { 0 };

	BUG_ON(binding_parse_host(host, strlen(host), 0, &b, NULL) < 0 ||
	       binding_parse_as(as, strlen(as), &b, NULL) < 0);
	return b;
}

#define VALUE "0123456789abcdef"

static void test_values(void)
{
	CLEANUP(store_release) struct store s = STORE_INIT;
	char *big = malloc(VAULT_SECRET_MAX + 1);

	if (!big)
		abort();
	memset(big, 'x', VAULT_SECRET_MAX + 1);
	CHECK(put(&s, "b", VALUE, 16, 0) == 0 && put(&s, "a", VALUE, 16, 0) == 0 && s.n == 2);
	CHECKF(str_eq(s.v[0]->name, "a"), "secrets are kept in the order of their names");
	CHECK(put(&s, "a", VALUE, 16, 0) == -EEXIST && fault == VAULT_FAULT_EXISTS && last.hint[0]);
	CHECK(put(&s, "c", VALUE, 16, VAULT_SET_ROTATE) == -ENOENT && fault == VAULT_FAULT_NO_SUCH);
	CHECK(put(&s, "c", VALUE, 15, 0) == -EINVAL && fault == VAULT_FAULT_VALUE &&
	      strstr(last.hint, "--weak"));
	CHECK(put(&s, "c", VALUE, 15, VAULT_SET_WEAK) == 0 && store_find(&s, "c")->weak);
	CHECKF(put(&s, "c", "short", 5, VAULT_SET_ROTATE) == 0,
	       "a weak secret that was accepted may be rotated to a weak one");
	CHECK(put(&s, "d", "", 0, VAULT_SET_WEAK) == -EINVAL &&
	      put(&s, "d", "0123456789\0abcdefg", 18, 0) == -EINVAL);
	CHECK(put(&s, "d", big, VAULT_SECRET_MAX, 0) == 0 &&
	      put(&s, "e", big, VAULT_SECRET_MAX + 1, 0) == -EFBIG);
	CHECK(put(&s, "a", "another value of it", 19, VAULT_SET_ROTATE) == 0 &&
	      secmem_eq(&store_find(&s, "a")->value, "another value of it", 19));
	store_find(&s, "a")->n_bindings = 1;
	snprintf(store_find(&s, "a")->bindings[0].host, sizeof(store_find(&s, "a")->bindings[0].host),
		 "a.test");
	CHECK(put(&s, "a", "one more value of it", 20, VAULT_SET_ROTATE) == 0 &&
	      store_find(&s, "a")->n_bindings == 1);
	CHECK(put(&s, "a", VALUE, 16, VAULT_SET_REPLACE) == 0 && s.n == 4);
	CHECKF(store_find(&s, "a")->n_bindings == 0, "a replaced secret is not bound where the old one was");
	for (int i = 0; i < 40; i++) {
		char name[16];

		snprintf(name, sizeof(name), "big%d", i);
		if (put(&s, name, big, VAULT_SECRET_MAX, 0) < 0)
			break;
	}
	CHECKF(last.code == -ENOSPC, "the number of secrets has a bound: %s", last.msg);
	CHECK(store_rm(&s, "d", &fault, &last) == 0);
	CHECK(store_rm(&s, "d", &fault, &last) == -ENOENT);
	free(big);
}

static void test_bindings(void)
{
	CLEANUP(store_release) struct store s = STORE_INIT;
	struct binding bearer = at("api.example.com", "bearer"), body = at("b.example.com", "body"),
		       key = at("c.example.com:22", "ssh");
	struct store_entry *n;

	CHECK(put(&s, "a", VALUE, 16, 0) == 0 && put(&s, "k", "-----BEGIN\nkey\n", 15, VAULT_SET_WEAK) == 0);
	n = store_find(&s, "k");
	CHECKF(store_bind(n, &bearer, NULL, &last) == -EINVAL && n->n_bindings == 0,
	       "a value of several lines is not bound to a header: %s", last.msg);
	CHECK(store_bind(n, &body, NULL, NULL) == 0 && store_bind(n, &key, NULL, NULL) == -EINVAL &&
	      n->n_bindings == 1);
	n = store_find(&s, "a");
	CHECK(store_bind(n, &bearer, NULL, NULL) == 0 && store_bind(n, &bearer, NULL, NULL) == 0 &&
	      n->n_bindings == 1);
	CHECKF(put(&s, "a", "one line\nand another", 20, VAULT_SET_ROTATE) == -EINVAL &&
		       fault == VAULT_FAULT_VALUE,
	       "a rotation to several lines is refused for a bearer secret");
	bearer.port = 8443;
	CHECK(store_bind(n, &bearer, NULL, NULL) == 0 && store_unbind(n, "api.example.com", 443) == 1 &&
	      n->n_bindings == 1 && n->bindings[0].port == 8443);
	CHECK(store_unbind(n, "other.example.com", 0) == 0 && store_unbind(n, "", 0) == 1 &&
	      n->n_bindings == 0);
	for (unsigned i = 1; i <= GRANTS_BINDINGS_MAX; i++) {
		bearer.port = (uint16_t)i;
		BUG_ON(store_bind(n, &bearer, NULL, NULL) < 0);
	}
	bearer.port = 999;
	CHECK(store_bind(n, &bearer, NULL, &last) == -ENOSPC);
	CHECK(store_set_schedule(n, "date", 60, NULL) == 0 && n->every == 60 && str_eq(n->command, "date"));
	CHECK(store_set_schedule(n, NULL, 60, &last) == -EINVAL && store_set_schedule(n, "", 0, NULL) == 0 &&
	      !n->command);
}

static void test_pack(void)
{
	CLEANUP(store_release) struct store s = STORE_INIT, back = STORE_INIT;
	autosecmem struct secmem a = SECMEM_INIT, b = SECMEM_INIT;
	struct binding bearer = at("api.example.com/v1", "header:x-key");
	unsigned opened = 0;

	CHECK(put(&s, "a", VALUE, 16, 0) == 0 && put(&s, "b", "weak", 4, VAULT_SET_WEAK) == 0);
	BUG_ON(s.n != 2);
	CHECK(store_bind(s.v[0], &bearer, NULL, NULL) == 0 &&
	      store_set_schedule(s.v[1], "date", 60, NULL) == 0);
	CHECK(store_pack(&s, &a, NULL) == 0 && store_unpack(&back, a.p, a.len, NULL) == 0);
	BUG_ON(back.n != 2 || !back.v);
	CHECK(store_pack(&back, &b, NULL) == 0 && secmem_eq(&a, b.p, b.len));
	CHECK(back.v[1]->every == 60 && back.v[1]->weak && binding_eq(&back.v[0]->bindings[0], &bearer));
	for (size_t n = 0; n < a.len; n++) {
		struct store no = STORE_INIT;

		opened += store_unpack(&no, a.p, n, NULL) == 0;
	}
	CHECKF(opened == 0, "a packed store that is cut at any place is refused");
	memcpy(s.v[1]->name, "a", 2);
	secmem_release(&a);
	CHECK(store_pack(&s, &a, NULL) == 0);
	store_release(&back);
	CHECKF(store_unpack(&back, a.p, a.len, NULL) == -EBADMSG,
	       "a packed store with two secrets of one name is refused");
}

static void test_long(void)
{
	CLEANUP(store_release) struct store s = STORE_INIT;
	char *big = malloc(VAULT_SECRET_MAX);
	struct binding bearer = at("a.test", "bearer"), body = at("a.test", "body"),
		       query = at("a.test", "query:k"), basic = at("a.test", "basic");

	if (!big)
		abort();
	memset(big, '+', VAULT_SECRET_MAX);
	CHECK(put(&s, "most", big, VAULT_SECRET_MAX, 0) == 0 &&
	      put(&s, "head", big, BINDING_HEAD_MAX - 1, 0) == 0 &&
	      put(&s, "third", big, BINDING_HEAD_MAX / 3 - 1, 0) == 0);
	last = ERR_INIT;
	CHECKF(store_bind(store_find(&s, "most"), &bearer, NULL, &last) == -EFBIG &&
		       strstr(last.msg, "too long") && strstr(last.hint, "body") &&
		       store_find(&s, "most")->n_bindings == 0,
	       "a value that is too long for a head is not bound to one");
	CHECK(store_bind(store_find(&s, "most"), &body, NULL, NULL) == 0);
	CHECKF(store_bind(store_find(&s, "head"), &bearer, NULL, NULL) == 0 &&
		       store_bind(store_find(&s, "head"), &query, NULL, NULL) == -EFBIG &&
		       store_bind(store_find(&s, "head"), &basic, NULL, NULL) == -EFBIG,
	       "an encoded value that is too long is not bound");
	CHECK(store_bind(store_find(&s, "third"), &query, NULL, NULL) == 0);
	CHECKF(put(&s, "head", big, BINDING_HEAD_MAX, VAULT_SET_ROTATE) == -EFBIG &&
		       fault == VAULT_FAULT_VALUE,
	       "a rotation to a value too long for its header is refused");
	free(big);
}

int main(void)
{
	CHECK(secmem_begin(NULL) == 0);
	test_values();
	test_long();
	test_bindings();
	test_pack();
	return tap_done();
}
