/* SPDX-License-Identifier: Apache-2.0 */
/* The cache of leaves: the same for the same name, bounded, the oldest goes first; the authority outlives its process. */
#include "egress/tls/ca.h"
#include "tap.h"

#include <openssl/x509.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

static X509 *leaf(struct ca *c, const char *name)
{
	struct host h;
	X509 *x = NULL;

	return host_canon(name, strlen(name), &h, NULL) == 0 && ca_leaf(c, &h, &x, NULL) == 0 ? x : NULL;
}

static void test_cache(struct ca *c)
{
	X509 *a = leaf(c, "a.test");
	char name[32];

	CHECK(a && leaf(c, "A.Test.") == a);
	CHECK(leaf(c, "5.5.5.5") != NULL && leaf(c, "2a00::5") != NULL);
	X509_up_ref(a);
	for (int i = 0; i < CA_LEAVES_MAX + 20; i++) {
		snprintf(name, sizeof(name), "n%d.test", i);
		if (!leaf(c, name))
			CHECKF(false, "a leaf can be issued for %s", name);
		if (i == CA_LEAVES_MAX / 2)
			CHECK(leaf(c, "a.test") == a);
	}
	CHECK(c->n == CA_LEAVES_MAX);
	CHECK(leaf(c, "a.test") == a);
	for (int i = 0; i < CA_LEAVES_MAX; i++) {
		snprintf(name, sizeof(name), "m%d.test", i);
		(void)leaf(c, name);
	}
	CHECK(c->n == CA_LEAVES_MAX);
	CHECK(leaf(c, "a.test") != a);
	X509_free(a);
}

static void test_kept(void)
{
	int fd = memfd_create("ca", MFD_ALLOW_SEALING);
	struct ca *one = NULL, *two = NULL;

	CHECK(!ca_is_kept(fd));
	CHECK(ca_open(&one, fd, false, NULL) == 0);
	CHECK(ca_is_kept(fd));
	CHECK(ca_open(&two, fd, false, NULL) == 0);
	CHECK_STR(mint_pem(one->mint), mint_pem(two->mint));
	CHECK(write(fd, "x", 1) < 0); /* sealed */
	ca_close(one);
	ca_close(two);
	close(fd);
	fd = memfd_create("ca", MFD_ALLOW_SEALING);
	CHECK(write(fd, "garbage", 7) == 7);
	CHECK(ca_open(&one, fd, false, NULL) == -EBADMSG);
	close(fd);
}

int main(void)
{
	struct ca *c = NULL;

	CHECK(ca_open(&c, -1, false, NULL) == 0);
	test_cache(c);
	ca_close(c);
	test_kept();
	return tap_done();
}
