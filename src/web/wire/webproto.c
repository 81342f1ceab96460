/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Packs, parses and checks the messages between coffer-web and cofferd. Pure, except for web_secret_new().
 * Both sides use it on hostile bytes.
 */
#include "web/wire/webproto.h"

#include "base/str.h"

#include <assert.h>
#include <errno.h>
#include <sodium.h>
#include <string.h>

static const char *const role_names[] = { "nobody", "observer", "approver", "operator" };
static_assert(ARRAY_SIZE(role_names) == WEB_ROLE_COUNT, "a name for each role");

const char *web_role_name(enum web_role r)
{
	return role_names[r];
}

int web_role_parse(const char *s)
{
	for (int i = WEB_OBSERVER; i < WEB_ROLE_COUNT; i++) {
		if (str_eq(s, role_names[i]))
			return i;
	}
	return -EINVAL;
}

/* --- values --------------------------------------------------------------------------------------------- */

/* Length of the UTF-8 character at p; 0 if invalid: no overlong form, no surrogate, nothing above U+10FFFF. */
static size_t utf8_len(const unsigned char *p, size_t left)
{
	static const struct {
		unsigned char mask, lead;
		uint32_t least;
	} forms[] = {
		{ 0x80, 0x00, 0 }, { 0xe0, 0xc0, 0x80 }, { 0xf0, 0xe0, 0x800 }, { 0xf8, 0xf0, 0x10000 }
	};

	for (size_t n = 1; n <= ARRAY_SIZE(forms); n++) {
		uint32_t c = p[0] & (unsigned char)~forms[n - 1].mask;

		if ((p[0] & forms[n - 1].mask) != forms[n - 1].lead)
			continue;
		if (n > left)
			return 0;
		for (size_t i = 1; i < n; i++) {
			if ((p[i] & 0xc0) != 0x80)
				return 0;
			c = c << 6 | (p[i] & 0x3f);
		}
		return c < forms[n - 1].least || c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff) ? 0 : n;
	}
	return 0;
}

static bool is_utf8_text(const char *s, size_t len, bool one_line)
{
	const unsigned char *p = (const unsigned char *)s;

	for (size_t i = 0, n; i < len; i += n) {
		n = utf8_len(p + i, len - i);
		if (n == 0 || p[i] == '\0')
			return false;
		/* C0, DEL, and C1, which has two bytes. */
		if (one_line && (p[i] < 0x20 || p[i] == 0x7f || (p[i] == 0xc2 && p[i + 1] < 0xa0)))
			return false;
	}
	return true;
}

static bool has_only_chars(const char *s, size_t len, const char *set)
{
	for (size_t i = 0; i < len; i++) {
		if (!s[i] || !strchr(set, s[i]))
			return false;
	}
	return true;
}

#define DIGITS "0123456789"
#define HEX DIGITS "abcdef"
#define LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

static bool is_ask_id(const char *s, size_t len)
{
	const char *dash = memchr(s, '-', len);
	size_t a = dash ? (size_t)(dash - s) : 0, b = dash ? len - a - 1 : 0;

	return dash && a >= 2 && a <= 12 && b >= 1 && b <= 10 && has_only_chars(s, a, HEX) &&
	       has_only_chars(dash + 1, b, DIGITS);
}

static bool is_env_assignment(const char *s)
{
	size_t n = strcspn(s, "=");

	return n > 0 && n <= 128 && s[n] == '=' && !strchr(DIGITS, s[0]) &&
	       has_only_chars(s, n, LETTERS DIGITS "_");
}

static bool is_valid_list(const struct web_field *f, const struct web_value *v)
{
	size_t n = 0, len;

	for (size_t at = 0; at < v->len; at += len + 1, n++) {
		len = strnlen(v->s + at, v->len - at);
		if (at + len >= v->len || !is_utf8_text(v->s + at, len, false) ||
		    (f->kind == WEB_ENV && !is_env_assignment(v->s + at)))
			return false;
	}
	return n == v->n && n >= f->min && n <= WEBP_ITEMS && v->len <= f->max;
}

static bool is_valid_text(const struct web_field *f, const struct web_value *v)
{
	switch (f->kind) {
	case WEB_TEXT:
	case WEB_LINE:
		return v->len >= f->min && v->len <= f->max &&
		       is_utf8_text(v->s, v->len, f->kind == WEB_LINE);
	case WEB_REF:
		return v->len <= 64 && strlen(v->s) == v->len && str_is_name(v->s);
	case WEB_ASKID:
		return is_ask_id(v->s, v->len);
	case WEB_POINT:
		return v->len >= 2 && v->len <= 11 && v->s[0] == 'c' &&
		       has_only_chars(v->s + 1, v->len - 1, DIGITS);
	case WEB_HEX:
		return v->len == f->max && has_only_chars(v->s, v->len, HEX);
	case WEB_TOKEN:
		return v->len >= f->min && v->len <= f->max &&
		       has_only_chars(v->s, v->len, LETTERS DIGITS "._:,+-");
	case WEB_BYTES:
	case WEB_BASE64:
		return v->len <= f->max;
	default:
		return is_valid_list(f, v);
	}
}

static size_t count_field_words(const struct web_field *f)
{
	size_t n = 0;

	while (f->words[n])
		n++;
	return n;
}

bool web_value_check(const struct web_field *f, const struct web_value *v, const char **why)
{
	static const char *const words[WEB_KIND_COUNT] = {
		[WEB_FLAG] = "must be true or false",
		[WEB_NUM] = "is not a number in the valid range: see the documentation",
		[WEB_WORD] = "is not one of the known words",
		[WEB_TEXT] = "is too long, too short or not UTF-8",
		[WEB_LINE] = "is too long, too short, not UTF-8, or more than a line",
		[WEB_REF] = "is not a valid name or id of a sandbox",
		[WEB_ASKID] = "is not a valid id of a question",
		[WEB_POINT] = "is not a valid checkpoint",
		[WEB_HEX] = "is not a valid digest",
		[WEB_TOKEN] = "has characters that are not valid there, or too many",
		[WEB_ARGV] = "is not a valid list of texts, or too long",
		[WEB_ENV] = "is not a valid object of NAME: text, or too long",
		[WEB_BYTES] = "is too large",
		[WEB_BASE64] = "is too large",
	};
	bool good = f->kind == WEB_FLAG	  ? v->n <= 1
		    : f->kind == WEB_NUM  ? v->n >= f->min && v->n <= f->max
		    : f->kind == WEB_WORD ? v->n < count_field_words(f)
					  : v->s && is_valid_text(f, v);

	*why = words[f->kind];
	return good;
}

const struct web_value *webp_get(const struct webp_req *q, const char *name)
{
	const struct web_route *r = web_route(q->op);

	for (unsigned i = 0; i < web_route_fields(r); i++) {
		if (str_eq(r->fields[i].name, name))
			return q->v[i].has ? &q->v[i] : NULL;
	}
	return NULL;
}

uint64_t webp_num(const struct webp_req *q, const char *name, uint64_t otherwise)
{
	const struct web_value *v = webp_get(q, name);

	return v ? v->n : otherwise;
}

const char *webp_str(const struct webp_req *q, const char *name)
{
	const struct web_value *v = webp_get(q, name);

	return v ? v->s : NULL;
}

/* --- messages ------------------------------------------------------------------------------------------- */

/* Little-endian: magic u32, type u32, id u64; for a request cred u8, key, op u8, then each field of its
 * route. */
#define HEAD 16
#define REQ_HEAD (HEAD + 1 + HASH_LEN + 1)

static void add_le(struct buf *b, uint64_t v, unsigned bytes)
{
	for (unsigned i = 0; i < bytes; i++)
		buf_addc(b, (char)(v >> (8 * i)));
}

static bool is_number_kind(const struct web_field *f)
{
	return f->kind == WEB_FLAG || f->kind == WEB_NUM || f->kind == WEB_WORD;
}

int webp_req_pack(const struct webp_req *q, struct buf *out)
{
	const struct web_route *r = web_route(q->op);
	size_t before = out->len;
	const char *why;

	add_le(out, WEBP_MAGIC, 4);
	add_le(out, WEBP_REQ, 4);
	add_le(out, q->id, 8);
	buf_addc(out, (char)q->cred);
	buf_add(out, q->key, HASH_LEN);
	buf_addc(out, (char)q->op);
	for (unsigned i = 0; i < web_route_fields(r); i++) {
		const struct web_value *v = &q->v[i];

		if (v->has ? !web_value_check(&r->fields[i], v, &why) : r->fields[i].needed)
			return -EINVAL;
		buf_addc(out, v->has ? 1 : 0);
		if (!v->has)
			continue;
		add_le(out, v->n, 8);
		if (is_number_kind(&r->fields[i]))
			continue;
		add_le(out, v->len, 4);
		buf_add(out, v->s, v->len);
		buf_addc(out, '\0');
	}
	if (buf_error(out))
		return -ENOMEM;
	return out->len - before > WEBP_MAX ? -EMSGSIZE : 0;
}

struct webp_reader {
	const unsigned char *p;
	size_t left;
	bool bad;
};

static const unsigned char *take_bytes(struct webp_reader *r, size_t n)
{
	const unsigned char *p = r->p;

	if (r->bad || n > r->left) {
		r->bad = true;
		return NULL;
	}
	r->p += n;
	r->left -= n;
	return p;
}

static uint64_t take_le(struct webp_reader *r, unsigned bytes)
{
	const unsigned char *p = take_bytes(r, bytes);
	uint64_t v = 0;

	for (unsigned i = 0; p && i < bytes; i++)
		v |= (uint64_t)p[i] << (8 * i);
	return v;
}

/* A text is followed by its NUL in the message too, so that it can be used in place. */
static void take_field_value(struct webp_reader *r, const struct web_field *f, struct web_value *v)
{
	uint64_t has = take_le(r, 1);
	const unsigned char *p;
	const char *why;

	r->bad = r->bad || has > 1 || (!has && f->needed);
	if (r->bad || !has)
		return;
	v->n = take_le(r, 8);
	if (!is_number_kind(f)) {
		v->len = take_le(r, 4);
		p = v->len < WEBP_MAX ? take_bytes(r, v->len + 1) : NULL;
		r->bad = r->bad || !p || p[v->len] != '\0';
		v->s = (const char *)p;
	}
	if (r->bad || !web_value_check(f, v, &why))
		r->bad = true;
	else
		v->has = true;
}

static void take_request(struct webp_reader *r, struct webp_req *q)
{
	const unsigned char *key;
	uint64_t cred = take_le(r, 1), op;

	key = take_bytes(r, HASH_LEN);
	op = take_le(r, 1);
	r->bad = r->bad || cred >= WEB_CRED_COUNT || op >= WEB_OP_COUNT;
	if (r->bad || !key)
		return;
	q->cred = (enum web_cred)cred;
	q->op = (enum web_op)op;
	memcpy(q->key, key, HASH_LEN);
	for (unsigned i = 0; i < web_route_fields(web_route(q->op)); i++)
		take_field_value(r, &web_route(q->op)->fields[i], &q->v[i]);
}

/* The id is 0: it belongs to no request. */
int webp_stats_pack(const struct web_stats *s, struct buf *out)
{
	add_le(out, WEBP_MAGIC, 4);
	add_le(out, WEBP_STATS, 4);
	add_le(out, 0, 8);
	for (unsigned i = 0; i <= WEB_STATUS_COUNT; i++)
		add_le(out, s->responses[i], 8);
	add_le(out, s->streams, 8);
	add_le(out, s->connections, 8);
	add_le(out, s->dropped, 8);
	return buf_error(out) ? -ENOMEM : 0;
}

static void take_web_stats(struct webp_reader *r, struct web_stats *s)
{
	for (unsigned i = 0; i <= WEB_STATUS_COUNT; i++)
		s->responses[i] = take_le(r, 8);
	s->streams = take_le(r, 8);
	s->connections = take_le(r, 8);
	s->dropped = take_le(r, 8);
}

int webp_parse(const void *data, size_t len, struct webp_msg *ret)
{
	struct webp_reader r = { .p = data, .left = len };
	struct webp_msg m = { 0 };
	uint64_t magic = take_le(&r, 4), type = take_le(&r, 4);

	m.req.id = take_le(&r, 8);
	if (r.bad || magic != WEBP_MAGIC || (m.req.id == 0) != (type == WEBP_STATS) || len > WEBP_MAX)
		return -EPROTO;
	if (type == WEBP_REQ)
		take_request(&r, &m.req);
	else if (type == WEBP_STATS)
		take_web_stats(&r, &m.stats);
	else
		r.bad = r.bad || type != WEBP_CANCEL;
	if (r.bad || r.left)
		return -EPROTO;
	m.type = (enum webp_type)type;
	*ret = m;
	return 0;
}

static bool is_terminated(const char *s, size_t size)
{
	return memchr(s, '\0', size) != NULL;
}

int webp_answer_parse(const void *data, size_t len, size_t n_fds, struct webp_answer *ret)
{
	static const struct {
		uint32_t type;
		size_t least, most;
	} fds[] = { { WEBP_CONN, 1, 1 },  { WEBP_LISTEN, 1, 1 }, { WEBP_FEED, 1, 1 },
		    { WEBP_REPLY, 0, 1 }, { WEBP_ERROR, 0, 0 },	 { WEBP_OUT, 2, 2 },
		    { WEBP_EXIT, 0, 0 },  { WEBP_OPEN, 0, 0 },	 { WEBP_END, 0, 0 } };
	struct webp_answer a;

	if (len != sizeof(a))
		return -EPROTO;
	memcpy(&a, data, sizeof(a));
	if (a.magic != WEBP_MAGIC || !is_terminated(a.code, sizeof(a.code)) ||
	    !is_terminated(a.message, sizeof(a.message)) || !is_terminated(a.hint, sizeof(a.hint)))
		return -EPROTO;
	for (size_t i = 0; i < ARRAY_SIZE(fds); i++) {
		if (fds[i].type != a.type)
			continue;
		if (n_fds < fds[i].least || n_fds > fds[i].most)
			return -EPROTO;
		*ret = a;
		return 0;
	}
	return -EPROTO;
}

bool webp_legal(enum webp_state s, enum webp_type t)
{
	static const struct {
		bool req, cancel;
	} legal[] = {
		[WEBP_ST_NEW] = { true, false },  [WEBP_ST_WORK] = { false, true },
		[WEBP_ST_EXEC] = { false, true }, [WEBP_ST_STREAM] = { false, true },
		[WEBP_ST_OVER] = { false, true },
	};

	static_assert(ARRAY_SIZE(legal) == WEBP_ST_COUNT, "each state has its row");
	return t == WEBP_REQ ? legal[s].req : t == WEBP_CANCEL && legal[s].cancel;
}

/* --- secrets -------------------------------------------------------------------------------------------- */

void web_secret_hash(const char *text, size_t len, unsigned char ret[HASH_LEN])
{
	hash_sha256(text, len, ret);
}

int web_secret_new(const char *prefix, struct buf *ret, unsigned char ret_hash[HASH_LEN], struct err *e)
{
	unsigned char raw[32];
	char text[sodium_base64_ENCODED_LEN(32, sodium_base64_VARIANT_URLSAFE_NO_PADDING)];
	size_t before = ret->len;

	static_assert(sizeof(text) == WEB_SECRET_LEN + 1, "32 bytes in base64");
	randombytes_buf(raw, sizeof(raw));
	sodium_bin2base64(text, sizeof(text), raw, sizeof(raw), sodium_base64_VARIANT_URLSAFE_NO_PADDING);
	buf_adds(ret, prefix);
	buf_adds(ret, text);
	sodium_memzero(raw, sizeof(raw));
	sodium_memzero(text, sizeof(text));
	if (buf_error(ret))
		return err_set(e, -ENOMEM, "out of memory");
	web_secret_hash(ret->data + before, ret->len - before, ret_hash);
	return 0;
}
