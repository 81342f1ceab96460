/* SPDX-License-Identifier: Apache-2.0 */
/* The sandbox's certificate authority: what verifiers say of its leaves, and that a kept one goes on. */
#include "crypto/mint.h"
#include "tap.h"

#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <time.h>

static int verify(X509 *root, X509 *leaf, int purpose)
{
	X509_STORE *store = X509_STORE_new();
	X509_STORE_CTX *ctx = X509_STORE_CTX_new();
	int r = -1;

	X509_STORE_add_cert(store, root);
	X509_STORE_set_flags(store, X509_V_FLAG_X509_STRICT | X509_V_FLAG_CHECK_SS_SIGNATURE);
	X509_STORE_CTX_init(ctx, store, leaf, NULL);
	X509_STORE_CTX_set_purpose(ctx, purpose);
	if (X509_verify_cert(ctx) == 1)
		r = 0;
	else
		printf("# verify: %s\n", X509_verify_cert_error_string(X509_STORE_CTX_get_error(ctx)));
	X509_STORE_CTX_free(ctx);
	X509_STORE_free(store);
	return r;
}

static long days_of(X509 *x)
{
	int day = 0, sec = 0;

	ASN1_TIME_diff(&day, &sec, X509_get0_notBefore(x), X509_get0_notAfter(x));
	return day;
}

static void test_names(struct mint *m, uint64_t now)
{
	X509 *a = NULL, *b = NULL, *longest = NULL;
	char name[254], group[32] = "";

	memset(name, 'a', 253);
	name[63] = name[127] = name[191] = '.';
	name[253] = 0;
	CHECK(mint_leaf_name(m, "api.example.test", now, &a, NULL) == 0);
	CHECK(mint_leaf_name(m, "api.example.test", now, &b, NULL) == 0);
	CHECK(mint_leaf_name(m, name, now, &longest, NULL) == 0);
	CHECK(verify(mint_cert(m), a, X509_PURPOSE_SSL_SERVER) == 0);
	CHECK(verify(mint_cert(m), longest, X509_PURPOSE_SSL_SERVER) == 0);
	CHECK(verify(mint_cert(m), a, X509_PURPOSE_SSL_CLIENT) < 0);
	CHECK(X509_check_host(a, "api.example.test", 0, 0, NULL) == 1);
	CHECK(X509_check_host(a, "example.test", 0, 0, NULL) == 0);
	CHECK(X509_check_host(a, "x.api.example.test", 0, 0, NULL) == 0);
	CHECK(X509_check_host(longest, name, 0, 0, NULL) == 1);
	CHECK(X509_check_ca(a) == 0);
	CHECK(X509_check_private_key(a, mint_leaf_key(m)) == 1);
	CHECK(EVP_PKEY_get_group_name(mint_leaf_key(m), group, sizeof(group), NULL) == 1);
	CHECKF(strcmp(group, "prime256v1") == 0, "the key of a leaf is on P-256: %s", group);
	CHECK(ASN1_INTEGER_cmp(X509_get0_serialNumber(a), X509_get0_serialNumber(b)) != 0);
	CHECK(days_of(a) <= 366);
	X509_free(a);
	X509_free(b);
	X509_free(longest);
}

static void test_addr(struct mint *m, uint64_t now)
{
	const uint8_t v4[4] = { 5, 5, 5, 10 };
	X509 *x = NULL;

	CHECK(mint_leaf_addr(m, v4, 4, now, &x, NULL) == 0);
	CHECK(verify(mint_cert(m), x, X509_PURPOSE_SSL_SERVER) == 0);
	CHECK(X509_check_ip_asc(x, "5.5.5.10", 0) == 1);
	CHECK(X509_check_ip_asc(x, "5.5.5.11", 0) == 0);
	CHECK(mint_leaf_addr(m, v4, 3, now, &x, NULL) == -EINVAL);
	X509_free(x);
}

static void test_kept(struct mint *m, uint64_t now)
{
	struct mint *again = NULL, *other = NULL;
	autobuf struct buf b = BUF_INIT;
	X509 *x = NULL;

	CHECK(mint_pack(m, &b, NULL) == 0);
	CHECK(mint_unpack(&again, b.data, b.len, NULL) == 0);
	CHECK_STR(mint_pem(again), mint_pem(m));
	CHECK(mint_leaf_name(again, "x.test", now, &x, NULL) == 0);
	CHECK(verify(mint_cert(m), x, X509_PURPOSE_SSL_SERVER) == 0);
	for (size_t cut = 0; cut < b.len; cut += 7) {
		if (mint_unpack(&other, b.data, cut, NULL) != -EBADMSG)
			CHECKF(false, "a packed issuer that is cut at %zu is refused", cut);
	}
	b.data[b.len / 2] ^= 1;
	CHECK(mint_unpack(&other, b.data, b.len, NULL) == -EBADMSG || other);
	mint_free(other);
	mint_free(again);
	X509_free(x);
}

static void test_strangers(struct mint *m, uint64_t now)
{
	struct mint *other = NULL;
	X509 *x = NULL;

	CHECK(mint_new(&other, "Cofferdam sandbox", now, 30, NULL) == 0);
	CHECK(mint_leaf_name(other, "api.example.test", now, &x, NULL) == 0);
	CHECK(verify(mint_cert(m), x, X509_PURPOSE_SSL_SERVER) < 0);
	X509_free(x);
	mint_free(other);
}

int main(void)
{
	uint64_t now = (uint64_t)time(NULL);
	struct mint *m = NULL;
	struct err e = ERR_INIT;

	CHECK(mint_new(&m, "Cofferdam sandbox", now, 3650, &e) == 0);
	if (!m)
		return tap_done();
	CHECK(strstr(mint_pem(m), "BEGIN CERTIFICATE") != NULL);
	CHECK(X509_check_ca(mint_cert(m)) == 1);
	CHECK(days_of(mint_cert(m)) <= MINT_DAYS_MAX);
	test_names(m, now);
	test_addr(m, now);
	test_kept(m, now);
	test_strangers(m, now);
	mint_free(m);
	return tap_done();
}
