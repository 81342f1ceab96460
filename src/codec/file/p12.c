/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The DER of a PKCS #12 trust store, written by hand: lengths are computed first, then everything is written once. Must not
 * trust the PEM input: a block that is no certificate is skipped.
 */
#include "codec/file/p12.h"

#include "base/base64.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#define BEGIN "-----BEGIN CERTIFICATE-----"
#define END "-----END CERTIFICATE-----"

enum { INTEGER = 0x02, OCTETS = 0x04, SEQUENCE = 0x30, EXPLICIT0 = 0xa0 };

/* Object identifiers, encoded in DER. */
static const uint8_t oid_data[] = { 0x06, 9, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 7, 1 };
static const uint8_t oid_cert_bag[] = { 0x06, 11, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 12, 10, 1, 3 };
static const uint8_t oid_x509[] = { 0x06, 10, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 9, 22, 1 };
/* A set of one attribute: Oracle's trustedKeyUsage (2.16.840.1.113894.746875.1.1), any usage. */
static const uint8_t trusted[] = { 0x31, 24,   0x30, 22, 0x06, 12,   0x60, 0x86, 0x48, 1,    0x86, 0xf9, 0x66,
				   0xad, 0xca, 0x7b, 1,	 1,    0x31, 6,	   0x06, 4,    0x55, 0x1d, 0x25, 0 };
static const uint8_t version[] = { INTEGER, 1, 3 };

static size_t head_len(size_t len)
{
	return len < 0x80 ? 2 : len < 0x100 ? 3 : len < 0x10000 ? 4 : len < 0x1000000 ? 5 : 6;
}

static size_t whole(size_t len)
{
	return head_len(len) + len;
}

static void add_der_head(struct buf *b, uint8_t tag, size_t len)
{
	size_t n = head_len(len) - 2;

	buf_addc(b, (char)tag);
	buf_addc(b, (char)(n ? 0x80 | n : len));
	while (n-- > 0)
		buf_addc(b, (char)(len >> (8 * n)));
}

#define ADD(b, bytes) buf_add(b, bytes, sizeof(bytes))

static size_t bag_len(size_t cert)
{
	return sizeof(oid_cert_bag) + whole(whole(sizeof(oid_x509) + whole(whole(cert)))) + sizeof(trusted);
}

/* SafeBag, in it [0] CertBag, in it [0] OCTET STRING. */
static void add_bag(struct buf *b, const uint8_t *cert, size_t n)
{
	size_t value = sizeof(oid_x509) + whole(whole(n));

	add_der_head(b, SEQUENCE, bag_len(n));
	ADD(b, oid_cert_bag);
	add_der_head(b, EXPLICIT0, whole(value));
	add_der_head(b, SEQUENCE, value);
	ADD(b, oid_x509);
	add_der_head(b, EXPLICIT0, whole(n));
	add_der_head(b, OCTETS, n);
	buf_add(b, cert, n);
	ADD(b, trusted);
}

/* ContentInfo of type data: its length, and the bytes before its `len` bytes of content. */
static size_t info_len(size_t len)
{
	return sizeof(oid_data) + whole(whole(len));
}

static void add_info(struct buf *b, size_t len)
{
	add_der_head(b, SEQUENCE, info_len(len));
	ADD(b, oid_data);
	add_der_head(b, EXPLICIT0, whole(len));
	add_der_head(b, OCTETS, len);
}

/* PFX: the version, and a ContentInfo whose content is a list of one ContentInfo, whose content is the bags. */
static size_t file_len(size_t bags, size_t *ret_list)
{
	*ret_list = whole(info_len(whole(bags)));
	return sizeof(version) + whole(info_len(whole(*ret_list)));
}

static void add_file(struct buf *b, const struct buf *bags)
{
	size_t list, len = file_len(bags->len, &list);

	add_der_head(b, SEQUENCE, len);
	ADD(b, version);
	add_info(b, whole(list));
	add_der_head(b, SEQUENCE, list);
	add_info(b, whole(bags->len));
	add_der_head(b, SEQUENCE, bags->len);
	buf_add(b, bags->data, bags->len);
}

#define NO_DIGIT 0xffu

struct base64 {
	uint8_t value[256]; /* NO_DIGIT: no digit of base64 */
};

static void base64_init(struct base64 *t)
{
	memset(t->value, NO_DIGIT, sizeof(t->value));
	for (uint8_t i = 0; i < 64; i++)
		t->value[(uint8_t)base64_digit(i, false)] = i;
}

/* Decodes base64, with white space anywhere, up to the END line. Returns the number of bytes, 0 when malformed. */
static size_t decode_pem(const struct base64 *t, const char *s, const char *end, uint8_t *out, size_t cap)
{
	uint32_t bits = 0;
	unsigned have = 0, pads = 0;
	size_t n = 0;

	for (; s < end && *s != '-'; s++) {
		uint8_t v = t->value[(uint8_t)*s];

		if (v == NO_DIGIT && (*s == '\n' || *s == '\r' || *s == ' ' || *s == '\t'))
			continue;
		pads += *s == '=';
		if (*s == '=')
			continue;
		if (v == NO_DIGIT || pads || n == cap)
			return 0;
		bits = bits << 6 | v;
		have += 6;
		if (have >= 8) {
			have -= 8;
			out[n++] = (uint8_t)(bits >> have);
		}
	}
	if (pads > 2 || have == 6 || (size_t)(end - s) < strlen(END) || memcmp(s, END, strlen(END)) != 0)
		return 0;
	return n;
}

/*
 * Is it one SEQUENCE that begins with another, with nothing after it? That keeps the store well-formed. The program
 * that reads the store judges the certificate's content.
 */
static bool is_certificate(const uint8_t *d, size_t n)
{
	size_t len;

	/* No certificate is shorter than this, so the length is in the long form, with one byte or two. */
	if (n < 0x83 || d[0] != SEQUENCE)
		return false;
	if (d[1] == 0x81)
		len = d[2];
	else if (d[1] == 0x82)
		len = (size_t)d[2] << 8 | d[3];
	else
		return false;
	return head_len(len) == 2u + (d[1] & 0xf) && whole(len) == n && d[head_len(len)] == SEQUENCE;
}

int p12_add_trusted(struct buf *out, const char *pem, size_t len, size_t cap)
{
	autobuf struct buf bags = BUF_INIT;
	uint8_t cert[P12_CERT_MAX];
	const char *end = pem + len, *at = pem;
	struct base64 t;
	size_t list;
	int count = 0;

	base64_init(&t);
	while (at < end && (at = memmem(at, (size_t)(end - at), BEGIN, strlen(BEGIN)))) {
		size_t n;

		at += strlen(BEGIN);
		n = decode_pem(&t, at, end, cert, sizeof(cert));
		if (!is_certificate(cert, n))
			continue;
		if (whole(file_len(bags.len + whole(bag_len(n)), &list)) > cap)
			break;
		add_bag(&bags, cert, n);
		count++;
	}
	add_file(out, &bags);
	return buf_error(&bags) || buf_error(out) ? -ENOMEM : count;
}
