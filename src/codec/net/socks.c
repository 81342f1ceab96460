/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The client of SOCKS5 as a state machine: each server message is checked, then the next request is added. Must not read
 * past the reply: those bytes belong to the tunnel.
 */
#include "codec/net/socks.h"

#include <errno.h>
#include <string.h>

enum {
	VERSION = 5,
	AUTH_VERSION = 1,
	METHOD_NONE = 0,
	METHOD_PASSWORD = 2,
	METHOD_REFUSED = 0xff,
	COMMAND_CONNECT = 1,
	TYPE_V4 = 1,
	TYPE_NAME = 3,
	TYPE_V6 = 4,
};

enum { AT_START, AT_METHOD, AT_AUTH, AT_REPLY, AT_DONE };

static int garbled(struct err *e, const char *what)
{
	return err_set(e, -EBADMSG, "the proxy does not speak SOCKS5: %s", what);
}

static bool fits_credential(const char *s)
{
	size_t n = strlen(s);

	return n >= 1 && n <= SOCKS_CREDENTIAL_MAX;
}

int socks_start(struct socks *s, struct buf *out, struct err *e)
{
	static const uint8_t plain[] = { VERSION, 1, METHOD_NONE },
			     both[] = { VERSION, 2, METHOD_NONE, METHOD_PASSWORD };

	BUG_ON(s->state != AT_START);
	if (s->user && (!fits_credential(s->user) || !s->password || !fits_credential(s->password)))
		return err_set(e, -EINVAL, "a SOCKS5 user name and password have 1 to %d bytes each",
			       SOCKS_CREDENTIAL_MAX);
	if (s->user)
		buf_add(out, both, sizeof(both));
	else
		buf_add(out, plain, sizeof(plain));
	s->state = AT_METHOD;
	return buf_error(out);
}

static void add_counted(struct buf *out, const char *s, size_t n)
{
	buf_addc(out, (char)n);
	buf_add(out, s, n);
}

static void add_request(const struct socks *s, struct buf *out)
{
	const struct host *h = s->host;
	bool v4 = h->kind == HOST_ADDR && addr_is_v4(&h->addr);

	buf_addc(out, VERSION);
	buf_addc(out, COMMAND_CONNECT);
	buf_addc(out, 0);
	if (h->kind == HOST_NAME) {
		buf_addc(out, TYPE_NAME);
		add_counted(out, h->text, h->len);
	} else {
		buf_addc(out, v4 ? TYPE_V4 : TYPE_V6);
		buf_add(out, h->addr.b + (v4 ? 12 : 0), v4 ? 4 : 16);
	}
	buf_addc(out, (char)(s->port >> 8));
	buf_addc(out, (char)s->port);
}

/* Each take_…() reads one message of the server: returns its length, 0 when more bytes are needed, or an error. */
static long take_method(struct socks *s, const uint8_t *p, size_t len, struct buf *out, struct err *e)
{
	if (p[0] != VERSION)
		return garbled(e, "its first byte is not 5");
	if (len < 2)
		return 0;
	if (p[1] == METHOD_REFUSED)
		return err_set(e, -EACCES,
			       s->user ? "the proxy accepts neither password nor anonymous login"
				       : "the proxy requires credentials");
	if (p[1] == METHOD_PASSWORD && s->user) {
		s->wants_auth = true;
		buf_addc(out, AUTH_VERSION);
		add_counted(out, s->user, strlen(s->user));
		add_counted(out, s->password, strlen(s->password));
		s->state = AT_AUTH;
		return 2;
	}
	if (p[1] != METHOD_NONE)
		return garbled(e, "it chose a method that was not offered");
	add_request(s, out);
	s->state = AT_REPLY;
	return 2;
}

static long take_auth(struct socks *s, const uint8_t *p, size_t len, struct buf *out, struct err *e)
{
	if (p[0] != AUTH_VERSION)
		return garbled(e, "its reply to the user name and password is malformed");
	if (len < 2)
		return 0;
	if (p[1] != 0)
		return err_set(e, -EACCES, "the proxy did not accept the user name and password");
	add_request(s, out);
	s->state = AT_REPLY;
	return 2;
}

/* The length of a reply by its address type; 0 while the byte with the length of a name is missing. */
static size_t reply_len(const uint8_t *p, size_t len)
{
	if (p[3] == TYPE_V4)
		return 4 + 4 + 2;
	if (p[3] == TYPE_V6)
		return 4 + 16 + 2;
	return len < 5 ? 0 : 4 + 1 + (size_t)p[4] + 2;
}

static long take_reply(struct socks *s, const uint8_t *p, size_t len, struct err *e)
{
	size_t n;

	if (p[0] != VERSION)
		return garbled(e, "its reply does not begin with 5");
	if (len < 2)
		return 0;
	if (p[1] != 0) {
		s->reply = p[1];
		return err_set(e, -ECONNREFUSED, "the proxy refused: %s", socks_reply_text(p[1]));
	}
	if (len < 4)
		return 0;
	if (p[2] != 0 || (p[3] != TYPE_V4 && p[3] != TYPE_NAME && p[3] != TYPE_V6))
		return garbled(e, "its reply is malformed");
	n = reply_len(p, len);
	if (n == 0 || len < n)
		return 0;
	s->state = AT_DONE;
	return (long)n;
}

int socks_feed(struct socks *s, const uint8_t *data, size_t len, size_t *ret_used, struct buf *out,
	       struct err *e)
{
	size_t used = 0;
	long n = 1;

	BUG_ON(s->state == AT_START);
	*ret_used = 0;
	while (n > 0 && used < len && s->state != AT_DONE) {
		const uint8_t *p = data + used;

		if (s->state == AT_METHOD)
			n = take_method(s, p, len - used, out, e);
		else if (s->state == AT_AUTH)
			n = take_auth(s, p, len - used, out, e);
		else
			n = take_reply(s, p, len - used, e);
		if (n > 0)
			used += (size_t)n;
	}
	*ret_used = used;
	if (n >= 0 && buf_error(out))
		return buf_error(out);
	return n < 0 ? (int)n : s->state == AT_DONE;
}

const char *socks_reply_text(unsigned code)
{
	static const char *const texts[] = {
		"succeeded",
		"general failure",
		"not allowed by its rules",
		"network unreachable",
		"host unreachable",
		"connection refused",
		"time to live expired",
		"command not supported",
		"address type not supported",
	};

	return code < sizeof(texts) / sizeof(texts[0]) ? texts[code] : "an unknown reason";
}
