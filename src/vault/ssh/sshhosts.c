/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Public keys of SSH servers: reads known_hosts files and .pub lines, and packs the keys for the sealed file
 * (sshhosts.h). Pure. Files may come from anywhere: a line that is not understood is skipped, and lengths are
 * bounded (sshhosts.H1, sshhosts.H2).
 */

#include "vault/ssh/sshhosts.h"

#include "base/str.h"
#include "base/vec.h"
#include "vault/ssh/sshwire.h"

#include <errno.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>

#define LINE_MAX_ 8192
#define SHA1_LEN 20

void sshhosts_release(struct sshhosts *h)
{
	free(h->v);
	*h = SSHHOSTS_INIT;
}

/* --- keys --------------------------------------------------------------------------------------------------------- */

static bool is_point(struct slice p, size_t len)
{
	return p.len == 2 * len + 1 && p.p[0] == 4;
}

bool sshhosts_is_key(struct slice key)
{
	static const struct {
		const char *type, *curve;
		size_t len;
	} curves[] = { { "ecdsa-sha2-nistp256", "nistp256", 32 },
		       { "ecdsa-sha2-nistp384", "nistp384", 48 },
		       { "ecdsa-sha2-nistp521", "nistp521", 66 } };
	struct wire_in in = { .p = (const uint8_t *)key.p, .left = key.len };
	struct slice type = ssh_get(&in), a = ssh_get(&in), b;

	if (in.bad || key.len > SSHHOSTS_KEY_MAX)
		return false;
	if (slice_eq(type, "ssh-ed25519"))
		return a.len == 32 && ssh_is_done(&in);
	if (slice_eq(type, "ssh-rsa")) {
		b = ssh_get_mpint(&in);
		return a.len > 0 && a.len <= 8 && !((uint8_t)a.p[0] & 0x80) && a.p[a.len - 1] & 1 &&
		       b.len >= 256 && b.len <= 1024 && b.p[b.len - 1] & 1 && ssh_is_done(&in);
	}
	b = ssh_get(&in);
	for (size_t i = 0; i < ARRAY_SIZE(curves); i++) {
		if (slice_eq(type, curves[i].type))
			return slice_eq(a, curves[i].curve) && is_point(b, curves[i].len) && ssh_is_done(&in);
	}
	return false;
}

static bool is_same_known_host(const struct sshhost *a, const struct sshhost *b)
{
	return a->port == b->port && a->len == b->len && str_eq(a->host, b->host) &&
	       memcmp(a->key, b->key, a->len) == 0;
}

static bool is_canonical_host(const char *host)
{
	struct host h;

	return host_canon(host, strlen(host), &h, NULL) == 0 && str_eq(h.text, host);
}

static int add_host_key(struct sshhosts *h, const struct sshhost *n)
{
	int r;

	for (size_t i = 0; i < h->n; i++) {
		if (is_same_known_host(&h->v[i], n))
			return 0;
	}
	r = VEC_MORE(h->v, h->n, SSHHOSTS_MAX);
	if (r < 0)
		return r;
	h->v[h->n++] = *n;
	return 0;
}

int sshhosts_add(struct sshhosts *h, const char *host, uint16_t port, struct slice key)
{
	struct sshhost n = { .port = port, .len = key.len };

	if (!port || strlen(host) > HOST_MAX || !is_canonical_host(host) || !sshhosts_is_key(key))
		return -EINVAL;
	memcpy(n.host, host, strlen(host) + 1);
	memcpy(n.key, key.p, key.len);
	return add_host_key(h, &n);
}

int sshhosts_join(struct sshhosts *h, const struct sshhosts *more)
{
	int r = 0;

	for (size_t i = 0; i < more->n && r == 0; i++)
		r = add_host_key(h, &more->v[i]);
	return r;
}

void sshhosts_drop(struct sshhosts *h, const char *host, uint16_t port)
{
	size_t kept = 0;

	for (size_t i = 0; i < h->n; i++) {
		if (str_eq(h->v[i].host, host) && (!port || h->v[i].port == port))
			continue;
		if (kept != i)
			h->v[kept] = h->v[i];
		kept++;
	}
	h->n = kept;
}

bool sshhosts_has(const struct sshhosts *h, const char *host, uint16_t port)
{
	for (size_t i = 0; i < h->n; i++) {
		if (h->v[i].port == port && str_eq(h->v[i].host, host))
			return true;
	}
	return false;
}

/* --- text --------------------------------------------------------------------------------------------------------- */

/* Cuts the next word off the front of a line. */
static struct slice next_word(struct slice *line)
{
	struct slice w;

	while (line->len && (*line->p == ' ' || *line->p == '\t')) {
		line->p++;
		line->len--;
	}
	w = (struct slice){ line->p, 0 };
	while (line->len && *line->p != ' ' && *line->p != '\t') {
		line->p++;
		line->len--;
		w.len++;
	}
	return w;
}

/* Decodes "TYPE BASE64 …". */
static int decode_key_line(struct slice line, uint8_t key[SSHHOSTS_KEY_MAX], size_t *ret_len)
{
	struct slice type = next_word(&line), text = next_word(&line), inner;
	struct wire_in in;

	if (!type.len || !text.len ||
	    sodium_base642bin(key, SSHHOSTS_KEY_MAX, text.p, text.len, NULL, ret_len, NULL,
			      sodium_base64_VARIANT_ORIGINAL) < 0)
		return -EINVAL;
	in = (struct wire_in){ .p = key, .left = *ret_len };
	inner = ssh_get(&in);
	return slice_same(inner, type) && sshhosts_is_key((struct slice){ (char *)key, *ret_len }) ? 0
												   : -EINVAL;
}

int sshhosts_add_text(struct sshhosts *h, const char *host, uint16_t port, const char *text, struct err *e)
{
	uint8_t key[SSHHOSTS_KEY_MAX];
	size_t len = 0;
	int r = strlen(text) > LINE_MAX_ || strchr(text, '\n') ? -EINVAL
							       : decode_key_line(slice_of(text), key, &len);

	if (r == 0)
		r = sshhosts_add(h, host, port, (struct slice){ (char *)key, len });
	if (r == -E2BIG)
		return err_set(e, r, "a secret can have at most %d keys of hosts", SSHHOSTS_MAX);
	if (r < 0)
		return err_set(e, r,
			       "'%.40s…' is not a valid key of an SSH server: expected 'ssh-ed25519 "
			       "AAAA…', ecdsa-sha2-nistp… or ssh-rsa",
			       text);
	return 0;
}

/* SHA-1, only to compare host names that OpenSSH has hashed in known_hosts. Nothing here relies on it for
 * security. */
struct sha1 {
	uint32_t h[5];
	uint64_t len;
	uint8_t block[64];
};

static uint32_t rotate_left(uint32_t v, unsigned n)
{
	return v << n | v >> (32 - n);
}

static void sha1_block(struct sha1 *s)
{
	uint32_t w[80], v[5], t;

	for (int i = 0; i < 16; i++) {
		memcpy(&t, s->block + 4 * (size_t)i, 4);
		w[i] = __builtin_bswap32(t);
	}
	for (int i = 16; i < 80; i++)
		w[i] = rotate_left(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 1);
	memcpy(v, s->h, sizeof(v));
	for (int i = 0; i < 80; i++) {
		uint32_t f = i < 20		 ? (v[1] & v[2]) | (~v[1] & v[3])
			     : i < 40 || i >= 60 ? v[1] ^ v[2] ^ v[3]
						 : (v[1] & v[2]) | (v[1] & v[3]) | (v[2] & v[3]);
		static const uint32_t k[] = { 0x5a827999, 0x6ed9eba1, 0x8f1bbcdc, 0xca62c1d6 };

		t = rotate_left(v[0], 5) + f + v[4] + k[i / 20] + w[i];
		v[4] = v[3];
		v[3] = v[2];
		v[2] = rotate_left(v[1], 30);
		v[1] = v[0];
		v[0] = t;
	}
	for (int i = 0; i < 5; i++)
		s->h[i] += v[i];
}

static void sha1_add(struct sha1 *s, const void *data, size_t len)
{
	const uint8_t *p = data;

	for (size_t i = 0; i < len; i++) {
		s->block[s->len++ % 64] = p[i];
		if (s->len % 64 == 0)
			sha1_block(s);
	}
}

static void sha1_end(struct sha1 *s, uint8_t out[SHA1_LEN])
{
	uint64_t bits = __builtin_bswap64(s->len * 8);
	uint32_t t;

	sha1_add(s, "\x80", 1);
	while (s->len % 64 != 56)
		sha1_add(s, "", 1);
	sha1_add(s, &bits, 8);
	for (int i = 0; i < 5; i++) {
		t = __builtin_bswap32(s->h[i]);
		memcpy(out + 4 * (size_t)i, &t, 4);
	}
}

#define SHA1_INIT ((struct sha1){ .h = { 0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0 } })

static void hmac_sha1(const uint8_t *key, size_t key_len, const char *text, uint8_t out[SHA1_LEN])
{
	struct sha1 in = SHA1_INIT, o = SHA1_INIT;
	uint8_t a[64] = { 0 }, b[64];

	memcpy(a, key, key_len);
	for (int i = 0; i < 64; i++) {
		b[i] = a[i] ^ 0x5c;
		a[i] ^= 0x36;
	}
	sha1_add(&in, a, 64);
	sha1_add(&in, text, strlen(text));
	sha1_end(&in, out);
	sha1_add(&o, b, 64);
	sha1_add(&o, out, SHA1_LEN);
	sha1_end(&o, out);
}

/* Does a hashed name, "|1|salt|digest", belong to this host? */
static bool is_hashed_host(struct slice names, const char *want)
{
	const char *bar = names.len > 3 ? memchr(names.p + 3, '|', names.len - 3) : NULL;
	uint8_t salt[SHA1_LEN + 1], sum[SHA1_LEN + 1], mine[SHA1_LEN];
	size_t salt_len = 0, sum_len = 0;

	if (!slice_starts(names, "|1|") || !bar ||
	    sodium_base642bin(salt, sizeof(salt), names.p + 3, (size_t)(bar - names.p) - 3, NULL, &salt_len,
			      NULL, sodium_base64_VARIANT_ORIGINAL) < 0 ||
	    sodium_base642bin(sum, sizeof(sum), bar + 1, names.len - (size_t)(bar - names.p) - 1, NULL,
			      &sum_len, NULL, sodium_base64_VARIANT_ORIGINAL) < 0 ||
	    salt_len != SHA1_LEN || sum_len != SHA1_LEN)
		return false;
	hmac_sha1(salt, salt_len, want, mine);
	return memcmp(mine, sum, SHA1_LEN) == 0;
}

/* Exact names only: a pattern may cover other hosts, and a negated name marks a special case. */
static bool line_names_host(struct slice names, const char *want)
{
	if (names.len && names.p[0] == '|')
		return is_hashed_host(names, want);
	while (names.len) {
		const char *comma = memchr(names.p, ',', names.len);
		size_t n = comma ? (size_t)(comma - names.p) : names.len;

		if (slice_eq_nocase((struct slice){ names.p, n }, want))
			return true;
		names.p += comma ? n + 1 : n;
		names.len -= comma ? n + 1 : n;
	}
	return false;
}

struct known {
	struct sshhosts *into;
	const char *host;
	uint16_t port;
	char want[HOST_MAX + 16]; /* as the file writes it */
	bool gathers;		  /* first pass: collect revoked keys; second pass: take the others */
	struct buf revoked; /* each one a size_t and a key; at most SSHHOSTS_FILE_MAX bytes, like the file */
	int n;
};

static bool is_revoked_key(const struct buf *revoked, struct slice key)
{
	size_t len;

	for (size_t at = 0; at < revoked->len; at += sizeof(len) + len) {
		memcpy(&len, revoked->data + at, sizeof(len));
		if (slice_same(key, (struct slice){ revoked->data + at + sizeof(len), len }))
			return true;
	}
	return false;
}

/* Handles one line. Revoked keys are collected in the first pass, under any name, and skipped in the
 * second. */
static int take_known_line(struct known *k, struct slice line)
{
	struct slice names = next_word(&line);
	bool marked = names.len && names.p[0] == '@', is_revoked = slice_eq(names, "@revoked");
	uint8_t key[SSHHOSTS_KEY_MAX];
	struct slice s = { (char *)key, 0 };
	int r;

	if (marked)
		names = next_word(&line);
	if (!names.len || names.p[0] == '#' || is_revoked != k->gathers || (marked && !is_revoked) ||
	    (!is_revoked && !line_names_host(names, k->want)) || decode_key_line(line, key, &s.len) < 0)
		return 0;
	if (is_revoked) {
		buf_add(&k->revoked, &s.len, sizeof(s.len));
		buf_add(&k->revoked, s.p, s.len);
		return buf_error(&k->revoked) ? -ENOMEM : 0;
	}
	if (is_revoked_key(&k->revoked, s))
		return 0;
	r = sshhosts_add(k->into, k->host, k->port, s);
	k->n += r == 0;
	return r;
}

/* Handles all lines of a known_hosts file in one pass. */
static int take_known_lines(struct known *k, struct slice file)
{
	int r = 0;

	while (file.len && r == 0) {
		const char *end = memchr(file.p, '\n', file.len);
		size_t n = end ? (size_t)(end - file.p) : file.len;
		struct slice line = { file.p, n };

		while (line.len && line.p[line.len - 1] == '\r')
			line.len--;
		if (line.len <= LINE_MAX_)
			r = take_known_line(k, line);
		file.p += end ? n + 1 : n;
		file.len -= end ? n + 1 : n;
	}
	return r;
}

int sshhosts_add_file(struct sshhosts *h, const char *host, uint16_t port, struct slice file, struct err *e)
{
	struct known k = { .into = h, .host = host, .port = port, .gathers = true };
	int r;

	if (file.len > SSHHOSTS_FILE_MAX)
		return err_set(e, -E2BIG, "a known_hosts file has at most %u bytes", SSHHOSTS_FILE_MAX);
	snprintf(k.want, sizeof(k.want), port == SSHHOSTS_PORT ? "%s" : "[%s]:%u", host, port);
	r = take_known_lines(&k, file);
	k.gathers = false;
	if (r == 0)
		r = take_known_lines(&k, file);
	buf_release(&k.revoked);
	if (r == -E2BIG)
		return err_set(e, r, "a secret can have at most %d keys of hosts", SSHHOSTS_MAX);
	return r < 0 ? err_set(e, r, "out of memory for the keys of hosts") : k.n;
}

void sshhosts_text(const struct sshhosts *h, struct buf *out)
{
	for (size_t i = 0; i < h->n; i++) {
		const struct sshhost *n = &h->v[i];
		struct wire_in in = { .p = n->key, .left = n->len };
		struct slice type = ssh_get(&in);
		char text[2 * SSHHOSTS_KEY_MAX];

		sodium_bin2base64(text, sizeof(text), n->key, n->len, sodium_base64_VARIANT_ORIGINAL);
		if (n->port == SSHHOSTS_PORT)
			buf_addf(out, "%s ", n->host);
		else
			buf_addf(out, "[%s]:%u ", n->host, n->port);
		buf_addf(out, "%.*s %s\n", (int)type.len, type.p, text);
	}
}

/* --- bytes -------------------------------------------------------------------------------------------------------- */

static void put_host_keys(const struct sshhosts *h, struct wire_out *w)
{
	wire_put(w, h->n, 1);
	for (size_t i = 0; i < h->n; i++) {
		wire_put_text(w, h->v[i].host);
		wire_put(w, h->v[i].port, 2);
		wire_put(w, h->v[i].len, 2);
		wire_put_bytes(w, h->v[i].key, h->v[i].len);
	}
}

int sshhosts_pack(const struct sshhosts *h, struct buf *out)
{
	struct wire_out count = { 0 }, w = { 0 };

	put_host_keys(h, &count);
	w = (struct wire_out){ .p = (uint8_t *)buf_reserve(out, count.len), .cap = count.len };
	if (!w.p)
		return -ENOMEM;
	put_host_keys(h, &w);
	out->len += w.len;
	return w.bad ? -EBADMSG : 0;
}

int sshhosts_unpack(struct sshhosts *ret, const void *data, size_t len)
{
	autosshhosts struct sshhosts h = SSHHOSTS_INIT;
	struct wire_in in = { .p = data, .left = len };
	size_t n = (size_t)wire_get(&in, 1);
	int r = in.bad || n > SSHHOSTS_MAX ? -EBADMSG : 0;

	for (size_t i = 0; i < n && r == 0; i++) {
		char host[HOST_MAX + 1];
		struct slice key;
		uint16_t port;

		wire_get_text(&in, host, sizeof(host));
		port = (uint16_t)wire_get(&in, 2);
		key = wire_get_bytes(&in, (size_t)wire_get(&in, 2));
		r = in.bad ? -EBADMSG : sshhosts_add(&h, host, port, key);
		/* Duplicates are refused. */
		if (r == 0 && h.n != i + 1)
			r = -EBADMSG;
		r = r == -EINVAL ? -EBADMSG : r;
	}
	if (r == 0 && !ssh_is_done(&in))
		r = -EBADMSG;
	if (r < 0)
		return r;
	*ret = h;
	h = SSHHOSTS_INIT;
	return 0;
}
