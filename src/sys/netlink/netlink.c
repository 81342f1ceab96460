/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One buffer of netlink requests: building them, sending them in one call, and reading the kernel's responses.
 * A request that does not fit makes nl_commit() fail; nothing is sent in part.
 */
#include "sys/netlink/netlink.h"

#include "base/fd.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/netlink.h>
#include <string.h>
#include <sys/socket.h>

int nl_open(struct nl *n, int protocol, struct err *e)
{
	n->fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, protocol);
	n->first = n->n = n->ack = 0;
	n->len = n->at = 0;
	n->failed = false;
	return n->fd < 0 ? err_sys(e, -errno, "cannot access the kernel's network configuration") : 0;
}

/* Reserves `len` bytes in the buffer, zeroed up to the alignment; NULL when they do not fit. */
static void *reserve_attr(struct nl *n, size_t len)
{
	size_t whole = NLMSG_ALIGN(len);
	char *p = n->buf + n->len;

	if (n->failed || whole > sizeof(n->buf) - n->len) {
		n->failed = true;
		return NULL;
	}
	memset(p, 0, whole);
	n->len += whole;
	return p;
}

static struct nlmsghdr *last_request(struct nl *n)
{
	return (struct nlmsghdr *)(void *)(n->buf + n->at);
}

/* Updates the length in the header of the last request. */
static void update_request_len(struct nl *n)
{
	if (!n->failed)
		last_request(n)->nlmsg_len = (uint32_t)(n->len - n->at);
}

void nl_begin(struct nl *n, const char *what, uint16_t type, uint16_t flags, const void *head, size_t len)
{
	size_t at = n->len;
	struct nlmsghdr *h = n->n < NL_REQUESTS ? reserve_attr(n, sizeof(*h)) : NULL;
	void *p = h ? reserve_attr(n, len) : NULL;

	if (!p) {
		n->failed = true;
		return;
	}
	n->at = at;
	h->nlmsg_type = type;
	h->nlmsg_flags = NLM_F_REQUEST | flags;
	h->nlmsg_seq = n->first + n->n;
	n->what[n->n++] = what;
	memcpy(p, head, len);
	update_request_len(n);
}

void nl_put(struct nl *n, uint16_t attr, const void *data, size_t len)
{
	struct nlattr *a = reserve_attr(n, NLA_HDRLEN + len);

	if (!a)
		return;
	a->nla_type = attr;
	a->nla_len = (uint16_t)(NLA_HDRLEN + len);
	if (len)
		memcpy((char *)a + NLA_HDRLEN, data, len);
	update_request_len(n);
}

void nl_put_u8(struct nl *n, uint16_t attr, uint8_t v)
{
	nl_put(n, attr, &v, sizeof(v));
}

void nl_put_u32(struct nl *n, uint16_t attr, uint32_t v)
{
	nl_put(n, attr, &v, sizeof(v));
}

void nl_put_be32(struct nl *n, uint16_t attr, uint32_t v)
{
	nl_put_u32(n, attr, htonl(v));
}

void nl_put_str(struct nl *n, uint16_t attr, const char *s)
{
	nl_put(n, attr, s, strlen(s) + 1);
}

void nl_append(struct nl *n, const void *data, size_t len)
{
	void *p = reserve_attr(n, len);

	if (!p)
		return;
	memcpy(p, data, len);
	update_request_len(n);
}

size_t nl_nest(struct nl *n, uint16_t attr)
{
	size_t at = n->len;

	nl_put(n, attr | NLA_F_NESTED, NULL, 0);
	return at;
}

void nl_unnest(struct nl *n, size_t nest)
{
	if (!n->failed)
		((struct nlattr *)(void *)(n->buf + nest))->nla_len = (uint16_t)(n->len - nest);
}

void nl_want_ack(struct nl *n)
{
	if (n->failed || !n->n)
		return;
	last_request(n)->nlmsg_flags |= NLM_F_ACK;
	n->ack = n->n - 1;
}

static int explain_refusal(const struct nl *n, const struct nlmsgerr *answer, struct err *e)
{
	uint32_t i = answer->msg.nlmsg_seq - n->first;
	const char *what = i < n->n ? n->what[i] : "a request";

	return err_sys(e, answer->error, "cannot build the sandbox's network (%s)", what);
}

/* Reads one datagram from the kernel: 1 when it acknowledges the request that we wait for. */
static int read_response(const struct nl *n, struct nlmsghdr *h, size_t left, struct err *e)
{
	int done = 0;

	for (; NLMSG_OK(h, left); h = NLMSG_NEXT(h, left)) {
		const struct nlmsgerr *answer = NLMSG_DATA(h);

		if (h->nlmsg_type != NLMSG_ERROR || h->nlmsg_len < NLMSG_LENGTH(sizeof(*answer)))
			continue;
		if (answer->error)
			return explain_refusal(n, answer, e);
		if (h->nlmsg_seq == n->first + n->ack)
			done = 1;
	}
	return done;
}

/* The kernel handles requests and responds before send() returns, so a response that is missing now never comes. */
static int read_responses(struct nl *n, struct err *e)
{
	alignas(8) char buf[4096];
	int ret = 0;

	for (;;) {
		ssize_t got = recv(n->fd, buf, sizeof(buf), MSG_DONTWAIT);

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			break;
		/* The first refusal is the error; later ones are read and dropped. */
		if (ret >= 0) {
			int r = read_response(n, (struct nlmsghdr *)(void *)buf, (size_t)got, e);

			ret = r ? r : ret;
		}
	}
	if (ret == 0)
		return err_set(e, -EPROTO, "the kernel did not respond to the network configuration");
	return ret < 0 ? ret : 0;
}

int nl_commit(struct nl *n, struct err *e)
{
	ssize_t sent;
	int r;

	if (n->failed || n->n == 0)
		return err_set(e, -EMSGSIZE, "a request to the kernel's network configuration is too long");
	do {
		sent = send(n->fd, n->buf, n->len, 0);
	} while (sent < 0 && errno == EINTR);
	r = sent < 0 ? err_sys(e, -errno, "cannot access the kernel's network configuration")
		     : read_responses(n, e);
	n->first += n->n;
	n->n = 0;
	n->len = n->at = 0;
	return r;
}
