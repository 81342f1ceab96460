/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The first bytes of a connection: a ClientHello or a request head, read until complete however it is split,
 * and the name in it compared with the name that was looked up.
 *
 *  1. The decision is made once, on the complete bytes, by the policy then in force.
 *  2. A connection to a name must carry that name. One without any (no SNI, HTTP/1.0 without Host) is
 *  refused: the server would choose, not the policy.
 *  3. A connection to an allowed address may carry a name only if no rule denies that name.
 *  4. Bytes that are neither TLS nor HTTP are refused; in observe mode they are relayed as a tunnel.
 */
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "egress/core/flow_int.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define READ_SIZE (32u << 10)
#define OPAQUE_SECONDS 1 /* in observe: after that a client that waits for its server gets one */
#define REFUSED_SECONDS 2

static void peek_read(struct flow *f, const struct policy_verdict *v);

/* May a connection to an address carry this name? Rule 3. */
static bool name_is_denied(const struct flow *f, const struct host *seen)
{
	struct policy_target t = { .name = seen, .port = f->port };
	struct policy_verdict v;

	memset(&v, 0, sizeof(v));
	policy_connect_quietly(f->eg->policy, &t, &v);
	return !policy_allows(&v) &&
	       !v.is_default; /* a name that needs an approval cannot hide in another connection */
}

/* `seen` as it was sent; NULL when the connection may continue with it, else the reason. */
static const char *check_peeked_name(const struct flow *f, const char *seen, size_t len, bool has_name)
{
	struct host h;

	if (!has_name)
		return f->name ? "it names no host (no SNI, no Host header)" : NULL;
	if (host_canon(seen, len, &h, NULL) < 0)
		return "the name in it is not a valid host name";
	if (f->name) {
		if (h.kind == HOST_NAME && h.len == f->name->len && memcmp(h.text, f->name->text, h.len) == 0)
			return NULL;
		/* Rule 4 in observe applies to names as well, unless a rule denies this one. */
		return f->may_be_opaque && h.kind == HOST_NAME && !name_is_denied(f, &h)
			       ? NULL
			       : "the name in it is not the name that was looked up";
	}
	if (h.kind == HOST_ADDR)
		return addr_eq(&h.addr, &f->addr) ? NULL
						  : "the address in it is not the one that was dialled";
	return name_is_denied(f, &h) ? "the name in it is denied" : NULL;
}

static void refuse_name_mismatch(struct flow *f, const struct policy_verdict *v, enum flow_refusal how,
				 const char *why, const char *seen, size_t len)
{
	char name[HOST_MAX + 1] = "", host[HOST_MAX + 1];
	size_t n = len < sizeof(name) ? len : sizeof(name) - 1;

	if (n)
		memcpy(name, seen, n);
	f->eg->stats.mismatched++;
	if (n)
		egress_alert(f->eg, how == FLOW_REFUSE_TLS ? "sni_mismatch" : "host_mismatch",
			     flow_host(f, host), "connected to %s:%u, but requested %s inside",
			     flow_host(f, host), f->port, name);
	flow_refuse(f, v, how, 421, why, n ? name : NULL);
}

static void on_peeked_hello(struct flow *f, const struct policy_verdict *v)
{
	const struct tls_hello *h = f->hello;
	const char *why = check_peeked_name(f, h->sni.p, h->sni.len, h->has_sni);

	if (why) {
		refuse_name_mismatch(f, v, FLOW_REFUSE_TLS, why, h->sni.p, h->has_sni ? h->sni.len : 0);
		return;
	}
	if (f->depth == POLICY_INSPECT && !f->eg->inspector) {
		flow_refuse(f, v, FLOW_REFUSE_TLS, 0, "the rule needs inspection, which is not available",
			    NULL);
		return;
	}
	flow_open(f, v);
}

static void on_peeked_head(struct flow *f, const struct policy_verdict *v)
{
	const struct http1_head *h = f->http;
	const char *why = check_peeked_name(f, h->host.text, h->host.len, h->has_host);

	if (!why && h->port && h->port != f->port)
		why = "the port in it is not the one that was dialled";
	if (why) {
		refuse_name_mismatch(f, v, FLOW_REFUSE_HTTP, why, h->host.text,
				     h->has_host ? h->host.len : 0);
		return;
	}
	if (!f->eg->inspector) {
		flow_refuse(f, v, FLOW_REFUSE_HTTP, 0, "plain HTTP needs inspection, which is not available",
			    NULL);
		return;
	}
	flow_open(f, v);
}

/* A method and a space: the client means HTTP, and will understand a response. */
static bool looks_like_http(const struct buf *b)
{
	size_t n = 0;

	while (n < b->len && n < HTTP1_METHOD_MAX && b->data[n] >= 'A' && b->data[n] <= 'Z')
		n++;
	return n > 0 && (n == b->len || b->data[n] == ' ');
}

static void on_opaque_bytes(struct flow *f, const struct policy_verdict *v)
{
	if (!f->may_be_opaque) {
		flow_refuse(f, v, FLOW_REFUSE_RESET, 0,
			    "it is neither TLS nor HTTP; the rule needs `depth: tunnel` for that", NULL);
		return;
	}
	f->depth = POLICY_TUNNEL;
	flow_open(f, v);
}

/* True when more bytes are needed. */
static bool peek_parse_http(struct flow *f, const struct policy_verdict *v)
{
	long n;

	if (!looks_like_http(&f->first)) {
		on_opaque_bytes(f, v);
		return false;
	}
	if (!f->http) {
		f->http = malloc(sizeof(*f->http));
		if (!f->http) {
			flow_refuse(f, v, FLOW_REFUSE_RESET, 0, "out of memory", NULL);
			return false;
		}
		*f->http = HTTP1_HEAD_INIT;
	}
	n = http1_parse_request(f->http, f->first.data, f->first.len);
	if (n == 0)
		return true;
	if (n < 0)
		flow_refuse(f, v, FLOW_REFUSE_HTTP, f->http->fail_status, f->http->why, NULL);
	else
		on_peeked_head(f, v);
	return false;
}

static bool peek_parse(struct flow *f, const struct policy_verdict *v)
{
	if (f->http)
		return peek_parse_http(f, v);
	if (!f->hello)
		f->hello = calloc(1, sizeof(*f->hello));
	if (!f->hello) {
		flow_refuse(f, v, FLOW_REFUSE_RESET, 0, "out of memory", NULL);
		return false;
	}
	switch (tls_hello_feed(f->hello, f->first.data, f->first.len)) {
	case TLS_HELLO_MORE:
		return true;
	case TLS_HELLO_DONE:
		on_peeked_hello(f, v);
		return false;
	case TLS_HELLO_BAD:
		flow_refuse(f, v, FLOW_REFUSE_TLS, 0, f->hello->why, NULL);
		return false;
	case TLS_HELLO_NOT_TLS:
		break;
	}
	tls_hello_release(f->hello);
	free(f->hello);
	f->hello = NULL;
	return peek_parse_http(f, v);
}

/* The flow is refused already; finds out in which protocol to say so. */
static bool peek_parse_refused(struct flow *f, const struct policy_verdict *v)
{
	long n = 0;

	if (f->first.data[0] == 0x16) {
		flow_refuse(f, v, FLOW_REFUSE_TLS, 0, v->why, NULL);
		return false;
	}
	if (looks_like_http(&f->first)) {
		if (!f->http && (f->http = malloc(sizeof(*f->http))) != NULL)
			*f->http = HTTP1_HEAD_INIT;
		n = f->http ? http1_parse_request(f->http, f->first.data, f->first.len) : -ENOMEM;
		if (n == 0)
			return true;
	}
	flow_refuse(f, v, n > 0 ? FLOW_REFUSE_HTTP : FLOW_REFUSE_RESET, 0, v->why, NULL);
	return false;
}

/* Rule 1: the policy now in force decides. */
static void flow_take_verdict(struct flow *f, const struct policy_verdict *v)
{
	f->depth = (uint8_t)v->depth;
	f->may_be_opaque = policy_mode(f->eg->policy) == POLICY_OBSERVE && (v->would_deny || v->is_default);
}

static void on_first_bytes(struct watch *w, uint32_t events)
{
	struct flow *f = w->ctx;
	struct policy_verdict v;

	(void)events;
	flow_judge(f, &v);
	if (!f->is_refused && !policy_may_allow(&v)) {
		flow_refuse(f, &v, FLOW_REFUSE_RESET, 0, v.why, NULL); /* the policy has changed meanwhile */
		return;
	}
	if (!f->is_refused)
		flow_take_verdict(f, &v);
	peek_read(f, &v);
}

static void peek_wait_for_more(struct flow *f)
{
	f->client.w.fn = on_first_bytes;
	/* Edge-triggered, as relay.c needs it: the socket was read until it was empty. */
	if (loop_watch(&f->eg->loop, &f->client.w, RELAY_EVENTS) < 0)
		flow_reset(f, "error: the connection cannot be watched");
}

static void peek_read(struct flow *f, const struct policy_verdict *v)
{
	for (;;) {
		ssize_t n = recv(f->client.w.fd, f->eg->scratch, READ_SIZE, MSG_DONTWAIT);

		if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
			peek_wait_for_more(f);
			return;
		}
		if (n <= 0) {
			flow_refuse(f, v, FLOW_REFUSE_RESET, 0,
				    "it ended before its first bytes were complete", NULL);
			return;
		}
		buf_add(&f->first, f->eg->scratch, (size_t)n);
		/* Both parsers refuse more than they accept, so this only bounds the surplus of one read. */
		if (buf_error(&f->first) || f->first.len > HTTP1_HEAD_MAX + TLS_HELLO_MAX + READ_SIZE) {
			flow_refuse(f, v, FLOW_REFUSE_RESET, 0, "its first bytes are too long", NULL);
			return;
		}
		if (f->is_refused ? !peek_parse_refused(f, v) : !peek_parse(f, v))
			return;
	}
}

void peek_begin(struct flow *f, const struct policy_verdict *v)
{
	f->state = FLOW_FIRST;
	flow_take_verdict(f, v);
	flow_set_timeout(f, f->may_be_opaque ? OPAQUE_SECONDS : f->eg->times.first);
	flow_set_young(f, true);
	peek_read(f, v);
}

void peek_refused(struct flow *f, const struct policy_verdict *v)
{
	f->eg->stats.denied++;
	flow_journal_open(f, v, false, v->why, NULL);
	f->state = FLOW_FIRST;
	f->is_refused = true;
	flow_set_timeout(f, REFUSED_SECONDS);
	flow_set_young(f, true);
	peek_read(f, v);
}

void peek_timeout(struct flow *f)
{
	struct policy_verdict v;
	char why[128];

	flow_judge(f, &v);
	if (!f->is_refused && policy_may_allow(&v))
		flow_take_verdict(f, &v);
	if (f->may_be_opaque && policy_allows(&v)) {
		if (f->first.len && f->eg->now < f->started + f->eg->times.first * NSEC_PER_SEC) {
			flow_set_timeout(f, f->eg->times.first);
			return;
		}
		on_opaque_bytes(f, &v);
		return;
	}
	snprintf(
		why, sizeof(why),
		f->first.len
			? "its first bytes were not complete within %u s"
			: "it sent nothing for %u s; where the server speaks first, the rule needs `depth: tunnel`",
		f->eg->times.first);
	flow_refuse(f, &v, f->http ? FLOW_REFUSE_HTTP : FLOW_REFUSE_RESET, 408, f->is_refused ? v.why : why,
		    NULL);
}
