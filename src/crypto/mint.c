/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes the certificate authority of one sandbox and signs leaf certificates with it, over OpenSSL. Only
 * coffer-egress links this file. It writes no file: the packed authority goes to a memfd that the caller
 * owns.
 */

#include "crypto/mint.h"

#include <openssl/bn.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>
#include <string.h>

#define DAY 86400
#define MAGIC "coffer-ca1\n"
/* A leaf expires this many seconds before its authority, so that no verifier sees a leaf that outlives its
 * issuer. */
#define MARGIN 60

struct mint {
	EVP_PKEY *key;
	X509 *cert;
	EVP_PKEY *leaf_key;
	char *pem;
};

static void x509_freep(X509 **x)
{
	X509_free(*x);
}

static void bio_freep(BIO **b)
{
	BIO_free(*b);
}

/* Reports a failure with OpenSSL's own reason, and clears its error queue. */
static int openssl_error(struct err *e, const char *what)
{
	const char *why = ERR_reason_error_string(ERR_peek_last_error());

	err_set(e, -EIO, "cannot %s: %s", what, why ? why : "OpenSSL gave no reason");
	ERR_clear_error();
	return -EIO;
}

void mint_free(struct mint *m)
{
	if (!m)
		return;
	EVP_PKEY_free(m->key);
	EVP_PKEY_free(m->leaf_key);
	X509_free(m->cert);
	free(m->pem);
	free(m);
}

void mint_freep(struct mint **m)
{
	mint_free(*m);
}

const char *mint_pem(const struct mint *m)
{
	return m->pem;
}

X509 *mint_cert(const struct mint *m)
{
	return m->cert;
}

EVP_PKEY *mint_leaf_key(const struct mint *m)
{
	return m->leaf_key;
}

/* 127 random bits with the top one set: the serial number is never negative and never zero. */
static int set_serial(X509 *x)
{
	unsigned char raw[16];
	BIGNUM *n;
	int ok;

	if (RAND_bytes(raw, sizeof(raw)) != 1)
		return 0;
	raw[0] = (unsigned char)((raw[0] & 0x7f) | 0x40);
	n = BN_bin2bn(raw, sizeof(raw), NULL);
	ok = n && BN_to_ASN1_INTEGER(n, X509_get_serialNumber(x));
	BN_free(n);
	return ok;
}

static int add_extension(X509 *x, X509 *issuer, int nid, const char *value)
{
	X509V3_CTX ctx;
	X509_EXTENSION *ext;
	int ok;

	X509V3_set_ctx(&ctx, issuer, x, NULL, NULL, 0);
	ext = X509V3_EXT_conf_nid(NULL, &ctx, nid, value);
	ok = ext && X509_add_ext(x, ext, -1);
	X509_EXTENSION_free(ext);
	return ok;
}

static int set_times(X509 *x, int64_t from, int64_t to)
{
	return ASN1_TIME_set(X509_getm_notBefore(x), (time_t)from) &&
	       ASN1_TIME_set(X509_getm_notAfter(x), (time_t)to);
}

/* The subject stays empty when the name is too long for a common name: verifiers use the subjectAltName. */
static int set_subject(X509_NAME *n, const char *cn)
{
	return !*cn || strlen(cn) > 64 ||
	       X509_NAME_add_entry_by_NID(n, NID_commonName, MBSTRING_UTF8, (const unsigned char *)cn, -1, -1,
					  0);
}

/* Fills in and signs the self-signed certificate of the authority. OpenSSL's convention: 1 on success. */
static int fill_authority(X509 *x, EVP_PKEY *key, const char *cn, int64_t from, int64_t to)
{
	X509_NAME *n = X509_get_subject_name(x);

	return X509_set_version(x, X509_VERSION_3) && set_serial(x) && set_times(x, from, to) &&
	       set_subject(n, cn) &&
	       X509_NAME_add_entry_by_NID(n, NID_organizationName, MBSTRING_UTF8,
					  (const unsigned char *)"Cofferdam", -1, -1, 0) &&
	       X509_set_issuer_name(x, n) && X509_set_pubkey(x, key) &&
	       add_extension(x, x, NID_basic_constraints, "critical,CA:TRUE,pathlen:0") &&
	       add_extension(x, x, NID_key_usage, "critical,keyCertSign,cRLSign") &&
	       add_extension(x, x, NID_subject_key_identifier, "hash") &&
	       add_extension(x, x, NID_authority_key_identifier, "keyid:always") &&
	       X509_sign(x, key, EVP_sha256());
}

/* Completes an authority whose key and certificate are set: its PEM text, and the key that all leaves
 * share. */
static int mint_complete(struct mint *m, struct err *e)
{
	CLEANUP(bio_freep) BIO *b = BIO_new(BIO_s_mem());
	char *text;
	long len;

	m->leaf_key = EVP_EC_gen("P-256");
	if (!m->leaf_key || !b || PEM_write_bio_X509(b, m->cert) != 1)
		return openssl_error(e, "make the sandbox's certificate authority");
	len = BIO_get_mem_data(b, &text);
	m->pem = strndup(text, (size_t)len);
	return m->pem ? 0 : err_sys(e, -ENOMEM, "cannot make the sandbox's certificate authority");
}

int mint_new(struct mint **ret, const char *cn, uint64_t now_s, unsigned days, struct err *e)
{
	CLEANUP(mint_freep) struct mint *m = calloc(1, sizeof(*m));
	int64_t from = (int64_t)now_s - DAY;
	int r;

	if (!m)
		return err_sys(e, -ENOMEM, "cannot make the sandbox's certificate authority");
	if (days > MINT_DAYS_MAX - 1)
		days = MINT_DAYS_MAX - 1;
	m->key = EVP_EC_gen("P-256");
	m->cert = X509_new();
	if (!m->key || !m->cert ||
	    !fill_authority(m->cert, m->key, cn, from, (int64_t)now_s + (int64_t)days * DAY))
		return openssl_error(e, "make the sandbox's certificate authority");
	r = mint_complete(m, e);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(m);
	return 0;
}

static void put_u32le(struct buf *out, uint32_t v)
{
	unsigned char raw[4] = { (unsigned char)v, (unsigned char)(v >> 8), (unsigned char)(v >> 16),
				 (unsigned char)(v >> 24) };

	buf_add(out, raw, sizeof(raw));
}

int mint_pack(const struct mint *m, struct buf *out, struct err *e)
{
	unsigned char *key = NULL, *cert = NULL;
	int key_len = i2d_PrivateKey(m->key, &key);
	int cert_len = i2d_X509(m->cert, &cert);

	if (key_len > 0 && cert_len > 0) {
		buf_adds(out, MAGIC);
		put_u32le(out, (uint32_t)key_len);
		put_u32le(out, (uint32_t)cert_len);
		buf_add(out, key, (size_t)key_len);
		buf_add(out, cert, (size_t)cert_len);
	}
	OPENSSL_clear_free(key, key_len > 0 ? (size_t)key_len : 0);
	OPENSSL_free(cert);
	if (key_len <= 0 || cert_len <= 0)
		return openssl_error(e, "keep the sandbox's certificate authority");
	return buf_error(out) ? err_sys(e, -ENOMEM, "cannot keep the sandbox's certificate authority") : 0;
}

static uint32_t get_u32le(const unsigned char *p)
{
	return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

int mint_unpack(struct mint **ret, const void *data, size_t len, struct err *e)
{
	CLEANUP(mint_freep) struct mint *m = calloc(1, sizeof(*m));
	const size_t head = strlen(MAGIC) + 8;
	const unsigned char *p = data, *key, *cert;
	uint32_t key_len, cert_len;
	int r;

	if (!m)
		return err_sys(e, -ENOMEM, "cannot load the sandbox's certificate authority");
	if (len < head || len > MINT_PACK_MAX || memcmp(p, MAGIC, strlen(MAGIC)) != 0)
		return err_set(e, -EBADMSG, "the stored certificate authority has the wrong format");
	key_len = get_u32le(p + strlen(MAGIC));
	cert_len = get_u32le(p + strlen(MAGIC) + 4);
	if (key_len > MINT_PACK_MAX || cert_len > MINT_PACK_MAX || head + key_len + cert_len != len)
		return err_set(e, -EBADMSG, "the stored certificate authority is truncated");
	key = p + head;
	cert = key + key_len;
	m->key = d2i_PrivateKey(EVP_PKEY_EC, NULL, &key, (long)key_len);
	m->cert = d2i_X509(NULL, &cert, (long)cert_len);
	if (!m->key || !m->cert || X509_check_private_key(m->cert, m->key) != 1) {
		ERR_clear_error();
		return err_set(e, -EBADMSG,
			       "the stored certificate authority's key and certificate do not match");
	}
	r = mint_complete(m, e);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(m);
	return 0;
}

/* Sets the subjectAltName, the only name that verifiers use. */
static int add_alt_name(X509 *x, int type, const void *data, size_t len)
{
	GENERAL_NAMES *all = sk_GENERAL_NAME_new_null();
	GENERAL_NAME *g = GENERAL_NAME_new();
	ASN1_STRING *s = type == GEN_DNS ? ASN1_IA5STRING_new() : ASN1_OCTET_STRING_new();
	int ok = 0;

	if (all && g && s && ASN1_STRING_set(s, data, (int)len)) {
		GENERAL_NAME_set0_value(g, type, s);
		s = NULL;
		if (sk_GENERAL_NAME_push(all, g)) {
			g = NULL;
			/* Critical when the subject is empty (RFC 5280, 4.2.1.6). */
			ok = X509_add1_ext_i2d(x, NID_subject_alt_name, all,
					       X509_NAME_entry_count(X509_get_subject_name(x)) == 0, 0);
		}
	}
	ASN1_STRING_free(s);
	GENERAL_NAME_free(g);
	GENERAL_NAMES_free(all);
	return ok;
}

/* Fills in a leaf certificate, valid from a day ago until just before the authority expires (mint.M2). The
 * caller signs it. */
static int fill_leaf(struct mint *m, X509 *x, uint64_t now_s)
{
	struct tm tm;
	int64_t to;

	if (!ASN1_TIME_to_tm(X509_get0_notAfter(m->cert), &tm))
		return 0;
	to = (int64_t)timegm(&tm) - MARGIN;
	return X509_set_version(x, X509_VERSION_3) && set_serial(x) &&
	       set_times(x, (int64_t)now_s - DAY + MARGIN, to) &&
	       X509_set_issuer_name(x, X509_get_subject_name(m->cert)) && X509_set_pubkey(x, m->leaf_key) &&
	       add_extension(x, m->cert, NID_basic_constraints, "critical,CA:FALSE") &&
	       add_extension(x, m->cert, NID_key_usage, "critical,digitalSignature") &&
	       add_extension(x, m->cert, NID_ext_key_usage, "serverAuth") &&
	       add_extension(x, m->cert, NID_subject_key_identifier, "hash") &&
	       add_extension(x, m->cert, NID_authority_key_identifier, "keyid:always");
}

struct san {
	int type; /* GEN_DNS, GEN_IPADD */
	const void *data;
	size_t len;
};

/* Makes a leaf for exactly one name or address. */
static int mint_leaf(struct mint *m, const char *cn, const struct san *san, uint64_t now_s, X509 **ret,
		     struct err *e)
{
	CLEANUP(x509_freep) X509 *x = X509_new();

	if (!x || !set_subject(X509_get_subject_name(x), cn) || !fill_leaf(m, x, now_s) ||
	    !add_alt_name(x, san->type, san->data, san->len) || !X509_sign(x, m->key, EVP_sha256()))
		return openssl_error(e, "make a certificate");
	*ret = TAKE_PTR(x);
	return 0;
}

int mint_leaf_name(struct mint *m, const char *name, uint64_t now_s, X509 **ret, struct err *e)
{
	return mint_leaf(m, name, &(struct san){ GEN_DNS, name, strlen(name) }, now_s, ret, e);
}

int mint_leaf_addr(struct mint *m, const uint8_t *addr, size_t len, uint64_t now_s, X509 **ret, struct err *e)
{
	if (len != 4 && len != 16)
		return err_set(e, -EINVAL, "an address of %zu bytes has no certificate", len);
	return mint_leaf(m, "", &(struct san){ GEN_IPADD, addr, len }, now_s, ret, e);
}
