/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reassembles the ClientHello from records, then parses it once. Every structure is read through struct part, whose
 * take_…() functions check the length first. The result must not depend on how the bytes were divided (tls_hello.L1).
 */
#include "codec/net/tls_hello.h"

#include <string.h>

enum {
	RECORD_HEAD = 5,
	RECORD_MAX = 16384,
	RECORD_ALERT = 21,
	RECORD_HANDSHAKE = 22,
	MESSAGE_HEAD = 4,
	CLIENT_HELLO = 1,
	SNI_MAX = 255,
};

enum {
	EXT_SERVER_NAME = 0,
	EXT_ALPN = 16,
	EXT_EARLY_DATA = 42,
	EXT_SUPPORTED_VERSIONS = 43,
	EXT_ECH = 0xfe0d,
};

static enum tls_hello_result hello_is_malformed(struct tls_hello *h, const char *why)
{
	h->why = why;
	h->state = TLS_HELLO_BAD;
	return TLS_HELLO_BAD;
}

void tls_hello_release(struct tls_hello *h)
{
	buf_release(&h->msg);
}

/* --- the message -------------------------------------------------------------------------------------------- */

/* The rest of a structure; each take_…() checks the length before it moves. */
struct part {
	const uint8_t *p;
	size_t len;
};

static bool take_hello_int(struct part *s, size_t bytes, size_t *ret)
{
	size_t v = 0;

	if (s->len < bytes)
		return false;
	for (size_t i = 0; i < bytes; i++)
		v = v << 8 | s->p[i];
	s->p += bytes;
	s->len -= bytes;
	*ret = v;
	return true;
}

static bool take_part(struct part *s, size_t len, struct part *ret)
{
	if (s->len < len)
		return false;
	*ret = (struct part){ s->p, len };
	s->p += len;
	s->len -= len;
	return true;
}

/* Takes a vector: its length, an integer of `bytes` bytes, then its content. */
static bool take_vector(struct part *s, size_t bytes, struct part *ret)
{
	size_t len;

	return take_hello_int(s, bytes, &len) && take_part(s, len, ret);
}

static struct slice as_slice(struct part s)
{
	return (struct slice){ (const char *)s.p, s.len };
}

static const char *take_server_name(struct tls_hello *h, struct part ext)
{
	struct part list, name;
	size_t type;

	if (!take_vector(&ext, 2, &list) || ext.len)
		return "its list of server names is malformed";
	if (!take_hello_int(&list, 1, &type) || type != 0 || !take_vector(&list, 2, &name) || list.len)
		return "it does not have exactly one server name";
	if (name.len == 0 || name.len > SNI_MAX)
		return "its server name is empty or too long";
	if (memchr(name.p, 0, name.len))
		return "its server name has a NUL in it";
	h->has_sni = true;
	h->sni = as_slice(name);
	return NULL;
}

static const char *take_alpn(struct tls_hello *h, struct part ext)
{
	struct part list, all, name;

	if (!take_vector(&ext, 2, &list) || ext.len || list.len == 0)
		return "its list of protocols is malformed";
	all = list;
	while (list.len) {
		if (!take_vector(&list, 1, &name) || name.len == 0)
			return "its list of protocols is malformed";
	}
	h->alpn = as_slice(all);
	return NULL;
}

static const char *take_versions(struct tls_hello *h, struct part ext)
{
	struct part list;
	size_t v;

	if (!take_vector(&ext, 1, &list) || ext.len || list.len == 0 || list.len % 2)
		return "its list of versions is malformed";
	h->max_version = 0;
	while (list.len) {
		if (take_hello_int(&list, 2, &v) && v >= 0x0301 && v <= 0x0304 && v > h->max_version)
			h->max_version = (uint16_t)v;
	}
	return h->max_version ? NULL : "it offers no version of TLS that is known";
}

static const char *take_extension(struct tls_hello *h, size_t type, struct part ext)
{
	switch (type) {
	case EXT_SERVER_NAME:
		return take_server_name(h, ext);
	case EXT_ALPN:
		return take_alpn(h, ext);
	case EXT_SUPPORTED_VERSIONS:
		return take_versions(h, ext);
	case EXT_EARLY_DATA:
		h->has_early_data = true;
		return NULL;
	case EXT_ECH:
		h->has_ech = true;
		return NULL;
	default:
		return NULL;
	}
}

static const char *take_extensions(struct tls_hello *h, struct part all)
{
	uint64_t seen[65536 / 64] = { 0 };

	while (all.len) {
		struct part ext;
		const char *why;
		size_t type;

		if (!take_hello_int(&all, 2, &type) || !take_vector(&all, 2, &ext))
			return "an extension is malformed";
		if (seen[type / 64] >> (type % 64) & 1)
			return "an extension is repeated";
		seen[type / 64] |= (uint64_t)1 << (type % 64);
		why = take_extension(h, type, ext);
		if (why)
			return why;
	}
	return NULL;
}

static const char *take_message(struct tls_hello *h, struct part m)
{
	struct part random, session, suites, compressions, extensions = { 0 };
	size_t version;

	if (!take_hello_int(&m, 2, &version) || !take_part(&m, 32, &random) ||
	    !take_vector(&m, 1, &session) || session.len > 32 || !take_vector(&m, 2, &suites) ||
	    suites.len == 0 || suites.len % 2 || !take_vector(&m, 1, &compressions) || compressions.len == 0)
		return "it is malformed";
	if (version < 0x0301 || version > 0x03ff)
		return "its version is not one of TLS";
	h->legacy_version = (uint16_t)version;
	h->max_version = version < 0x0303 ? (uint16_t)version : 0x0303;
	if (m.len && (!take_vector(&m, 2, &extensions) || m.len))
		return "the length of its extensions is wrong";
	return take_extensions(h, extensions);
}

/* --- records ------------------------------------------------------------------------------------------------ */

static size_t message_len(const struct buf *msg)
{
	const uint8_t *p = (const uint8_t *)msg->data;

	return MESSAGE_HEAD + ((size_t)p[1] << 16 | (size_t)p[2] << 8 | p[3]);
}

/* Checks the part of the message that has come, and parses the message once it is complete. */
static enum tls_hello_result check_message(struct tls_hello *h)
{
	const char *why;
	size_t len;

	if (buf_error(&h->msg))
		return hello_is_malformed(h, "out of memory");
	if (h->msg.len && h->msg.data[0] != CLIENT_HELLO)
		return hello_is_malformed(h, "the handshake does not begin with a ClientHello");
	if (h->msg.len < MESSAGE_HEAD)
		return TLS_HELLO_MORE;
	len = message_len(&h->msg);
	if (len > TLS_HELLO_MAX)
		return hello_is_malformed(h, "the ClientHello is too large");
	if (h->msg.len < len)
		return TLS_HELLO_MORE;
	if (h->msg.len > len || h->left)
		return hello_is_malformed(h, "data follows the ClientHello in its record");
	why = take_message(h,
			   (struct part){ (const uint8_t *)h->msg.data + MESSAGE_HEAD, len - MESSAGE_HEAD });
	if (why)
		return hello_is_malformed(h, why);
	h->size = h->seen;
	h->state = TLS_HELLO_DONE;
	return TLS_HELLO_DONE;
}

/* Checks the part of a record's head that has come. TLS_HELLO_DONE means that the head is complete. */
static enum tls_hello_result check_head(struct tls_hello *h, const uint8_t *p, size_t len)
{
	bool first = h->seen == 0;
	bool is_tls = p[0] == RECORD_HANDSHAKE && (len < 2 || p[1] == 3);
	size_t n;

	if (!is_tls && first) {
		h->why = "it is not TLS";
		h->state = TLS_HELLO_NOT_TLS;
		return TLS_HELLO_NOT_TLS;
	}
	if (!is_tls)
		return hello_is_malformed(
			h, "a record that is not a handshake comes before the end of the ClientHello");
	if (len < RECORD_HEAD)
		return TLS_HELLO_MORE;
	n = (size_t)p[3] << 8 | p[4];
	if (n == 0 || n > RECORD_MAX)
		return hello_is_malformed(h, "a record is empty or too large");
	h->left = n;
	h->seen += RECORD_HEAD;
	return TLS_HELLO_DONE;
}

enum tls_hello_result tls_hello_feed(struct tls_hello *h, const void *data, size_t len)
{
	enum tls_hello_result r = (enum tls_hello_result)h->state;
	const uint8_t *p = data;

	BUG_ON(len < h->seen);
	if (r != TLS_HELLO_MORE)
		return r;
	while (h->seen < len) {
		size_t n = len - h->seen;

		if (h->left == 0) {
			r = check_head(h, p + h->seen, n);
			if (r != TLS_HELLO_DONE)
				return r;
			continue;
		}
		n = n < h->left ? n : h->left;
		buf_add(&h->msg, p + h->seen, n);
		h->seen += n;
		h->left -= n;
		r = check_message(h);
		if (r != TLS_HELLO_MORE)
			return r;
	}
	return TLS_HELLO_MORE;
}

bool tls_hello_alpn(const struct tls_hello *h, size_t *at, struct slice *ret)
{
	if (*at >= h->alpn.len)
		return false;
	*ret = (struct slice){ h->alpn.p + *at + 1, (uint8_t)h->alpn.p[*at] };
	*at += 1 + ret->len;
	return true;
}

bool tls_hello_offers(const struct tls_hello *h, const char *alpn)
{
	struct slice s;

	for (size_t at = 0; tls_hello_alpn(h, &at, &s);) {
		if (slice_eq(s, alpn))
			return true;
	}
	return false;
}

void tls_alert_format(enum tls_alert a, uint8_t out[TLS_ALERT_LEN])
{
	const uint8_t record[TLS_ALERT_LEN] = { RECORD_ALERT, 3, 3, 0, 2, 2, (uint8_t)a };

	memcpy(out, record, TLS_ALERT_LEN);
}
