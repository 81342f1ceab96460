/* SPDX-License-Identifier: Apache-2.0 */
/* A PKCS#12 store: its structure. Java reads it in tests/cli/test_clients.py, where Java runs. */
#include "codec/file/p12.h"
#include "tap.h"

#define BIG (1u << 20)
#define CERT_DER 372

static const char cert[] = "-----BEGIN CERTIFICATE-----\n"
			   "MIIBcDCCARegAwIBAgIUIBja/nsTgeMWoRRjEpFebLaaWbowCgYIKoZIzj0EAwIw\n"
			   "DjEMMAoGA1UEAwwDcDEyMB4XDTI2MTExNzAwNDcyMloXDTI2MTIxNzAwNDcyMlow\n"
			   "DjEMMAoGA1UEAwwDcDEyMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAESEgQU11u\n"
			   "ne92cmBJX956ehaFsgc9s7CJWMP236JdxMfJnv+X+lBiAwpYReAMSa+DnlmDf+Zh\n"
			   "o+97pendEW2atKNTMFEwHQYDVR0OBBYEFOaIJqRWWVrwwEnJ0zEz/6iC9/1IMB8G\n"
			   "A1UdIwQYMBaAFOaIJqRWWVrwwEnJ0zEz/6iC9/1IMA8GA1UdEwEB/wQFMAMBAf8w\n"
			   "CgYIKoZIzj0EAwIDRwAwRAIgUUUkhbEwGrOhAiJfE2Yok91TmCWeb/WUrYErdNTR\n"
			   "O7ACIFYdtOtam7eQGIenXH1jVNdw0/ni8NpN+qsOzlFp44Oi\n"
			   "-----END CERTIFICATE-----\n";

static int add(struct buf *b, const char *pem, size_t cap)
{
	buf_clear(b);
	return p12_add_trusted(b, pem, strlen(pem), cap);
}

/* The tag at *at, and *at behind its length, which is checked against what is left. */
static int enter(const struct buf *b, size_t *at, size_t *ret_len)
{
	const uint8_t *d = (const uint8_t *)b->data + *at;
	size_t n = d[1] & 0x80 ? d[1] & 0x7f : 0, len = n ? 0 : d[1];

	for (size_t i = 0; i < n; i++)
		len = len << 8 | d[2 + i];
	*at += 2 + n;
	*ret_len = len;
	return *at + len <= b->len ? d[0] : -1;
}

static void test_one(void)
{
	static const uint8_t path[] = { 0x30, 0x02, 0x30, 0x06, 0xa0, 0x04, 0x30, 0x30, 0x06, 0xa0,
					0x04, 0x30, 0x30, 0x06, 0xa0, 0x30, 0x06, 0xa0, 0x04 };
	autobuf struct buf b = BUF_INIT;
	size_t at = 0, len = 0;

	CHECK(add(&b, cert, BIG) == 1);
	for (size_t i = 0; i < sizeof(path); i++) {
		CHECKF(enter(&b, &at, &len) == path[i], "element %zu of the store is as expected", i);
		/* Past what is no container. */
		if (path[i] == 0x02 || path[i] == 0x06)
			at += len;
	}
	CHECK(len == CERT_DER && (uint8_t)b.data[at] == 0x30 && (uint8_t)b.data[at + 1] == 0x82);
	CHECKF(memmem(b.data, b.len, "\x60\x86\x48\x01\x86\xf9\x66\xad\xca\x7b\x01\x01", 12),
	       "the certificate in a store is marked as trusted");
}

static void test_many(void)
{
	autobuf struct buf b = BUF_INIT, pem = BUF_INIT;
	size_t whole;

	CHECKF(add(&b, "", BIG) == 0 && b.len > 0, "a store without certificates is valid");
	for (int i = 0; i < 200; i++) {
		buf_addf(&pem, "# number %d\n", i);
		buf_adds(&pem, cert);
	}
	CHECK(add(&b, buf_cstr(&pem), BIG) == 200);
	whole = b.len;
	CHECK(add(&b, buf_cstr(&pem), whole) == 200 && add(&b, buf_cstr(&pem), whole - 1) == 199);
	CHECK(add(&b, buf_cstr(&pem), 5000) > 8 && b.len <= 5000);
}

static void test_junk(void)
{
	static const char *const junk[] = {
		"-----BEGIN CERTIFICATE-----",
		"-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n",
		"-----BEGIN CERTIFICATE-----\nMIIB!\n-----END CERTIFICATE-----\n",
		"-----BEGIN CERTIFICATE-----\nMIIBcDCCARegAwIBAgI=\n-----END CERTIFICATE-----\n",
		"-----BEGIN TRUSTED CERTIFICATE-----\nMIIBcDCCARegAwIBAgI=\n-----END TRUSTED CERTIFICATE-----\n",
	};
	autobuf struct buf b = BUF_INIT, pem = BUF_INIT;

	for (size_t i = 0; i < ARRAY_SIZE(junk); i++) {
		CHECK(add(&b, junk[i], BIG) == 0);
		buf_clear(&pem);
		buf_addf(&pem, "%s%s", junk[i], cert);
		CHECKF(add(&b, buf_cstr(&pem), BIG) == 1, "a certificate behind junk %zu is added", i);
	}
	/* One byte more, one less, and one that says it is longer. */
	buf_clear(&pem);
	buf_adds(&pem, cert);
	memcpy(pem.data + strlen("-----BEGIN CERTIFICATE-----\n"), "MIIBcT", 6);
	CHECK(add(&b, buf_cstr(&pem), BIG) == 0);
	buf_clear(&pem);
	buf_adds(&pem, "-----BEGIN CERTIFICATE-----\n");
	for (unsigned i = 0; i < 2 * P12_CERT_MAX; i++)
		buf_addc(&pem, 'M');
	buf_adds(&pem, "\n-----END CERTIFICATE-----\n");
	CHECKF(add(&b, buf_cstr(&pem), BIG) == 0, "a certificate that is too large is left out");
}

int main(void)
{
	test_one();
	test_many();
	test_junk();
	return tap_done();
}
