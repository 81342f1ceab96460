/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses a private SSH key into locked memory (sshkey.h). Only coffer-vault links this file. No byte of a key
 * appears in a message, and a key is refused unless it was read to its last byte.
 */

#include "vault/ssh/sshkey.h"

#include "base/cleanup.h"
#include "crypto/hash.h"
#include "vault/ssh/sshwire.h"

#include <assert.h>
#include <errno.h>
#include <sodium.h>
#include <stdio.h>

#define ED_LEN 32
#define POINT_LEN 65 /* of P-256: 4, x, y */
#define RSA_MIN 256  /* bytes: 2048 bits */
#define RSA_MAX 1024
#define E_MAX 8

static const char *const types[] = {
	[SSHKEY_ED25519] = "ssh-ed25519", [SSHKEY_P256] = "ecdsa-sha2-nistp256", [SSHKEY_RSA] = "ssh-rsa"
};
static_assert(ARRAY_SIZE(types) == SSHKEY_KINDS, "a name for each kind");

const char *sshkey_type(enum sshkey_kind k)
{
	return types[k];
}

void sshkey_release(struct sshkey *k)
{
	secmem_release(&k->mem);
	*k = SSHKEY_INIT;
}

void sshkey_print(struct slice blob, char out[SSHKEY_PRINT_LEN + 1])
{
	unsigned char sum[HASH_LEN];

	hash_sha256(blob.p, blob.len, sum);
	memcpy(out, "SHA256:", 8);
	sodium_bin2base64(out + 7, SSHKEY_PRINT_LEN + 1 - 7, sum, sizeof(sum),
			  sodium_base64_VARIANT_ORIGINAL_NO_PADDING);
}

static int refuse_key(struct err *e, const char *why)
{
	err_set(e, -EINVAL, "the value is not a private key that can sign for SSH: %s", why);
	return err_hint(e, -EINVAL,
			"ssh-keygen -t ed25519 -N '' -f KEY makes one; coffer secret set NAME --file KEY");
}

static int refuse_encrypted_key(struct err *e)
{
	err_set(e, -EINVAL, "the private key is encrypted, and its passphrase cannot be typed in a sandbox");
	return err_hint(
		e, -EINVAL,
		"the vault encrypts it anyway: decrypt a copy (cp KEY COPY; ssh-keygen -p -N '' -f COPY), "
		"store that, then delete it");
}

/* --- the public part -------------------------------------------------------------------------------------------- */

/* Writes the public key in SSH's wire format. */
static void put_public_key(const struct sshkey *k, const uint8_t *ed, struct wire_out *w)
{
	ssh_put_text(w, types[k->kind]);
	if (k->kind == SSHKEY_ED25519)
		ssh_put(w, (struct slice){ (const char *)ed, ED_LEN });
	if (k->kind == SSHKEY_P256) {
		ssh_put_text(w, "nistp256");
		ssh_put(w, k->q);
	}
	if (k->kind == SSHKEY_RSA) {
		ssh_put_mpint(w, k->e);
		ssh_put_mpint(w, k->n);
	}
}

/* Do all parts have the lengths of their kind? */
static bool has_valid_parts(const struct sshkey *k)
{
	switch (k->kind) {
	case SSHKEY_ED25519:
		return k->seed.len == ED_LEN;
	case SSHKEY_P256:
		return k->q.len == POINT_LEN && k->q.p[0] == 4 && k->d.len > 0 && k->d.len <= 32;
	default:
		return k->n.len >= RSA_MIN && k->n.len <= RSA_MAX && k->e.len > 0 && k->e.len <= E_MAX &&
		       k->d.len > 0 && k->d.len <= k->n.len && k->n.p[k->n.len - 1] & 1 &&
		       k->e.p[k->e.len - 1] & 1;
	}
}

/* Makes the public key from the parsed parts. */
static int make_public_key(struct sshkey *k, struct err *e)
{
	struct wire_out w = { .p = k->blob, .cap = sizeof(k->blob) };
	autosecmem struct secmem sk = SECMEM_INIT;
	uint8_t ed[ED_LEN] = { 0 };

	if (!has_valid_parts(k))
		return refuse_key(e, k->kind == SSHKEY_RSA ? "an RSA key has 2048 to 8192 bits"
							   : "its parts do not have the right lengths");
	if (k->kind == SSHKEY_ED25519) {
		int r = secmem_new(&sk, crypto_sign_SECRETKEYBYTES, e);

		if (r < 0)
			return r;
		crypto_sign_seed_keypair(ed, sk.p, (const uint8_t *)k->seed.p);
	}
	put_public_key(k, ed, &w);
	if (w.bad)
		return refuse_key(e, "it is too long");
	k->blob_len = w.len;
	return 0;
}

/* --- OpenSSH's own format ----------------------------------------------------------------------------------------- */

/* Reads the private section of OpenSSH's format. */
static void get_openssh_private(struct wire_in *in, struct sshkey *k)
{
	struct slice type = ssh_get(in), s;
	unsigned kind = 0;

	while (kind < SSHKEY_KINDS && !slice_eq(type, types[kind]))
		kind++;
	if (kind == SSHKEY_KINDS) {
		in->bad = true;
		return;
	}
	k->kind = (enum sshkey_kind)kind;
	if (k->kind == SSHKEY_ED25519) {
		struct slice pub = ssh_get(in);

		s = ssh_get(in);
		if (pub.len != ED_LEN || s.len != 2 * (size_t)ED_LEN ||
		    memcmp(s.p + ED_LEN, pub.p, ED_LEN) != 0)
			in->bad = true;
		k->seed = (struct slice){ s.p, in->bad ? 0 : ED_LEN };
	} else if (k->kind == SSHKEY_P256) {
		if (!slice_eq(ssh_get(in), "nistp256"))
			in->bad = true;
		k->q = ssh_get(in);
		k->d = ssh_get_mpint(in);
	} else {
		k->n = ssh_get_mpint(in);
		k->e = ssh_get_mpint(in);
		k->d = ssh_get_mpint(in);
		for (int i = 0; i < 3; i++) /* iqmp, p, q */
			(void)ssh_get_mpint(in);
	}
	(void)ssh_get(in); /* the comment */
}

/* Padding counts 1, 2, 3 … up to the cipher's block size, which is 8 for unencrypted keys. */
static bool is_padding(const struct wire_in *in)
{
	for (size_t i = 0; i < in->left; i++) {
		if (in->p[i] != i + 1)
			return false;
	}
	return in->left < 8;
}

/* Parses OpenSSH's own format; refuses encrypted keys, and keys whose two public parts differ. */
static int parse_openssh(struct sshkey *k, struct err *e)
{
	static const char magic[] = "openssh-key-v1";
	struct wire_in in = { .p = k->mem.p, .left = k->mem.len }, priv;
	struct slice head = wire_get_bytes(&in, sizeof(magic)), cipher, kdf, pub, s;
	uint32_t check;
	int r;

	if (in.bad || memcmp(head.p, magic, sizeof(magic)) != 0)
		return refuse_key(e, "the text between its first and last line is not in OpenSSH's format");
	cipher = ssh_get(&in);
	kdf = ssh_get(&in);
	s = ssh_get(&in);
	if (!in.bad && (!slice_eq(cipher, "none") || !slice_eq(kdf, "none") || s.len))
		return refuse_encrypted_key(e);
	if (ssh_get_u32(&in) != 1)
		in.bad = true;
	pub = ssh_get(&in);
	s = ssh_get(&in);
	if (!ssh_is_done(&in))
		return refuse_key(e, "it is cut off or damaged");
	priv = (struct wire_in){ .p = (const uint8_t *)s.p, .left = s.len };
	check = ssh_get_u32(&priv);
	if (ssh_get_u32(&priv) != check)
		priv.bad = true;
	get_openssh_private(&priv, k);
	if (priv.bad || !is_padding(&priv))
		return refuse_key(e, "it is damaged, or of a kind other than ed25519, ecdsa (P-256) and RSA");
	r = make_public_key(k, e);
	if (r == 0 && !slice_same(pub, (struct slice){ (const char *)k->blob, k->blob_len }))
		r = refuse_key(e, "its public and private parts do not match");
	return r;
}

/* --- DER ---------------------------------------------------------------------------------------------------------- */

enum { DER_INT = 2, DER_BITS = 3, DER_OCTETS = 4, DER_OID = 6, DER_SEQ = 0x30, DER_0 = 0xa0, DER_1 = 0xa1 };

/* The contents of the next element; bad if it has another tag, or a length that is not in its shortest
 * form. */
static struct slice der_get(struct wire_in *in, uint8_t tag)
{
	uint8_t t = ssh_get_byte(in), first = ssh_get_byte(in);
	size_t len = first;

	if (t != tag)
		in->bad = true;
	if (first & 0x80) {
		unsigned n = first & 0x7f;

		len = 0;
		if (n == 0 || n > 2)
			in->bad = true;
		for (unsigned i = 0; i < n && !in->bad; i++)
			len = len << 8 | ssh_get_byte(in);
		if (len < 0x80 || (n == 2 && len < 0x100))
			in->bad = true;
	}
	return wire_get_bytes(in, len);
}

static struct wire_in der_in(struct wire_in *in, uint8_t tag)
{
	struct slice s = der_get(in, tag);

	return (struct wire_in){ .p = (const uint8_t *)s.p, .left = s.len, .bad = in->bad };
}

static struct slice der_number(struct wire_in *in)
{
	struct slice s = der_get(in, DER_INT);

	if (s.len == 0 || (uint8_t)s.p[0] & 0x80)
		in->bad = true;
	while (!in->bad && s.len && s.p[0] == 0) {
		s.p++;
		s.len--;
	}
	return s;
}

static bool der_is_number(struct wire_in *in, uint8_t v)
{
	struct slice s = der_get(in, DER_INT);

	return !in->bad && s.len == 1 && (uint8_t)s.p[0] == v;
}

static int der_damaged(struct err *e)
{
	return refuse_key(e, "it is damaged, or of a kind other than ed25519, ecdsa (P-256) and RSA");
}

/* RFC 8017: version 0, n, e, d, p, q, two exponents, the coefficient. */
static int parse_rsa(struct sshkey *k, struct wire_in in, struct err *e)
{
	struct wire_in seq = der_in(&in, DER_SEQ);
	bool ok = der_is_number(&seq, 0);

	k->kind = SSHKEY_RSA;
	k->n = der_number(&seq);
	k->e = der_number(&seq);
	k->d = der_number(&seq);
	for (int i = 0; i < 5; i++)
		(void)der_number(&seq);
	return ok && ssh_is_done(&seq) && ssh_is_done(&in) ? make_public_key(k, e) : der_damaged(e);
}

static const uint8_t oid_p256[] = { 0x2a, 0x86, 0x48, 0xce, 0x3d, 3, 1, 7 };
static const uint8_t oid_ec[] = { 0x2a, 0x86, 0x48, 0xce, 0x3d, 2, 1 };
static const uint8_t oid_rsa[] = { 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 1 };
static const uint8_t oid_ed25519[] = { 0x2b, 0x65, 0x70 };

#define IS_OID(s, oid) slice_same((s), (struct slice){ (const char *)(oid), sizeof(oid) })

/* RFC 5915: version 1, the private number, [0] the curve, [1] the public point. */
static int parse_ec(struct sshkey *k, struct wire_in in, bool has_curve, struct err *e)
{
	struct wire_in seq = der_in(&in, DER_SEQ), sub;
	struct slice bits;
	bool ok = der_is_number(&seq, 1);

	k->kind = SSHKEY_P256;
	k->d = der_get(&seq, DER_OCTETS);
	if (seq.left && seq.p[0] == DER_0) {
		sub = der_in(&seq, DER_0);
		ok = ok && IS_OID(der_get(&sub, DER_OID), oid_p256) && ssh_is_done(&sub);
		has_curve = true;
	}
	if (ok && ssh_is_done(&seq))
		return refuse_key(e, "it has no public part; openssl ec -in KEY adds it");
	sub = der_in(&seq, DER_1);
	bits = der_get(&sub, DER_BITS);
	if (!ok || !has_curve || !ssh_is_done(&sub) || !ssh_is_done(&seq) || !ssh_is_done(&in) ||
	    bits.len < 1 || bits.p[0] != 0)
		return der_damaged(e);
	k->q = (struct slice){ bits.p + 1, bits.len - 1 };
	return make_public_key(k, e);
}

/* RFC 8410: the seed in an octet string of its own. */
static int parse_ed25519(struct sshkey *k, struct wire_in in, struct err *e)
{
	k->kind = SSHKEY_ED25519;
	k->seed = der_get(&in, DER_OCTETS);
	return ssh_is_done(&in) ? make_public_key(k, e) : der_damaged(e);
}

/* RFC 5208: version 0, the algorithm, the key. No attributes. */
static int parse_pkcs8(struct sshkey *k, struct err *e)
{
	struct wire_in in = { .p = k->mem.p, .left = k->mem.len }, seq = der_in(&in, DER_SEQ), alg, key;
	bool ok = der_is_number(&seq, 0);
	struct slice oid;

	alg = der_in(&seq, DER_SEQ);
	key = der_in(&seq, DER_OCTETS);
	oid = der_get(&alg, DER_OID);
	if (!ok || alg.bad || !ssh_is_done(&seq) || !ssh_is_done(&in))
		return der_damaged(e);
	if (IS_OID(oid, oid_ed25519) && alg.left == 0)
		return parse_ed25519(k, key, e);
	if (IS_OID(oid, oid_rsa))
		return parse_rsa(k, key, e);
	if (IS_OID(oid, oid_ec) && IS_OID(der_get(&alg, DER_OID), oid_p256) && ssh_is_done(&alg))
		return parse_ec(k, key, true, e);
	return der_damaged(e);
}

static int parse_pkcs1(struct sshkey *k, struct err *e)
{
	return parse_rsa(k, (struct wire_in){ .p = k->mem.p, .left = k->mem.len }, e);
}

static int parse_sec1(struct sshkey *k, struct err *e)
{
	return parse_ec(k, (struct wire_in){ .p = k->mem.p, .left = k->mem.len }, false, e);
}

/* --- the text around it ------------------------------------------------------------------------------------------- */

static const struct form {
	const char *label;
	int (*parse)(struct sshkey *k, struct err *e); /* NULL: encrypted */
} forms[] = {
	{ "OPENSSH PRIVATE KEY", parse_openssh }, { "PRIVATE KEY", parse_pkcs8 },
	{ "RSA PRIVATE KEY", parse_pkcs1 },	  { "EC PRIVATE KEY", parse_sec1 },
	{ "ENCRYPTED PRIVATE KEY", NULL },
};

static struct slice trim_blanks(struct slice s)
{
	while (s.len && strchr(" \t\r\n", s.p[0]) && s.p[0]) {
		s.p++;
		s.len--;
	}
	while (s.len && strchr(" \t\r\n", s.p[s.len - 1]) && s.p[s.len - 1])
		s.len--;
	return s;
}

/* The text between the BEGIN and END lines of that label; false if the text has another form. */
static bool pem_body(struct slice text, const char *label, struct slice *ret)
{
	char line[64];
	size_t n = (size_t)snprintf(line, sizeof(line), "-----BEGIN %s-----", label);

	if (!slice_starts(text, line))
		return false;
	text.p += n;
	text.len -= n;
	n = (size_t)snprintf(line, sizeof(line), "-----END %s-----", label);
	if (text.len < n || memcmp(text.p + text.len - n, line, n) != 0)
		return false;
	*ret = (struct slice){ text.p, text.len - n };
	return true;
}

static int decode_pem_body(struct sshkey *k, struct slice body, struct err *e)
{
	int r = secmem_new(&k->mem, body.len ? body.len : 1, e);

	if (r < 0)
		return r;
	if (memmem(body.p, body.len, "Proc-Type:", 10))
		return refuse_encrypted_key(e);
	if (sodium_base642bin(k->mem.p, k->mem.cap, body.p, body.len, " \t\r\n", &k->mem.len, NULL,
			      sodium_base64_VARIANT_ORIGINAL) < 0)
		return refuse_key(e, "it is not base64 between its first and its last line");
	return 0;
}

int sshkey_parse(const void *text, size_t len, struct sshkey *ret, struct err *e)
{
	CLEANUP(sshkey_release) struct sshkey k = SSHKEY_INIT;
	struct slice all = trim_blanks((struct slice){ text, len }), body;
	int r;

	for (size_t i = 0; i < ARRAY_SIZE(forms); i++) {
		if (!pem_body(all, forms[i].label, &body))
			continue;
		if (!forms[i].parse)
			return refuse_encrypted_key(e);
		r = decode_pem_body(&k, body, e);
		if (r == 0)
			r = forms[i].parse(&k, e);
		if (r < 0)
			return r;
		*ret = k;
		k = SSHKEY_INIT;
		return 0;
	}
	return refuse_key(
		e,
		memmem(text, len, "ssh-", 4) && !memmem(text, len, "PRIVATE", 7)
			? "it is a public key; the private one is the file without .pub"
			: "it has no line -----BEGIN OPENSSH PRIVATE KEY----- (or PRIVATE KEY) and the last to match");
}
