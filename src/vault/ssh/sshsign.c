/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Signs with private keys and checks signatures of servers (sshsign.h). Only coffer-vault links this file;
 * what may be signed is decided in agent.c, not here.
 */

#include "vault/ssh/sshsign.h"

#include "base/cleanup.h"
#include "vault/ssh/sshwire.h"

#include <errno.h>
#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/param_build.h>
#include <openssl/rand.h>
#include <openssl/rsa.h>
#include <sodium.h>

#define RAW_MAX 1024 /* bytes of the bare signature */

static void bignum_freep(BIGNUM **b)
{
	BN_clear_free(*b);
}

static void pkey_freep(EVP_PKEY **p)
{
	EVP_PKEY_free(*p);
}

static void mdctx_freep(EVP_MD_CTX **c)
{
	EVP_MD_CTX_free(*c);
}

static void sig_freep(ECDSA_SIG **s)
{
	ECDSA_SIG_free(*s);
}

static void build_freep(OSSL_PARAM_BLD **b)
{
	OSSL_PARAM_BLD_free(*b);
}

void sshsign_begin(void)
{
	uint8_t byte;

	OPENSSL_init_crypto(OPENSSL_INIT_NO_LOAD_CONFIG | OPENSSL_INIT_NO_ATEXIT, NULL);
	(void)!RAND_bytes(&byte, 1);
}

/* --- keys for OpenSSL --------------------------------------------------------------------------------------------- */

struct parts {
	const char *type;  /* "RSA", "EC" */
	const char *curve; /* EC */
	struct slice point;
	struct slice n, e;
	struct slice d; /* empty: a public key */
};

static BIGNUM *sshsign_bignum_of(struct slice s)
{
	BIGNUM *b = BN_secure_new();

	if (b && BN_bin2bn((const unsigned char *)s.p, (int)s.len, b)) {
		BN_set_flags(b, BN_FLG_CONSTTIME);
		return b;
	}
	BN_clear_free(b);
	return NULL;
}

static bool push_key_params(OSSL_PARAM_BLD *bld, const struct parts *p, const BIGNUM *n, const BIGNUM *e,
			    const BIGNUM *d)
{
	if (p->curve)
		return OSSL_PARAM_BLD_push_utf8_string(bld, OSSL_PKEY_PARAM_GROUP_NAME, p->curve, 0) &&
		       OSSL_PARAM_BLD_push_octet_string(bld, OSSL_PKEY_PARAM_PUB_KEY, p->point.p,
							p->point.len) &&
		       (!d || OSSL_PARAM_BLD_push_BN(bld, OSSL_PKEY_PARAM_PRIV_KEY, d));
	return OSSL_PARAM_BLD_push_BN(bld, OSSL_PKEY_PARAM_RSA_N, n) &&
	       OSSL_PARAM_BLD_push_BN(bld, OSSL_PKEY_PARAM_RSA_E, e) &&
	       (!d || OSSL_PARAM_BLD_push_BN(bld, OSSL_PKEY_PARAM_RSA_D, d));
}

static EVP_PKEY *key_from_params(const char *type, bool is_private, OSSL_PARAM *params)
{
	EVP_PKEY_CTX *ctx = EVP_PKEY_CTX_new_from_name(NULL, type, NULL);
	EVP_PKEY *key = NULL;

	if (ctx && EVP_PKEY_fromdata_init(ctx) == 1 &&
	    EVP_PKEY_fromdata(ctx, &key, is_private ? EVP_PKEY_KEYPAIR : EVP_PKEY_PUBLIC_KEY, params) != 1)
		key = NULL;
	EVP_PKEY_CTX_free(ctx);
	return key;
}

/* Builds OpenSSL's key object from the parts of a key. */
static EVP_PKEY *openssl_key(const struct parts *p)
{
	CLEANUP(build_freep) OSSL_PARAM_BLD *bld = OSSL_PARAM_BLD_new();
	CLEANUP(bignum_freep) BIGNUM *n = p->n.len ? sshsign_bignum_of(p->n) : NULL;
	CLEANUP(bignum_freep) BIGNUM *e = p->e.len ? sshsign_bignum_of(p->e) : NULL;
	CLEANUP(bignum_freep) BIGNUM *d = p->d.len ? sshsign_bignum_of(p->d) : NULL;
	OSSL_PARAM *params;
	EVP_PKEY *key = NULL;

	if (!bld || (p->d.len && !d) || (!p->curve && (!n || !e)) || !push_key_params(bld, p, n, e, d))
		return NULL;
	params = OSSL_PARAM_BLD_to_param(bld);
	if (params)
		key = key_from_params(p->type, d != NULL, params);
	/* The parameters contain the private number, too: free them with the function that wipes. */
	for (OSSL_PARAM *q = params; q && q->key; q++)
		OPENSSL_cleanse(q->data, q->data_size);
	OSSL_PARAM_free(params);
	return key;
}

/* --- signing ------------------------------------------------------------------------------------------------------ */

const char *sshsign_algorithm(enum sshkey_kind kind, unsigned flags)
{
	if (kind != SSHKEY_RSA)
		return sshkey_type(kind);
	return flags & SSHSIGN_SHA512 ? "rsa-sha2-512" : flags & SSHSIGN_SHA256 ? "rsa-sha2-256" : NULL;
}

static long sign_ed25519(const struct sshkey *k, struct slice data, uint8_t *out)
{
	autosecmem struct secmem sk = SECMEM_INIT;
	uint8_t pub[crypto_sign_PUBLICKEYBYTES];

	if (secmem_new(&sk, crypto_sign_SECRETKEYBYTES, NULL) < 0)
		return -1;
	crypto_sign_seed_keypair(pub, sk.p, (const uint8_t *)k->seed.p);
	crypto_sign_detached(out, NULL, (const uint8_t *)data.p, data.len, sk.p);
	return crypto_sign_BYTES;
}

/* Converts a DER signature to SSH's form: two numbers. */
static long ecdsa_to_ssh(const uint8_t *der, size_t len, uint8_t *out)
{
	const unsigned char *p = der;
	CLEANUP(sig_freep) ECDSA_SIG *sig = d2i_ECDSA_SIG(NULL, &p, (long)len);
	struct wire_out w = { .p = out, .cap = RAW_MAX };
	uint8_t num[66];

	for (int i = 0; sig && i < 2; i++) {
		const BIGNUM *n = i ? ECDSA_SIG_get0_s(sig) : ECDSA_SIG_get0_r(sig);
		int size = BN_num_bytes(n);

		if (size > (int)sizeof(num))
			return -1;
		BN_bn2bin(n, num);
		ssh_put_mpint(&w, (struct slice){ (const char *)num, (size_t)size });
	}
	return sig && !w.bad ? (long)w.len : -1;
}

/* RSA and ECDSA; returns the length of the raw signature, negative on failure. */
static long sign_openssl(const struct sshkey *k, unsigned flags, struct slice data, uint8_t *out)
{
	bool rsa = k->kind == SSHKEY_RSA;
	struct parts p = { .type = rsa ? "RSA" : "EC",
			   .curve = rsa ? NULL : "prime256v1",
			   .point = k->q,
			   .n = k->n,
			   .e = k->e,
			   .d = k->d };
	CLEANUP(pkey_freep) EVP_PKEY *key = openssl_key(&p);
	CLEANUP(mdctx_freep) EVP_MD_CTX *md = EVP_MD_CTX_new();
	const EVP_MD *hash = rsa && flags & SSHSIGN_SHA512 ? EVP_sha512() : EVP_sha256();
	uint8_t der[RAW_MAX];
	size_t len = rsa ? RAW_MAX : sizeof(der);

	if (!key || !md || EVP_DigestSignInit(md, NULL, hash, NULL, key) != 1 ||
	    EVP_DigestSign(md, rsa ? out : der, &len, (const unsigned char *)data.p, data.len) != 1)
		return -1;
	return rsa ? (long)len : ecdsa_to_ssh(der, len, out);
}

int sshsign(const struct sshkey *k, unsigned flags, struct slice data, uint8_t out[SSHSIGN_MAX],
	    size_t *ret_len)
{
	const char *algorithm = sshsign_algorithm(k->kind, flags);
	struct wire_out w = { .p = out, .cap = SSHSIGN_MAX };
	uint8_t raw[RAW_MAX];
	long n;

	if (!algorithm)
		return -EINVAL;
	n = k->kind == SSHKEY_ED25519 ? sign_ed25519(k, data, raw) : sign_openssl(k, flags, data, raw);
	if (n < 0)
		return -EIO;
	ssh_put_text(&w, algorithm);
	ssh_put(&w, (struct slice){ (const char *)raw, (size_t)n });
	if (w.bad)
		return -EIO;
	*ret_len = w.len;
	return 0;
}

/* --- checking ----------------------------------------------------------------------------------------------------- */

static bool verify_openssl(const struct parts *p, const EVP_MD *hash, const uint8_t *sig, size_t len,
			   struct slice data)
{
	CLEANUP(pkey_freep) EVP_PKEY *key = openssl_key(p);
	CLEANUP(mdctx_freep) EVP_MD_CTX *md = EVP_MD_CTX_new();

	return key && md && EVP_DigestVerifyInit(md, NULL, hash, NULL, key) == 1 &&
	       EVP_DigestVerify(md, sig, len, (const unsigned char *)data.p, data.len) == 1;
}

static bool sshsign_verify_rsa(struct wire_in *key, struct slice algorithm, struct slice raw,
			       struct slice data)
{
	struct parts p = { .type = "RSA" };
	bool sha512 = slice_eq(algorithm, "rsa-sha2-512");

	p.e = ssh_get_mpint(key);
	p.n = ssh_get_mpint(key);
	if (!ssh_is_done(key) || (!sha512 && !slice_eq(algorithm, "rsa-sha2-256")) || raw.len > p.n.len)
		return false;
	return verify_openssl(&p, sha512 ? EVP_sha512() : EVP_sha256(), (const uint8_t *)raw.p, raw.len,
			      data);
}

static bool verify_ed25519(struct wire_in *key, struct slice raw, struct slice data)
{
	struct slice pub = ssh_get(key);

	return ssh_is_done(key) && pub.len == crypto_sign_PUBLICKEYBYTES && raw.len == crypto_sign_BYTES &&
	       crypto_sign_verify_detached((const uint8_t *)raw.p, (const uint8_t *)data.p, data.len,
					   (const uint8_t *)pub.p) == 0;
}

static const struct curve {
	const char *type, *name, *openssl;
	const EVP_MD *(*hash)(void);
} curves[] = {
	{ "ecdsa-sha2-nistp256", "nistp256", "prime256v1", EVP_sha256 },
	{ "ecdsa-sha2-nistp384", "nistp384", "secp384r1", EVP_sha384 },
	{ "ecdsa-sha2-nistp521", "nistp521", "secp521r1", EVP_sha512 },
};

/* Converts SSH's two numbers to DER, which OpenSSL verifies. */
static bool verify_ecdsa(const struct curve *c, struct wire_in *key, struct slice raw, struct slice data)
{
	struct wire_in in = { .p = (const uint8_t *)raw.p, .left = raw.len };
	struct slice name = ssh_get(key), r = ssh_get_mpint(&in), s = ssh_get_mpint(&in);
	struct parts p = { .type = "EC", .curve = c->openssl, .point = ssh_get(key) };
	CLEANUP(sig_freep) ECDSA_SIG *sig = ECDSA_SIG_new();
	unsigned char *der = NULL;
	bool good = false;
	BIGNUM *br, *bs;
	int len;

	if (!ssh_is_done(key) || !ssh_is_done(&in) || !slice_eq(name, c->name) || r.len > 66 || s.len > 66 ||
	    !sig)
		return false;
	br = sshsign_bignum_of(r);
	bs = sshsign_bignum_of(s);
	if (!br || !bs || ECDSA_SIG_set0(sig, br, bs) != 1) {
		BN_free(br);
		BN_free(bs);
		return false;
	}
	len = i2d_ECDSA_SIG(sig, &der);
	good = len > 0 && verify_openssl(&p, c->hash(), der, (size_t)len, data);
	OPENSSL_free(der);
	return good;
}

bool sshsign_check(struct slice blob, struct slice signature, struct slice data)
{
	struct wire_in key = { .p = (const uint8_t *)blob.p, .left = blob.len };
	struct wire_in in = { .p = (const uint8_t *)signature.p, .left = signature.len };
	struct slice type = ssh_get(&key), algorithm = ssh_get(&in), raw = ssh_get(&in);

	if (key.bad || !ssh_is_done(&in) || raw.len > RAW_MAX)
		return false;
	if (slice_eq(type, "ssh-rsa"))
		return sshsign_verify_rsa(&key, algorithm, raw, data);
	if (!slice_same(type, algorithm))
		return false;
	if (slice_eq(type, "ssh-ed25519"))
		return verify_ed25519(&key, raw, data);
	for (size_t i = 0; i < ARRAY_SIZE(curves); i++) {
		if (slice_eq(type, curves[i].type))
			return verify_ecdsa(&curves[i], &key, raw, data);
	}
	return false;
}
